//! The order of a query's answer: `sort=price,-created.at`. Always total, since `_id` is the last field.

use bson::RawDocumentBuf;
use bson::raw::CString;

use crate::value::path::Path;

use super::SORT_FIELDS_MAX;
pub use crate::value::sort::Direction;

use super::parameter::{PathError, check_path, split_signed};

/// One field of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SortField {
    /// Dotted path.
    pub path: Box<str>,
    /// Its direction.
    pub direction: Direction,
}

/// A total order of documents. The last field is `_id`, and only the last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sort(Vec<SortField>);

/// Why a `sort` is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SortError {
    /// Not a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A path twice.
    #[error("a field is named twice")]
    Repeated,
    /// More fields than [`SORT_FIELDS_MAX`].
    #[error("more than {SORT_FIELDS_MAX} fields")]
    TooMany,
}

impl Default for Sort {
    fn default() -> Sort {
        Sort(vec![by_id()])
    }
}

impl Sort {
    /// Reads the parameter's text.
    ///
    /// # Errors
    /// The first rule it breaks.
    pub fn parse(text: &str) -> Result<Sort, SortError> {
        let mut fields: Vec<SortField> = Vec::new();
        for part in text.split(',') {
            let (negative, path) = split_signed(part);
            check_path(path)?;
            if fields.iter().any(|field| *field.path == *path) {
                return Err(SortError::Repeated);
            }
            if fields.len() == SORT_FIELDS_MAX {
                return Err(SortError::TooMany);
            }
            fields.push(SortField {
                path: path.into(),
                direction: if negative {
                    Direction::Descending
                } else {
                    Direction::Ascending
                },
            });
        }
        match fields.iter().position(|field| &*field.path == "_id") {
            Some(id) => fields.truncate(id + 1),
            None => fields.push(by_id()),
        }
        Ok(Sort(fields))
    }

    /// The fields, the last of which is `_id`.
    #[must_use]
    pub fn fields(&self) -> &[SortField] {
        &self.0
    }

    /// When documents are ordered by `_id` alone: its direction.
    #[must_use]
    pub fn id_only(&self) -> Option<Direction> {
        match &self.0[..] {
            [id] => Some(id.direction),
            _ => None,
        }
    }

    /// The pattern that sort keys are computed under.
    #[must_use]
    pub fn pattern(&self) -> Vec<(Path, Direction)> {
        let field = |field: &SortField| (Path::new(&field.path), field.direction);
        self.0.iter().map(field).collect()
    }

    /// The canonical text; empty for the default.
    #[must_use]
    pub fn text(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for field in &self.0 {
            match (field.direction, &*field.path) {
                (Direction::Ascending, "_id") => {}
                (Direction::Ascending, path) => parts.push(path.to_owned()),
                (Direction::Descending, path) => parts.push(format!("-{path}")),
            }
        }
        parts.join(",")
    }

    /// The document the database is given.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        let mut document = RawDocumentBuf::new();
        for field in &self.0 {
            // A checked path holds no U+0000.
            if let Ok(name) = CString::try_from(&*field.path) {
                let direction = match field.direction {
                    Direction::Ascending => 1,
                    Direction::Descending => -1,
                };
                document.append(name, direction);
            }
        }
        document
    }
}

fn by_id() -> SortField {
    SortField {
        path: "_id".into(),
        direction: Direction::Ascending,
    }
}
