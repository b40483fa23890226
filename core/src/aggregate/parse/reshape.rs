//! `$project`, `$set` and `$unset`: named fields as one tree, however they were spelled (`{"a.b":1}` is
//! `{a:{b:1}}`).

use bson::{RawBsonRef, RawDocument};

use super::super::{FIELDS_MAX, Field, Fields, Mode, PipelineError, Reshape, Stage};
use super::expression::{expression, operator};
use super::{is_id, path};
use crate::value::number::Number;

/// `$project`.
pub(super) fn project(document: &RawDocument) -> Result<Stage, PipelineError> {
    let mut reader = Reader {
        set: false,
        fields: Fields::default(),
        count: 0,
        shows: None,
        id: None,
    };
    reader.document(document, "")?;
    // Fields that are shown or computed, or `_id` alone that is shown.
    let include = match (reader.shows, reader.id) {
        (Some(shows), _) => shows,
        (None, Some(id)) => id,
        (None, None) => match reader.fields.0.is_empty() {
            true => return Err(PipelineError::operand("$project needs at least one field")),
            // Only `_id`, computed.
            false => true,
        },
    };
    let mut fields = reader.fields;
    let computed = fields.0.iter().any(|(name, _)| &**name == "_id");
    match (include, reader.id) {
        (true, Some(true)) | (false, Some(false)) => fields.0.insert(0, id_named()),
        (true, None) if !computed => fields.0.insert(0, id_named()),
        _ => {}
    }
    let mode = if include {
        Mode::Include
    } else {
        Mode::Exclude
    };
    Ok(Stage::Reshape(Reshape { mode, fields }))
}

fn id_named() -> (Box<str>, Field) {
    ("_id".into(), Field::Named)
}

/// `$set`.
pub(super) fn set(document: &RawDocument) -> Result<Stage, PipelineError> {
    let mut reader = Reader {
        set: true,
        fields: Fields::default(),
        count: 0,
        shows: None,
        id: None,
    };
    reader.document(document, "")?;
    match reader.fields.0.is_empty() {
        true => Err(PipelineError::operand("$set needs at least one field")),
        false => Ok(Stage::Reshape(Reshape {
            mode: Mode::Set,
            fields: reader.fields,
        })),
    }
}

/// `$unset`: a path, or several.
pub(super) fn unset(value: RawBsonRef<'_>) -> Result<Stage, PipelineError> {
    let wrong = || PipelineError::operand("$unset needs a path, or an array of paths");
    let mut fields = Fields::default();
    match value {
        RawBsonRef::String(text) => fields.add(&gone(text)?, Field::Named)?,
        RawBsonRef::Array(array) => {
            for (index, member) in array.into_iter().enumerate() {
                let added = match member? {
                    _ if index == FIELDS_MAX => Err(too_many()),
                    RawBsonRef::String(text) => {
                        gone(text).and_then(|path| fields.add(&path, Field::Named))
                    }
                    _ => Err(wrong()),
                };
                added.map_err(|error| error.within(index))?;
            }
        }
        _ => {}
    }
    if fields.0.is_empty() {
        return Err(wrong());
    }
    Ok(Stage::Reshape(Reshape {
        mode: Mode::Exclude,
        fields,
    }))
}

fn gone(text: &str) -> Result<Box<str>, PipelineError> {
    match text.starts_with("_id.") {
        true => Err(PipelineError::path("_id is hidden as a whole")),
        false => path(text),
    }
}

fn too_many() -> PipelineError {
    PipelineError::too_many(format!("a stage names {FIELDS_MAX} fields at most"))
}

struct Reader {
    set: bool,
    fields: Fields,
    count: usize,
    /// Whether fields are shown (or computed), or hidden; `_id` says nothing about the others.
    shows: Option<bool>,
    id: Option<bool>,
}

impl Reader {
    fn document(&mut self, document: &RawDocument, above: &str) -> Result<(), PipelineError> {
        for field in document {
            let (name, value) = field?;
            let name = name.as_str();
            self.field(name, value, above)
                .map_err(|error| error.within(name))?;
        }
        Ok(())
    }

    fn field(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
        above: &str,
    ) -> Result<(), PipelineError> {
        self.count += 1;
        if self.count > FIELDS_MAX {
            return Err(too_many());
        }
        let path = match above {
            "" => path(name)?,
            above => path(&format!("{above}.{name}"))?,
        };
        match value {
            RawBsonRef::Document(inner) if operator(inner)?.is_none() => {
                if inner.is_empty() {
                    return Err(PipelineError::operand("a document of fields is not empty"));
                }
                return self.document(inner, &path);
            }
            RawBsonRef::Boolean(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
                if !self.set =>
            {
                return self.named(&path, truth(value));
            }
            _ => {}
        }
        self.show(&path, true)?;
        let computed = Field::Computed(expression(value)?);
        self.fields.add(&path, computed)
    }

    fn named(&mut self, path: &str, show: bool) -> Result<(), PipelineError> {
        if path == "_id" {
            let taken = self.fields.0.iter().any(|(name, _)| &**name == "_id");
            if taken || self.id.replace(show).is_some() {
                return Err(PipelineError::path("_id is named twice"));
            }
            return Ok(());
        }
        self.show(path, show)?;
        self.fields.add(path, Field::Named)
    }

    fn show(&mut self, path: &str, show: bool) -> Result<(), PipelineError> {
        if path.starts_with("_id.") {
            return Err(PipelineError::path(
                "_id is shown, hidden or set as a whole",
            ));
        }
        if is_id(path) && self.id.is_some() {
            return Err(PipelineError::path("_id is named twice"));
        }
        match self.shows {
            Some(shows) if shows != show => Err(PipelineError::operand(
                "fields are either shown and computed, or hidden (but for _id)",
            )),
            // A computed `_id` makes the others shown, too.
            _ => {
                self.shows = Some(show);
                Ok(())
            }
        }
    }
}

fn truth(value: RawBsonRef<'_>) -> bool {
    match value {
        RawBsonRef::Boolean(truth) => truth,
        number => Number::of(number).and_then(|n| n.to_i64_exact()) != Some(0),
    }
}

impl Fields {
    /// Adds what becomes of a path.
    pub(super) fn add(&mut self, path: &str, field: Field) -> Result<(), PipelineError> {
        let overlap = || PipelineError::path("a path is named twice, or lies within another");
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let known = self.0.iter_mut().find(|(known, _)| &**known == name);
        match (known, rest) {
            (None, None) => {
                self.0.push((name.into(), field));
                Ok(())
            }
            (None, Some(rest)) => {
                let mut within = Fields::default();
                within.add(rest, field)?;
                self.0.push((name.into(), Field::Within(within)));
                Ok(())
            }
            (Some((_, Field::Within(within))), Some(rest)) => within.add(rest, field),
            (Some(_), _) => Err(overlap()),
        }
    }
}
