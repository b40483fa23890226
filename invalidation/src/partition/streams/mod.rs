//! The streams port: what the parts of a grid tell one another. A stream is a row of entries that is appended to and
//! kept for some time; whoever reads it has a cursor of its own, so every reader gets every entry.
//!
//! An adapter may lose entries (a server that is gone took them along, or they are too old): its readers find that
//! out by the numbers that the entries carry, never by the adapter's word.

mod local;
mod redis;

use std::fmt;

use async_trait::async_trait;
use freshet_core::time::Moment;

pub use local::LocalStreams;
pub use redis::{RedisStreams, RedisStreamsSettings};

/// Which stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// The changes of a write partition, in commit order. Only the ingest leader appends.
    Changes(u32),
    /// What gateways ask of a query partition.
    Requests(u32),
    /// What cells answer this gateway.
    Answers(Box<str>),
    /// What cells tell all gateways.
    Notices,
}

/// Where a reader is: an adapter's own words.
pub type Cursor = String;

/// From where to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// What is appended from now on.
    Now,
    /// What follows an entry.
    After(Cursor),
}

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub cursor: Cursor,
    /// What it says.
    pub body: Vec<u8>,
}

/// Entries that are read at a time. Fewer: there were no more just then.
pub const ENTRIES_AT_ONCE_MAX: usize = 256;

/// Reads one stream.
#[async_trait]
pub trait Reader: Send {
    /// The next entries, up to [`ENTRIES_AT_ONCE_MAX`]: at once if there are some, else waits for up to `wait_ms`. Cancel
    /// safe.
    async fn next(&mut self, wait_ms: u64) -> Result<Vec<Entry>, StreamError>;
}

/// The streams of one deployment.
#[async_trait]
pub trait Streams: Send + Sync {
    /// Appends in order. With a `term`: refused if someone with a later term has appended to the stream.
    async fn append(
        &self,
        line: &Line,
        entries: Vec<Vec<u8>>,
        term: Option<u64>,
    ) -> Result<(), StreamError>;

    /// The last entry.
    async fn last(&self, line: &Line) -> Result<Option<Entry>, StreamError>;

    /// Begins to read.
    async fn read(&self, line: &Line, from: From) -> Result<Box<dyn Reader>, StreamError>;

    /// Takes the lease of an office, or prolongs it; its term, if `holder` has it now.
    async fn lead(
        &self,
        office: &str,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<u64>, StreamError>;

    /// Gives the lease up, if `holder` has it.
    async fn step_down(&self, office: &str, holder: &str) -> Result<(), StreamError>;

    /// The state of a row.
    async fn row(&self, row: u32) -> Result<Row, StreamError>;

    /// A cell is up, or not; a new generation of the row begins.
    async fn mark(&self, row: u32, column: u32, up: bool) -> Result<(), StreamError>;

    /// Whether the edges confirm too late what a cell purges.
    async fn lag(&self, row: u32, column: u32, lags: bool) -> Result<(), StreamError>;

    /// The streams' common clock at a moment of this process: not later than it really was then. `None`: it was not
    /// heard yet.
    fn stamp(&self, at: Moment) -> Option<u64>;

    /// How long ago a [`Streams::stamp`] of any process was, at least as long as it really was, milliseconds.
    fn age_ms(&self, stamp: u64, now: Moment) -> Option<u64>;
}

/// A row: reads that were registered in one generation are not settled in another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Which generation.
    pub generation: u64,
    /// The columns whose cells are up.
    pub up: Vec<u32>,
    /// Those whose purges are confirmed too late.
    pub lagging: Vec<u32>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// Try again. What was to be appended may have been, or not.
    #[error("the streams are unavailable: {0}")]
    Unavailable(String),
    /// Another one leads.
    #[error("another ingest leader has taken over")]
    Deposed,
}

impl StreamError {
    pub(super) fn of(error: impl fmt::Display) -> StreamError {
        StreamError::Unavailable(error.to_string())
    }
}
