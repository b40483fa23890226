//! One event of the stream, as changes. Pure.
//!
//! What an event does not carry is `Unknown`; an update without its after-image is marked, so that the record
//! is looked up before the change is handed on.

use bson::{RawBson, RawBsonRef, RawDocument};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use mongodb::error::Error;

/// A change, and whether its after-image has still to be looked up.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) change: ChangeEvent,
    pub(super) look_up: bool,
}

/// The changes that an event stands for: none for what changes no record and for reserved names.
pub(super) fn parse(event: &RawDocument) -> Result<Vec<Parsed>, Error> {
    let position = match event.get("clusterTime")? {
        Some(RawBsonRef::Timestamp(time)) => Position::from_timestamp(time.time, time.increment),
        _ => return Ok(Vec::new()),
    };
    let operation = event.get_str("operationType")?;
    Ok(match operation {
        "insert" | "update" | "replace" | "delete" => {
            record(event, operation, position)?.into_iter().collect()
        }
        // Dropping a database gives one `drop` per collection before its own event. What is created may be a view
        // in the place of a collection that was read when it was not there.
        "create" | "drop" => collection(event, "ns", position)?.into_iter().collect(),
        "rename" => {
            let from = collection(event, "ns", position)?;
            let to = collection(event, "to", position)?;
            from.into_iter().chain(to).collect()
        }
        _ => Vec::new(),
    })
}

fn record(
    event: &RawDocument,
    operation: &str,
    position: Position,
) -> Result<Option<Parsed>, Error> {
    let Some(namespace) = namespace(event, "ns")? else {
        return Ok(None);
    };
    let Some(id) = event.get_document("documentKey")?.get("_id")? else {
        return Ok(None);
    };
    let before = match operation {
        "insert" => Image::Absent,
        _ => image(event, "fullDocumentBeforeChange")?,
    };
    let after = match operation {
        "delete" => Image::Absent,
        _ => image(event, "fullDocument")?,
    };
    Ok(Some(Parsed {
        look_up: after == Image::Unknown,
        change: ChangeEvent {
            namespace,
            position,
            change: Change::Record {
                id: RawBson::from(id),
                before,
                after,
            },
        },
    }))
}

fn collection(
    event: &RawDocument,
    field: &str,
    position: Position,
) -> Result<Option<Parsed>, Error> {
    Ok(namespace(event, field)?.map(|namespace| Parsed {
        look_up: false,
        change: ChangeEvent {
            namespace,
            position,
            change: Change::Collection,
        },
    }))
}

/// `None` where the protocol cannot name it: system and reserved collections.
fn namespace(event: &RawDocument, field: &str) -> Result<Option<Namespace>, Error> {
    let Some(RawBsonRef::Document(namespace)) = event.get(field)? else {
        return Ok(None);
    };
    let (db, collection) = (namespace.get_str("db")?, namespace.get_str("coll")?);
    Ok(Namespace::new(db, collection).ok())
}

fn image(event: &RawDocument, field: &str) -> Result<Image, Error> {
    Ok(match event.get(field)? {
        Some(RawBsonRef::Document(document)) => Image::Known(document.to_owned()),
        // Missing where images are off, null where they have expired.
        _ => Image::Unknown,
    })
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, Timestamp, rawdoc};

    use super::*;

    fn event(operation: &str) -> RawDocumentBuf {
        rawdoc! {
            "operationType": operation,
            "clusterTime": Timestamp { time: 7, increment: 2 },
            "ns": { "db": "shop", "coll": "products" },
            "documentKey": { "_id": 1 },
        }
    }

    fn images(event: &RawDocument) -> (Image, Image, bool) {
        let mut parsed = parse(event).unwrap();
        let one = parsed.pop().unwrap();
        assert!(parsed.is_empty());
        assert_eq!(one.change.position, Position::from_timestamp(7, 2));
        match one.change.change {
            Change::Record { before, after, .. } => (before, after, one.look_up),
            Change::Collection => panic!("not a record"),
        }
    }

    #[test]
    fn images_are_known_where_the_event_has_them() {
        let mut update = event("update");
        update.append(
            bson::raw::cstr!("fullDocument"),
            rawdoc! { "_id": 1, "a": 2 },
        );
        update.append(
            bson::raw::cstr!("fullDocumentBeforeChange"),
            rawdoc! { "_id": 1, "a": 1 },
        );
        let known = |a: i32| Image::Known(rawdoc! { "_id": 1, "a": a });
        assert_eq!(images(&update), (known(1), known(2), false));
    }

    #[test]
    fn an_expired_image_is_unknown_and_looked_up() {
        let mut update = event("update");
        update.append(bson::raw::cstr!("fullDocument"), RawBsonRef::Null);
        assert_eq!(images(&update), (Image::Unknown, Image::Unknown, true));
        assert_eq!(
            images(&event("delete")),
            (Image::Unknown, Image::Absent, false)
        );
    }

    #[test]
    fn a_rename_touches_both_names() {
        let mut rename = event("rename");
        rename.append(
            bson::raw::cstr!("to"),
            rawdoc! { "db": "shop", "coll": "goods" },
        );
        let names: Vec<String> = parse(&rename)
            .unwrap()
            .iter()
            .map(|parsed| parsed.change.namespace.to_string())
            .collect();
        assert_eq!(names, ["shop.products", "shop.goods"]);
    }

    #[test]
    fn what_the_protocol_cannot_name_is_passed_over() {
        let mut system = rawdoc! {
            "operationType": "drop",
            "clusterTime": Timestamp { time: 7, increment: 2 },
            "ns": { "db": "shop", "coll": "system.views" },
        };
        assert!(parse(&system).unwrap().is_empty());
        system = rawdoc! { "operationType": "dropDatabase", "clusterTime": Timestamp { time: 7, increment: 2 }, "ns": { "db": "shop" } };
        assert!(parse(&system).unwrap().is_empty());
    }
}
