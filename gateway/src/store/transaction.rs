//! A transaction's words: what it reads, what it decides, what it writes, what became of it. The decision is a
//! function of what was read, so that either store can take it inside the transaction, as often as it must.

use std::sync::Arc;

use bson::{RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;

use super::documents::Documents;
use super::port::{OwnedFind, Written};

/// Something that a transaction reads.
#[derive(Clone, Debug)]
pub enum Read {
    /// One record.
    Record {
        /// Where.
        namespace: Namespace,
        /// Its `_id`.
        id: bson::RawBson,
    },
    /// A query's result.
    Query(OwnedFind),
}

/// What a transaction's read gave, in the order of the reads.
#[derive(Clone, Debug)]
pub enum Answer {
    /// For [`Read::Record`].
    Record(Option<RawDocumentBuf>),
    /// For [`Read::Query`].
    Query(Documents),
}

/// Looks at what was read and says what to write.
pub type Decide = Arc<dyn Fn(&[Answer]) -> Decision + Send + Sync>;

/// [`Decide`] over one record: `None` when it is not there.
pub type DecideRecord = Arc<dyn Fn(Option<&RawDocument>) -> Decision + Send + Sync>;

/// What is to be done with what was read.
#[derive(Clone, Debug)]
pub enum Decision {
    /// Write these, in order, all or none.
    Write(Vec<Write>),
    /// It already is as it should be.
    Keep,
    /// Do nothing, for a reason.
    Refuse(Refused),
}

/// A write in a transaction.
#[derive(Clone, Debug)]
pub enum Write {
    /// A record that must not be there yet.
    Insert {
        /// Where.
        namespace: Namespace,
        /// With its `_id`.
        document: RawDocumentBuf,
    },
    /// As [`Store::put`](super::Store::put).
    Put {
        /// Where.
        namespace: Namespace,
        /// Its `_id`.
        id: bson::RawBson,
        /// The new state.
        document: RawDocumentBuf,
    },
    /// As [`Store::update`](super::Store::update); the whole transaction is refused as `Missing` when there is no such record.
    Update {
        /// Where.
        namespace: Namespace,
        /// Its `_id`.
        id: bson::RawBson,
        /// Update operators.
        operators: RawDocumentBuf,
    },
    /// As [`Store::delete`](super::Store::delete); deleting nothing is no error.
    Delete {
        /// Where.
        namespace: Namespace,
        /// Its `_id`.
        id: bson::RawBson,
    },
}

/// Why a transaction wrote nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The record to write is not there.
    Missing,
    /// A precondition does not hold (RFC 9110 §13).
    Precondition,
    /// These reads, by index, are not what the client read.
    OutOfDate(Vec<usize>),
    /// The change does not fit the record.
    Invalid {
        /// For a person.
        detail: String,
        /// RFC 6901, into the change.
        pointer: String,
    },
}

/// What became of a transaction.
#[derive(Clone, Debug)]
pub enum Transacted {
    /// One answer per write, all with the same position.
    Committed {
        /// In the order of the writes.
        written: Vec<Written>,
    },
    /// [`Decision::Keep`].
    Kept,
    /// [`Decision::Refuse`], or [`Refused::Missing`].
    Refused(Refused),
}

/// What became of [`Store::modify`](super::Store::modify).
#[derive(Clone, Debug)]
pub enum Modified {
    /// Written.
    Written(Written),
    /// [`Decision::Keep`].
    Kept,
    /// [`Decision::Refuse`], or [`Refused::Missing`].
    Refused(Refused),
}
