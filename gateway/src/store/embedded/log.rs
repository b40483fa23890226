//! The change log's entries: what one committed write did to one record, with both images.

use bson::raw::cstr;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::name::Namespace;
use freshet_core::time::Position;

use super::super::port::StoreError;

/// What a write does to one record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Effect {
    pub(super) key: Vec<u8>,
    pub(super) namespace: Namespace,
    pub(super) id: RawBson,
    pub(super) before: Option<RawDocumentBuf>,
    pub(super) after: Option<RawDocumentBuf>,
}

/// The entry of an effect.
pub(super) fn encode(effect: &Effect) -> RawDocumentBuf {
    let mut entry = RawDocumentBuf::new();
    entry.append(cstr!("db"), effect.namespace.db());
    entry.append(cstr!("collection"), effect.namespace.collection());
    entry.append(cstr!("id"), effect.id.as_raw_bson_ref());
    if let Some(before) = effect.before.as_deref() {
        entry.append(cstr!("before"), RawBsonRef::Document(before));
    }
    if let Some(after) = effect.after.as_deref() {
        entry.append(cstr!("after"), RawBsonRef::Document(after));
    }
    entry
}

/// The event of an entry.
pub(super) fn decode(sequence: u64, entry: &[u8]) -> Result<ChangeEvent, StoreError> {
    let event = || -> Option<ChangeEvent> {
        let entry = RawDocument::from_bytes(entry).ok()?;
        let name = |field| entry.get_str(field).ok();
        Some(ChangeEvent {
            namespace: Namespace::new(name("db")?, name("collection")?).ok()?,
            position: Position(sequence),
            change: Change::Record {
                id: entry.get("id").ok()??.into(),
                before: image(entry, "before")?,
                after: image(entry, "after")?,
            },
        })
    };
    event().ok_or_else(|| StoreError::Internal(format!("the change log is damaged at {sequence}")))
}

fn image(entry: &RawDocument, field: &str) -> Option<Image> {
    Some(match entry.get(field).ok()? {
        Some(RawBsonRef::Document(document)) => Image::Known(document.to_owned()),
        _ => Image::Absent,
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let (before, after) = (rawdoc! { "_id": 1, "a": 1 }, rawdoc! { "_id": 1, "a": 2 });
        let effect = Effect {
            key: Vec::new(),
            namespace: Namespace::new("shop", "products").unwrap(),
            id: RawBson::Int32(1),
            before: Some(before.clone()),
            after: Some(after.clone()),
        };
        let event = decode(7, encode(&effect).as_bytes()).unwrap();
        let change = Change::Record {
            id: RawBson::Int32(1),
            before: Image::Known(before),
            after: Image::Known(after),
        };
        let namespace = effect.namespace;
        assert_eq!(
            event,
            ChangeEvent {
                namespace,
                position: Position(7),
                change
            }
        );
        assert!(decode(7, b"no entry").is_err());
    }
}
