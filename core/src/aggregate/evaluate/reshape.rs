//! `$project`, `$set`, `$unset`, and setting one path (the server's `ProjectionNode`).

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::super::{Field, Fields, Mode, Reshape};
use super::{Failure, Value, evaluate};
use crate::value::path::{elements, field};

/// The document after the stage.
pub(super) fn reshape(reshape: &Reshape, root: &RawDocument) -> Result<RawDocumentBuf, Failure> {
    let shaping = Shaping {
        mode: reshape.mode,
        root,
    };
    shaping.document(root, &reshape.fields)
}

/// What a projection without computed fields shows.
pub(in crate::aggregate) fn shown(shape: &Reshape, document: &RawDocument) -> RawDocumentBuf {
    // Nothing is evaluated, so nothing can fail; if it did, no two documents would be the same.
    reshape(shape, document).unwrap_or_else(|_| document.to_owned())
}

struct Shaping<'d> {
    mode: Mode,
    root: &'d RawDocument,
}

impl Shaping<'_> {
    /// First what is there, in its order; then what is computed and was not there, in the order of the request.
    fn document(&self, document: &RawDocument, fields: &Fields) -> Result<RawDocumentBuf, Failure> {
        let mut shaped = RawDocumentBuf::new();
        let mut placed: Vec<&str> = Vec::new();
        for element in document.iter_elements().map_while(Result::ok) {
            let Ok(value) = element.value() else { break };
            let name = element.key().as_str();
            let named = fields.0.iter().find(|(known, _)| &**known == name);
            let value = match (named, self.mode) {
                (None, Mode::Include) => None,
                (None, _) => Some(value.into()),
                (Some((_, Field::Named)), mode) => (mode == Mode::Include).then(|| value.into()),
                // A computed field that was there keeps its place, but not where only what is named stays.
                (Some((_, Field::Computed(_))), Mode::Include) => continue,
                (Some((known, Field::Computed(computed))), _) => {
                    placed.push(known);
                    evaluate(computed, self.root)?
                }
                (Some((known, Field::Within(within))), _) => {
                    placed.push(known);
                    self.value(Some(value), within)?
                }
            };
            put(&mut shaped, name, value);
        }
        for (name, field) in &fields.0 {
            if placed.contains(&&**name) {
                continue;
            }
            let value = match field {
                Field::Named => None,
                Field::Computed(computed) => evaluate(computed, self.root)?,
                Field::Within(within) => self.value(None, within)?,
            };
            put(&mut shaped, name, value);
        }
        Ok(shaped)
    }

    /// A value on the way to named fields: documents are shaped, arrays element by element; in place of anything
    /// else comes a document of what is computed, if anything is.
    fn value(&self, value: Option<RawBsonRef<'_>>, fields: &Fields) -> Result<Value, Failure> {
        Ok(match value {
            Some(RawBsonRef::Document(document)) => {
                Some(RawBson::Document(self.document(document, fields)?))
            }
            Some(RawBsonRef::Array(array)) => {
                let mut shaped = RawArrayBuf::new();
                for element in elements(array) {
                    if let Some(element) = self.value(Some(element), fields)? {
                        shaped.push(element);
                    }
                }
                Some(RawBson::Array(shaped))
            }
            _ if fields.computes() => {
                let document = self.document(crate::value::empty(), fields)?;
                Some(RawBson::Document(document))
            }
            other if self.mode != Mode::Include => other.map(RawBson::from),
            _ => None,
        })
    }
}

/// The value at a path that runs through documents only.
pub(super) fn nested<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let (mut document, mut path) = (document, path);
    while let Some((name, rest)) = path.split_once('.') {
        document = field(document, name)?.as_document()?;
        path = rest;
    }
    field(document, path)
}

/// The document with another value at a path, or none; whatever is no document on the way becomes one.
pub(super) fn with_nested(document: &RawDocument, path: &str, value: Value) -> RawDocumentBuf {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let inner = |old: Option<RawBsonRef<'_>>, value: Value| match rest {
        None => value,
        Some(rest) => {
            let document = old.and_then(|old| old.as_document());
            let document = document.unwrap_or(crate::value::empty());
            Some(RawBson::Document(with_nested(document, rest, value)))
        }
    };
    let mut changed = RawDocumentBuf::new();
    let mut value = Some(value);
    for element in document.iter_elements().map_while(Result::ok) {
        let Ok(old) = element.value() else { break };
        match value.take_if(|_| element.key().as_str() == name) {
            Some(new) => put(&mut changed, name, inner(Some(old), new)),
            None => put(&mut changed, element.key().as_str(), Some(old.into())),
        }
    }
    if let Some(new) = value {
        put(&mut changed, name, inner(None, new));
    }
    changed
}

fn put(document: &mut RawDocumentBuf, name: &str, value: Value) {
    // Names come out of BSON documents or were checked: they hold no U+0000.
    if let (Some(value), Ok(name)) = (value, CString::try_from(name)) {
        document.append(name, value);
    }
}
