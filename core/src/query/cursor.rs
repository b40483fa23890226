//! Where a page begins: the opaque `after` of the last page's `next`.
//!
//! In the order of `_id` alone a page begins after an id, exactly, whatever is written between the pages. In
//! any other order the place of a document cannot be said exactly with a filter (the sort key of an array is its smallest
//! or largest element, and a range operator neither sees a missing field as null nor crosses types), so a
//! page begins after a number of documents, and writes between pages may shift it.

use bson::{RawBson, RawBsonRef, RawDocument};
use percent_encoding::percent_decode_str;

use super::filter::{Clause, Filter, Operator, TypeSet};
use super::sort::Direction;
use crate::value::id::RecordId;

/// The most documents before a page (MongoDB's `skip` is a signed 32-bit number on older drivers).
pub(super) const OFFSET_MAX: u32 = i32::MAX as u32;

/// A place in an ordered answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cursor {
    /// After the record with this id, in the order of `_id`.
    Id(RecordId),
    /// After so many documents.
    Offset(u32),
}

/// The text is not a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a cursor of this query: take `next` of its last answer as it is")]
pub struct CursorError;

impl Cursor {
    /// Reads a cursor's text.
    ///
    /// # Errors
    /// It is not the text of a cursor.
    pub fn parse(text: &str) -> Result<Cursor, CursorError> {
        let mut rest = text.chars();
        let kind = rest.next();
        let rest = rest.as_str();
        match kind {
            Some('i') => RecordId::parse_segment(rest)
                .map(Cursor::Id)
                .map_err(|_| CursorError),
            Some('o') => super::parameter::integer("after", rest, 1, OFFSET_MAX)
                .map(Cursor::Offset)
                .map_err(|_| CursorError),
            _ => Err(CursorError),
        }
    }

    /// The cursor after `document`, in the order of `_id`.
    pub(super) fn after_id(document: &RawDocument) -> Option<Cursor> {
        let id = document.get("_id").ok()??;
        RecordId::of(id).ok().map(Cursor::Id)
    }

    /// The text, which [`Cursor::parse`] reads: `i` and the id's canonical segment, or `o` and a number.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Cursor::Id(id) => {
                let segment = id.segment();
                format!("i{}", percent_decode_str(segment).decode_utf8_lossy())
            }
            Cursor::Offset(count) => format!("o{count}"),
        }
    }
}

/// Types in BSON order, as `$type` names them: classes that compare with one another stand together.
const CLASSES: [&[&str]; 15] = [
    &["minKey"],
    &["null"],
    &["number"],
    &["string", "symbol"],
    &["object"],
    &["array"],
    &["binData"],
    &["objectId"],
    &["bool"],
    &["date"],
    &["timestamp"],
    &["regex"],
    &["dbPointer"],
    &["javascript", "javascriptWithScope"],
    &["maxKey"],
];

/// The clause that holds for the ids after `id`: those of its own class by comparison, and the classes that
/// come later in the direction of the order.
pub(super) fn after(id: &RecordId, direction: Direction) -> Clause {
    let value = id.as_raw();
    let alias = alias(value);
    let class = CLASSES.iter().position(|class| class.contains(&alias));
    let later = match (direction, class) {
        (Direction::Ascending, Some(class)) => CLASSES[class + 1..].concat(),
        (Direction::Descending, Some(class)) => CLASSES[..class].concat(),
        (_, None) => Vec::new(),
    };
    let mut members = within_class(value, direction);
    members.push(Operator::Type(TypeSet::of(&later)));
    let member = |operator| {
        Filter::of(vec![Clause::Path {
            path: "_id".into(),
            operator,
        }])
    };
    Filter::either(members.into_iter().map(member).collect())
}

/// What comes after `value` among values of its class. NaN is the first of the numbers, but no range
/// operator says so.
fn within_class(value: RawBsonRef<'_>, direction: Direction) -> Vec<Operator> {
    let nan = || RawBson::Double(f64::NAN);
    let is_nan = crate::value::compare::equal(value, RawBsonRef::Double(f64::NAN));
    let number = alias(value) == "number";
    match direction {
        Direction::Ascending if is_nan => vec![Operator::Gte(RawBson::Double(f64::NEG_INFINITY))],
        Direction::Descending if is_nan => Vec::new(),
        Direction::Ascending => vec![Operator::Gt(value.into())],
        Direction::Descending if number => vec![Operator::Lt(value.into()), Operator::Eq(nan())],
        Direction::Descending => vec![Operator::Lt(value.into())],
    }
}

fn alias(value: RawBsonRef<'_>) -> &'static str {
    match value {
        RawBsonRef::MinKey => "minKey",
        RawBsonRef::Null | RawBsonRef::Undefined => "null",
        RawBsonRef::Double(_)
        | RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Decimal128(_) => "number",
        RawBsonRef::String(_) | RawBsonRef::Symbol(_) => "string",
        RawBsonRef::Document(_) => "object",
        RawBsonRef::Array(_) => "array",
        RawBsonRef::Binary(_) => "binData",
        RawBsonRef::ObjectId(_) => "objectId",
        RawBsonRef::Boolean(_) => "bool",
        RawBsonRef::DateTime(_) => "date",
        RawBsonRef::Timestamp(_) => "timestamp",
        RawBsonRef::RegularExpression(_) => "regex",
        RawBsonRef::DbPointer(_) => "dbPointer",
        RawBsonRef::JavaScriptCode(_) | RawBsonRef::JavaScriptCodeWithScope(_) => "javascript",
        RawBsonRef::MaxKey => "maxKey",
    }
}
