//! A value that a filter holds, in less than half the space of a `RawBson`: an active query keeps a few, and there are
//! millions of them.

use bson::oid::ObjectId;
use bson::{DateTime, RawBson, RawBsonRef};

/// The value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Literal {
    Null,
    Boolean(bool),
    Int32(i32),
    Int64(i64),
    Double(f64),
    Text(Box<str>),
    ObjectId(ObjectId),
    DateTime(DateTime),
    Other(Box<RawBson>),
}

impl From<&RawBson> for Literal {
    fn from(value: &RawBson) -> Literal {
        match value {
            RawBson::Null => Literal::Null,
            RawBson::Boolean(truth) => Literal::Boolean(*truth),
            RawBson::Int32(n) => Literal::Int32(*n),
            RawBson::Int64(n) => Literal::Int64(*n),
            RawBson::Double(n) => Literal::Double(*n),
            RawBson::String(text) => Literal::Text(text.as_str().into()),
            RawBson::ObjectId(id) => Literal::ObjectId(*id),
            RawBson::DateTime(date) => Literal::DateTime(*date),
            other => Literal::Other(Box::new(other.clone())),
        }
    }
}

impl Literal {
    pub(super) fn as_raw(&self) -> RawBsonRef<'_> {
        match self {
            Literal::Null => RawBsonRef::Null,
            Literal::Boolean(truth) => RawBsonRef::Boolean(*truth),
            Literal::Int32(n) => RawBsonRef::Int32(*n),
            Literal::Int64(n) => RawBsonRef::Int64(*n),
            Literal::Double(n) => RawBsonRef::Double(*n),
            Literal::Text(text) => RawBsonRef::String(text),
            Literal::ObjectId(id) => RawBsonRef::ObjectId(*id),
            Literal::DateTime(date) => RawBsonRef::DateTime(*date),
            Literal::Other(other) => other.as_raw_bson_ref(),
        }
    }

    /// A byte of what lies elsewhere, so that the rest is in the processor's cache soon.
    pub(super) fn glance(&self) -> u8 {
        match self {
            Literal::Text(text) => text.as_bytes().first().copied().unwrap_or(0),
            _ => 0,
        }
    }
}
