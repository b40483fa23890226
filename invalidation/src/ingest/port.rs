//! The source port: the database's committed changes in commit order, with a watermark (rule C6).
//!
//! An adapter delivers every change at least once and never skips one silently: what it cannot deliver
//! is a [`SourceError::Gap`].

use async_trait::async_trait;
use freshet_core::change::ChangeEvent;
use freshet_core::time::{Moment, Position};

/// The longest [`Source::next`] waits on an idle database, in milliseconds (rule C6).
pub const IDLE_WAIT_MS_MAX: u64 = 250;

/// A feed of committed changes.
#[async_trait]
pub trait Source: Send {
    /// Waits, at most [`IDLE_WAIT_MS_MAX`], for the next batch. An empty batch is progress on an idle
    /// database. The first batch of a source without a resume token tells, in `through`, the position
    /// from which it delivers. Cancel safe: a dropped call loses nothing.
    ///
    /// # Errors
    /// [`SourceError`]; after `Unavailable` the call is repeated with backoff, after `Gap` the source goes
    /// on from now.
    async fn next(&mut self) -> Result<Batch, SourceError>;
}

/// What happened since the last batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, in commit order. The events of one transaction share a position.
    pub events: Vec<ChangeEvent>,
    /// Every write at or before it was delivered by now.
    pub through: Position,
    /// What the stream has proved to be complete, when this batch proves anything.
    pub watermark: Option<Watermark>,
    /// Where to resume once the batch's effects are done; opaque.
    pub resume: Option<Vec<u8>>,
}

impl Batch {
    /// What happened after this.
    pub fn follow_with(&mut self, more: Batch) {
        self.events.extend(more.events);
        self.through = self.through.max(more.through);
        self.watermark = more.watermark.or(self.watermark);
        self.resume = more.resume.or(self.resume.take());
    }
}

/// Every write at or before `position` was delivered, and at `as_of` there was no acknowledged write
/// beyond it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermark {
    /// In the database's order.
    pub position: Position,
    /// On this process's monotonic clock.
    pub as_of: Moment,
}

/// Why there is no batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceError {
    /// Changes were lost for good (rule C8).
    #[error("changes were lost: {0}")]
    Gap(String),
    /// This cell of a grid missed changes of its write partition: what it matches is lost, and nothing else (rule C8).
    #[error("changes were missed: {0}")]
    Missed(String),
    /// Try again.
    #[error("the change feed is unavailable: {0}")]
    Unavailable(String),
}
