//! A change: what one committed write did to one record, or to a whole collection.

use bson::{RawBson, RawDocumentBuf};

use crate::name::Namespace;
use crate::time::Position;

/// What is known of a record's state before or after a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Image {
    /// The record did not exist.
    Absent,
    /// Exactly this state.
    Known(RawDocumentBuf),
    /// Not the state at the write but one read some time after it (`None`: gone by then). Later changes
    /// have events of their own; the state between is not known.
    Later(Option<RawDocumentBuf>),
    /// Nothing is known.
    Unknown,
}

/// A committed change, in the database's order.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangeEvent {
    /// Where.
    pub namespace: Namespace,
    /// When, in commit order. Events of one transaction share it.
    pub position: Position,
    /// What.
    pub change: Change,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// One record was inserted, updated, replaced or deleted: the images say which.
    Record {
        /// The record's `_id`.
        id: RawBson,
        /// Its state before.
        before: Image,
        /// Its state after.
        after: Image,
    },
    /// The collection as a whole changed (dropped, renamed from or to): every record and query of it.
    Collection,
}
