//! What a document must be before a store takes it: the rules that MongoDB has and both adapters keep, so
//! that they refuse alike and a written document is exactly the one that was sent.

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::port::StoreError;

/// The largest document, in bytes (MongoDB's `maxBsonObjectSize`).
pub const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Checks a document that carries its own `_id`, and says what that is.
pub(super) fn checked_document(document: &RawDocument) -> Result<RawBsonRef<'_>, StoreError> {
    if document.as_bytes().len() > DOCUMENT_BYTES_MAX {
        return Err(StoreError::TooLarge);
    }
    let mut id = None;
    for field in document {
        let (name, value) = field.map_err(|error| StoreError::BadRequest(error.to_string()))?;
        match (name.as_str(), value) {
            ("_id", value) => id = Some(value),
            // MongoDB puts its own time in the place of an empty one.
            (name, RawBsonRef::Timestamp(time)) if time.time == 0 && time.increment == 0 => {
                return Err(StoreError::BadRequest(format!(
                    "the empty timestamp in {name} would be replaced by the database"
                )));
            }
            (name, _) if name.starts_with('$') => {
                return Err(StoreError::BadRequest(
                    "a field name begins with $".to_owned(),
                ));
            }
            _ => {}
        }
    }
    let id = id.ok_or_else(|| StoreError::BadRequest("the document has no _id".to_owned()))?;
    checked_id(id)
}

/// Whether MongoDB takes this as an `_id`.
pub(super) fn checked_id(id: RawBsonRef<'_>) -> Result<RawBsonRef<'_>, StoreError> {
    match id {
        RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined => {
            Err(StoreError::BadRequest(
                "an _id is not an array, a regular expression or undefined".to_owned(),
            ))
        }
        id => Ok(id),
    }
}

/// The document with this `_id`, first. One that it carries already must be equal.
pub(super) fn identified(
    document: &RawDocument,
    id: RawBsonRef<'_>,
) -> Result<RawDocumentBuf, StoreError> {
    checked_id(id)?;
    let mut identified = RawDocumentBuf::new();
    identified.append(bson::raw::cstr!("_id"), id);
    for field in document {
        let (name, value) = field.map_err(|error| StoreError::BadRequest(error.to_string()))?;
        if name.as_str() != "_id" {
            identified.append(name, value);
        } else if !freshet_core::value::compare::equal(value, id) {
            return Err(StoreError::BadRequest(
                "the document's _id is not that of the record".to_owned(),
            ));
        }
    }
    checked_document(&identified)?;
    Ok(identified)
}

/// The document without its `_id`.
pub(super) fn unidentified(document: &RawDocument) -> Result<RawDocumentBuf, StoreError> {
    let mut unidentified = RawDocumentBuf::new();
    for field in document {
        let (name, value) = field.map_err(|error| StoreError::BadRequest(error.to_string()))?;
        if name.as_str() != "_id" {
            unidentified.append(name, value);
        }
    }
    Ok(unidentified)
}
