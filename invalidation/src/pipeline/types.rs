//! What goes in and out of the facade: answers, refusals, status.

use bson::RawBson;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Position;

use crate::matcher::{Coverage, Window};

/// What was read.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// A lower bound of the read (rule C1).
    pub position: Position,
    /// What the copy shall be given.
    pub lifetimes: Lifetimes,
    /// The keys of the records in the window, and of the look-ahead that decides whether there is a next
    /// page. For objects each is a copy of its record (rule C4); the look-ahead harmlessly counts as one.
    pub members: &'a [Key],
    /// Where a sorted, limited answer begins and ends.
    pub window: Window,
    /// Of each join the local values that were looked for; `None`: not known.
    pub joined: Vec<Option<Vec<RawBson>>>,
}

/// Why an answer is not cached. [`NotCached::word`] is the same word in `Cache-Status`, log and metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotCached {
    /// The key, or a member, changed after the read (rule C2).
    #[error("invalidated-meanwhile")]
    InvalidatedMeanwhile,
    /// The sketch does not answer (rule C16).
    #[error("sketch-unavailable")]
    SketchUnavailable,
    /// The change feed is not running, or is too far behind.
    #[error("matcher-behind")]
    MatcherBehind,
    /// The matcher cannot decide the filter as the database does (rule C14).
    #[error("undecidable")]
    Undecidable,
    /// As many queries are active, or copies outstanding, as may be.
    #[error("capacity")]
    Capacity,
    /// The order of what it shows is not fixed: two answers of equal data could differ.
    #[error("order")]
    Order,
    /// As many queries of the database are active as may be.
    #[error("database-quota")]
    Quota,
    /// The active list is full, and other queries are read more or change less.
    #[error("outweighed")]
    Outweighed,
    /// The sketch lost its state between begin and settle (rule C8).
    #[error("epoch-changed")]
    EpochChanged,
    /// The read took longer than invalidations are remembered.
    #[error("read-too-slow")]
    ReadTooSlow,
    /// The read was made before the position the ticket asked for.
    #[error("read-too-early")]
    ReadTooEarly,
    /// The estimated lifetime is below the floor.
    #[error("short-lived")]
    ShortLived,
}

impl NotCached {
    /// The stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NotCached::InvalidatedMeanwhile => "invalidated-meanwhile",
            NotCached::SketchUnavailable => "sketch-unavailable",
            NotCached::MatcherBehind => "matcher-behind",
            NotCached::Undecidable => "undecidable",
            NotCached::Capacity => "capacity",
            NotCached::Order => "order",
            NotCached::Quota => "database-quota",
            NotCached::Outweighed => "outweighed",
            NotCached::EpochChanged => "epoch-changed",
            NotCached::ReadTooSlow => "read-too-slow",
            NotCached::ReadTooEarly => "read-too-early",
            NotCached::ShortLived => "short-lived",
        }
    }
}

/// How the pipeline is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The change feed runs and its effects get through.
    pub live: bool,
    /// The sketch answers.
    pub sketch: bool,
    /// The sketch contains everything for the time being (rule C8).
    pub saturated: bool,
    /// The sketch's epoch.
    pub epoch: u64,
    /// Every write at or before it has had its effects.
    pub watermark: Position,
    /// How old the watermark is.
    pub watermark_age_ms: u64,
    /// Δ_inv; `u32::MAX`: unbounded.
    pub invalidation_ms: u32,
    /// Active queries.
    pub active_queries: usize,
    /// How many of them the matcher's index finds.
    pub coverage: Coverage,
    /// Purges not confirmed yet.
    pub purges_pending: usize,
}

/// The gateway's own tier, told what to drop before purges are sent.
pub trait Tier: Send + Sync {
    /// Drop these.
    fn drop_keys(&self, keys: &[Key]);
    /// Drop everything of the collection.
    fn drop_collection(&self, namespace: &Namespace);
    /// Drop everything.
    fn drop_all(&self);
}
