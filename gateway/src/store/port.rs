//! The store port: what the gateway asks of a database, and what an answer promises.
//!
//! Documents cross it as raw BSON, never decoded. A read is made causally after `at_least` and says the
//! position it is at or after (C1); a write is answered once it is durable (MongoDB: `w: majority`;
//! embedded: on disk) and says the position it has. The port never decides whether a write may happen:
//! conditional writes hand in a function that looks at the current state inside the transaction.

use std::sync::Arc;

use async_trait::async_trait;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::aggregate::Plan;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_invalidation::ingest::port::Source;

pub use super::documents::Documents;
pub use super::refusal::StoreError;
pub use super::transaction::{
    Answer, Decide, DecideRecord, Decision, Modified, Read, Refused, Transacted, Write,
};

/// A database of records.
#[async_trait]
pub trait Store: Send + Sync {
    /// Runs a query.
    ///
    /// # Errors
    /// [`StoreError`]; `Unsupported` where the adapter cannot decide the filter exactly.
    async fn find(&self, find: &Find<'_>) -> Result<Found, StoreError>;

    /// Reads one record by its `_id`.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn get(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        at_least: Position,
    ) -> Result<Got, StoreError>;

    /// Counts the records that match.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn count(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        at_least: Position,
    ) -> Result<Counted, StoreError>;

    /// Runs an aggregation pipeline as it was planned, over one state of the database.
    ///
    /// # Errors
    /// [`StoreError`]; `Unsupported` where the adapter cannot give MongoDB's answer exactly.
    async fn aggregate(
        &self,
        namespace: &Namespace,
        pipeline: &Plan,
        at_least: Position,
    ) -> Result<Found, StoreError>;

    /// Inserts records that carry an `_id`, all or none.
    ///
    /// # Errors
    /// [`StoreError`]; `DuplicateId` when one is there already.
    async fn insert(
        &self,
        namespace: &Namespace,
        documents: &[RawDocumentBuf],
    ) -> Result<Position, StoreError>;

    /// Creates or replaces a record, whatever it was. An `_id` in `document` must equal `id`; it is added
    /// where it is missing.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn put(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        document: &RawDocument,
    ) -> Result<Written, StoreError>;

    /// Applies MongoDB update operators to a record. `None`: there is no such record.
    ///
    /// # Errors
    /// [`StoreError`]; `BadRequest` when the operators do not fit the record.
    async fn update(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<Written>, StoreError>;

    /// Deletes a record. `None`: there was none.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn delete(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<Option<Position>, StoreError>;

    /// Reads, lets `decide` look at what was read, and writes what it answers, as one transaction.
    /// `decide` may be called several times (after a conflict) and must not block.
    ///
    /// # Errors
    /// [`StoreError`]; `Conflict` when other writers kept getting in between.
    async fn transact(&self, reads: &[Read], decide: &Decide) -> Result<Transacted, StoreError>;

    /// [`Store::transact`] over one record.
    ///
    /// # Errors
    /// As [`Store::transact`].
    async fn modify(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        decide: DecideRecord,
    ) -> Result<Modified, StoreError> {
        let read = Read::Record {
            namespace: namespace.clone(),
            id: id.into(),
        };
        let over_all: Decide = Arc::new(move |answers| match answers.first() {
            Some(Answer::Record(record)) => decide(record.as_deref()),
            _ => decide(None),
        });
        Ok(match self.transact(&[read], &over_all).await? {
            Transacted::Committed { mut written } => match written.pop() {
                Some(written) => Modified::Written(written),
                None => Modified::Kept,
            },
            Transacted::Kept => Modified::Kept,
            Transacted::Refused(reason) => Modified::Refused(reason),
        })
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn ping(&self) -> Result<(), StoreError>;

    /// The collections of a database that the protocol can name, sorted.
    ///
    /// # Errors
    /// [`StoreError`].
    async fn collections(&self, db: &str) -> Result<Vec<Namespace>, StoreError>;

    /// Finds out whether the change feed tells all that reads of a collection depend on, and switches on before- and
    /// after-images where that is permitted. Never creates a collection.
    ///
    /// # Errors
    /// [`StoreError`]; not being permitted is an answer, not an error.
    async fn ensure_images(&self, namespace: &Namespace) -> Result<Images, StoreError>;

    /// The feed of changes: after `resume` (a batch's token), or else from now on.
    fn source(&self, resume: Option<Vec<u8>>) -> Box<dyn Source>;

    /// A position known to be committed by now: at least every write this store has acknowledged.
    fn committed(&self) -> Position;
}

/// A query to run.
#[derive(Clone, Copy, Debug)]
pub struct Find<'a> {
    /// Where.
    pub namespace: &'a Namespace,
    /// The filter, as MongoDB's query language has it.
    pub filter: &'a RawDocument,
    /// `{path: 1 | -1, …}`.
    pub sort: Option<&'a RawDocument>,
    /// Records passed over.
    pub skip: u32,
    /// Records answered at most; 0 means none.
    pub limit: u32,
    /// `{path: 0 | 1, …}`.
    pub projection: Option<&'a RawDocument>,
    /// The read is made causally after this.
    pub at_least: Position,
}

/// [`Find`] that owns what it names, for a transaction's read set.
#[derive(Clone, Debug)]
pub struct OwnedFind {
    /// Where.
    pub namespace: Namespace,
    /// As [`Find::filter`].
    pub filter: RawDocumentBuf,
    /// As [`Find::sort`].
    pub sort: Option<RawDocumentBuf>,
    /// As [`Find::skip`].
    pub skip: u32,
    /// As [`Find::limit`].
    pub limit: u32,
    /// As [`Find::projection`].
    pub projection: Option<RawDocumentBuf>,
}

impl OwnedFind {
    /// The same query, borrowed.
    #[must_use]
    pub fn as_find(&self, at_least: Position) -> Find<'_> {
        Find {
            namespace: &self.namespace,
            filter: &self.filter,
            sort: self.sort.as_deref(),
            skip: self.skip,
            limit: self.limit,
            projection: self.projection.as_deref(),
            at_least,
        }
    }
}

/// A query's answer.
#[derive(Clone, Debug)]
pub struct Found {
    /// The records, in order.
    pub documents: Documents,
    /// The state read is that of this position or a later one.
    pub position: Position,
    /// The state read is exactly that of this position: of every write at or before it, and of no other. `None`: the
    /// database does not say.
    pub snapshot: Option<Position>,
}

/// A record read by id.
#[derive(Clone, Debug)]
pub struct Got {
    /// The record, if it is there.
    pub document: Option<RawDocumentBuf>,
    /// As [`Found::position`].
    pub position: Position,
}

/// A count.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// How many.
    pub count: u64,
    /// As [`Found::position`].
    pub position: Position,
}

/// An acknowledged write of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct Written {
    /// The record as it is now; `None` after a delete.
    pub document: Option<RawDocumentBuf>,
    /// Whether the record was not there before.
    pub created: bool,
    /// The write's position, or a later committed one.
    pub position: Position,
}

/// Whether a collection's changes carry the state before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Images {
    /// They do.
    On,
    /// The database does not permit it: before-images are unknown and members have to be remembered.
    NotPermitted,
    /// The database is too old to have them.
    NotSupported,
    /// The feed does not tell what reads show, or not exactly: a view, a time series, a collation of its own (C14).
    NotWatched,
    /// There is no such collection: anything may come up under its name, and not every server says so.
    Missing,
}
