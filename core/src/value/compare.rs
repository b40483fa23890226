//! MongoDB's total order over BSON values, and the equality that goes with it (the server's
//! `BSONElement::compareElements` under the simple collation).
//!
//! Never allocates (but for the deprecated DBPointer, whose parts the `bson` crate does not show).
//! Values nested deeper than [`DEPTH_MAX`] are ordered by their bytes, so that no stored document can exhaust
//! the stack.

use std::cmp::Ordering;

use bson::raw::RawIter;
use bson::spec::{BinarySubtype, ElementType};
use bson::{RawArray, RawBinaryRef, RawBsonRef, RawDocument};

use super::build::db_pointer_parts;
use super::number::Number;

/// Levels that are compared field by field. MongoDB stores at most about 200.
pub const DEPTH_MAX: u32 = 250;

/// The order of two values.
#[must_use]
pub fn compare(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
    compare_at(a, b, 0)
}

/// Whether MongoDB takes the two values for equal: `5`, `5.0` and `NumberLong(5)` are; `{a:1,b:2}` and
/// `{b:2,a:1}` are not.
#[must_use]
pub fn equal(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    compare_at(a, b, 0) == Ordering::Equal
}

/// The order of two documents: field by field its type, its name, its value; then the shorter first.
#[must_use]
pub fn compare_documents(a: &RawDocument, b: &RawDocument) -> Ordering {
    compare_documents_at(a, b, 0)
}

/// The rank of a value's type in the order. Types of one rank are compared with each other by value:
/// the numbers, and strings with symbols.
#[must_use]
pub fn type_rank(value: &RawBsonRef<'_>) -> u8 {
    rank_of(value.element_type())
}

/// The rank of a type.
#[must_use]
pub fn rank_of(element_type: ElementType) -> u8 {
    match element_type {
        ElementType::MinKey => 0,
        ElementType::Undefined => 1,
        ElementType::Null => 5,
        ElementType::Int32 | ElementType::Int64 | ElementType::Double | ElementType::Decimal128 => {
            10
        }
        ElementType::String | ElementType::Symbol => 15,
        ElementType::EmbeddedDocument => 20,
        ElementType::Array => 25,
        ElementType::Binary => 30,
        ElementType::ObjectId => 35,
        ElementType::Boolean => 40,
        ElementType::DateTime => 45,
        ElementType::Timestamp => 47,
        ElementType::RegularExpression => 50,
        ElementType::DbPointer => 55,
        ElementType::JavaScriptCode => 60,
        ElementType::JavaScriptCodeWithScope => 65,
        ElementType::MaxKey => 127,
    }
}

fn compare_at(a: RawBsonRef<'_>, b: RawBsonRef<'_>, depth: u32) -> Ordering {
    // The common cases first: most comparisons are of two strings, ids or integers.
    match (a, b) {
        (RawBsonRef::String(a), RawBsonRef::String(b)) => return a.as_bytes().cmp(b.as_bytes()),
        (RawBsonRef::Int32(a), RawBsonRef::Int32(b)) => return a.cmp(&b),
        (RawBsonRef::ObjectId(a), RawBsonRef::ObjectId(b)) => return a.bytes().cmp(&b.bytes()),
        _ => {}
    }
    type_rank(&a)
        .cmp(&type_rank(&b))
        .then_with(|| compare_within_rank(a, b, depth))
}

fn compare_within_rank(a: RawBsonRef<'_>, b: RawBsonRef<'_>, depth: u32) -> Ordering {
    use RawBsonRef as V;
    match (a, b) {
        (V::String(a) | V::Symbol(a), V::String(b) | V::Symbol(b))
        | (V::JavaScriptCode(a), V::JavaScriptCode(b)) => a.as_bytes().cmp(b.as_bytes()),
        (V::Document(a), V::Document(b)) => compare_documents_at(a, b, depth),
        (V::Array(a), V::Array(b)) => compare_arrays(a, b, depth),
        (V::Binary(a), V::Binary(b)) => compare_binary(a, b),
        (V::ObjectId(a), V::ObjectId(b)) => a.bytes().cmp(&b.bytes()),
        (V::Boolean(a), V::Boolean(b)) => a.cmp(&b),
        (V::DateTime(a), V::DateTime(b)) => a.timestamp_millis().cmp(&b.timestamp_millis()),
        (V::Timestamp(a), V::Timestamp(b)) => (a.time, a.increment).cmp(&(b.time, b.increment)),
        (V::RegularExpression(a), V::RegularExpression(b)) => {
            (a.pattern.as_str(), a.options.as_str()).cmp(&(b.pattern.as_str(), b.options.as_str()))
        }
        (V::DbPointer(a), V::DbPointer(b)) => {
            let (a, b) = (db_pointer_parts(a), db_pointer_parts(b));
            (a.0.len(), &a.0, a.1.bytes()).cmp(&(b.0.len(), &b.0, b.1.bytes()))
        }
        (V::JavaScriptCodeWithScope(a), V::JavaScriptCodeWithScope(b)) => a
            .code
            .as_bytes()
            .cmp(b.code.as_bytes())
            .then_with(|| compare_documents_at(a.scope, b.scope, depth)),
        _ => match (Number::of(a), Number::of(b)) {
            (Some(a), Some(b)) => a.compare(&b),
            // MinKey, undefined, null, MaxKey: one value each.
            _ => Ordering::Equal,
        },
    }
}

fn compare_documents_at(a: &RawDocument, b: &RawDocument, depth: u32) -> Ordering {
    if depth >= DEPTH_MAX {
        return a.as_bytes().cmp(b.as_bytes());
    }
    compare_elements(a.iter_elements(), b.iter_elements(), true, depth)
}

fn compare_arrays(a: &RawArray, b: &RawArray, depth: u32) -> Ordering {
    if depth >= DEPTH_MAX {
        return a.as_bytes().cmp(b.as_bytes());
    }
    compare_elements(a.iter_elements(), b.iter_elements(), false, depth)
}

fn compare_elements(
    mut a: RawIter<'_>,
    mut b: RawIter<'_>,
    with_names: bool,
    depth: u32,
) -> Ordering {
    loop {
        // Bytes that are not BSON end a document: nothing is read beyond them.
        let (x, y) = match (a.next().and_then(Result::ok), b.next().and_then(Result::ok)) {
            (None, None) => return Ordering::Equal,
            (None, Some(_)) => return Ordering::Less,
            (Some(_), None) => return Ordering::Greater,
            (Some(x), Some(y)) => (x, y),
        };
        let (Ok(left), Ok(right)) = (x.value(), y.value()) else {
            return Ordering::Equal;
        };
        let mut order = type_rank(&left).cmp(&type_rank(&right));
        if order == Ordering::Equal && with_names {
            order = x.key().as_str().as_bytes().cmp(y.key().as_str().as_bytes());
        }
        if order == Ordering::Equal {
            order = compare_within_rank(left, right, depth + 1);
        }
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Length, subtype, bytes. Of the old binary subtype the stored length counts four bytes more.
fn compare_binary(a: RawBinaryRef<'_>, b: RawBinaryRef<'_>) -> Ordering {
    let stored = |binary: &RawBinaryRef<'_>| {
        binary.bytes.len() + 4 * usize::from(binary.subtype == BinarySubtype::BinaryOld)
    };
    stored(&a)
        .cmp(&stored(&b))
        .then_with(|| u8::from(a.subtype).cmp(&u8::from(b.subtype)))
        .then_with(|| a.bytes.cmp(b.bytes))
}
