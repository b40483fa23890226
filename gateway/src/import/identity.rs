//! The `_id` of documents that come without one: counted from the import's first, so that a document which is written
//! again after a broken-off import is the same document, not a second one.

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf};

/// The document with an `_id`: its own, or the one of its number.
pub(super) fn identified(document: RawDocumentBuf, first: ObjectId, number: u64) -> RawDocumentBuf {
    if matches!(document.get("_id"), Ok(Some(_))) {
        return document;
    }
    let mut whole = RawDocumentBuf::new();
    whole.append(bson::cstr!("_id"), numbered(first, number));
    append_but_id(&mut whole, &document);
    whole
}

/// The same document, wherever its `_id` stands: MongoDB moves it to the front.
pub(super) fn is_same(one: &RawDocument, other: &RawDocument) -> bool {
    fronted(one).as_bytes() == fronted(other).as_bytes()
}

fn fronted(document: &RawDocument) -> RawDocumentBuf {
    let mut whole = RawDocumentBuf::new();
    if let Ok(Some(id)) = document.get("_id") {
        whole.append(bson::cstr!("_id"), id);
    }
    append_but_id(&mut whole, document);
    whole
}

fn append_but_id(whole: &mut RawDocumentBuf, document: &RawDocument) {
    for (name, value) in document.iter().flatten() {
        if name != "_id" {
            whole.append(name, value);
        }
    }
}

/// An ObjectId is seconds (4 bytes), a random value (5) and a counter (3): the counter goes on by `number`, and carries
/// into the seconds.
fn numbered(first: ObjectId, number: u64) -> ObjectId {
    let [a, b, c, d, r0, r1, r2, r3, r4, x, y, z] = first.bytes();
    let counter = u64::from(u32::from_be_bytes([0, x, y, z])) + (number & 0xFF_FFFF);
    let carried = (number >> 24) + (counter >> 24);
    // Modulo 2^32 on purpose: a file has not 2^56 documents.
    let seconds = u32::from_be_bytes([a, b, c, d]).wrapping_add(carried as u32);
    let [a, b, c, d] = seconds.to_be_bytes();
    let [.., x, y, z] = counter.to_be_bytes();
    ObjectId::from_bytes([a, b, c, d, r0, r1, r2, r3, r4, x, y, z])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_carry_into_the_seconds() {
        let first = ObjectId::parse_str("000000010203040506fffffe").expect("an id");
        assert_eq!(numbered(first, 1).to_hex(), "000000010203040506ffffff");
        assert_eq!(numbered(first, 2).to_hex(), "000000020203040506000000");
        assert_eq!(
            numbered(first, 1 << 24).to_hex(),
            "000000020203040506fffffe"
        );
    }

    #[test]
    fn the_place_of_the_id_makes_no_difference() {
        let stored = bson::rawdoc! {"_id": 1, "a": 2};
        assert!(is_same(&stored, &bson::rawdoc! {"a": 2, "_id": 1}));
        assert!(!is_same(&stored, &bson::rawdoc! {"a": 3, "_id": 1}));
    }
}
