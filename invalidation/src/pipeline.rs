//! The facade that the gateway holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Moment, Position};
use tokio_util::sync::CancellationToken;

use crate::ingest::port::Source;
use crate::purge::port::Purger;
use crate::registry::{Images, Resource};
use crate::sketch::port::{SketchStore, Start};

/// Permission to read and then to cache (rule C1). Ends with [`Pipeline::settle`] or when it is dropped.
#[derive(Debug)]
pub struct Ticket {
    /// The read has to be made at or after it.
    pub from: Position,
    /// The sketch's epoch at the beginning.
    pub epoch: u64,
    /// When it was given.
    pub started: Moment,
    /// What for.
    pub resource: Resource,
}

/// What was read.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// A lower bound of the read (rule C1).
    pub position: Position,
    /// What the copy shall be given.
    pub lifetimes: Lifetimes,
    /// The keys of the records in the window, and of the look-ahead that decides whether there is a next
    /// page. For objects each is a copy of its record (rule C4); the look-ahead harmlessly counts as one.
    pub members: &'a [Key],
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

/// What a pipeline is made of.
pub struct Parts {
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// The sketch.
    pub sketch: Arc<dyn SketchStore>,
    /// The shared caches in front of the gateway.
    pub purgers: Vec<Arc<dyn Purger>>,
    /// The gateway's own tier.
    pub tier: Arc<dyn Tier>,
}

/// Begins the change feed where the sketch's kept state ends (`None`: now).
pub type Connect = Box<dyn FnOnce(Option<Vec<u8>>) -> Box<dyn Source> + Send>;

/// The way from a write to its effects. A handle: clones share one pipeline.
#[derive(Clone)]
pub struct Pipeline {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Parts,
    position: AtomicU64,
}

impl Pipeline {
    /// A pipeline that is not running yet: nothing is cacheable.
    #[must_use]
    pub fn new(parts: Parts) -> Pipeline {
        Pipeline {
            inner: Arc::new(Inner {
                parts,
                position: AtomicU64::new(0),
            }),
        }
    }

    /// Runs until `stop`: opens the sketch, connects the change feed, carries out effects and purges.
    pub async fn run(&self, start: Start, connect: Connect, stop: CancellationToken) {
        let _ = (start, connect);
        stop.cancelled().await;
    }

    /// C1: registers the resource with the matcher before the database is asked.
    ///
    /// # Errors
    /// Why the answer cannot be cached, whatever it is.
    pub fn begin(&self, resource: Resource) -> Result<Ticket, NotCached> {
        let _ = resource;
        Err(NotCached::MatcherBehind)
    }

    /// The estimated lifetimes of an answer with these members; zero: below the floor, do not cache.
    #[must_use]
    pub fn lifetimes(&self, ticket: &Ticket, members: &[Key]) -> Lifetimes {
        let _ = (ticket, members);
        Lifetimes::ZERO
    }

    /// C2–C4: after the read and before the answer goes out as cacheable.
    ///
    /// # Errors
    /// Why it must go out as not shared.
    pub async fn settle(&self, ticket: Ticket, answer: Answer<'_>) -> Result<(), NotCached> {
        let _ = (ticket, answer);
        Err(NotCached::MatcherBehind)
    }

    /// Whether the key changed, or may have, after `position`. The gateway asks once more after it put a
    /// settled answer into its tier: a change in between found nothing there to drop.
    #[must_use]
    pub fn changed_since(&self, key: &Key, position: Position) -> bool {
        let _ = (key, position);
        true
    }

    /// The sketch's wire bytes. Saturated, with an age and Δ_inv beyond every bound, when there is none to
    /// be had (rules C7, C16).
    pub async fn sketch(&self, namespaces: &[Namespace]) -> Bytes {
        let _ = namespaces;
        Bytes::new()
    }

    /// The highest position known to be committed: reads are made at or after it.
    #[must_use]
    pub fn position(&self) -> Position {
        Position(self.inner.position.load(Ordering::Acquire))
    }

    /// A write of this gateway was acknowledged at `position`.
    pub fn observe(&self, position: Position) {
        self.inner.position.fetch_max(position.0, Ordering::AcqRel);
    }

    /// What the change feed says about a collection; [`Images::AfterOnly`] until told.
    pub fn declare(&self, namespace: &Namespace, images: Images) {
        let _ = (namespace, images);
    }

    /// For `/readyz` and the console.
    #[must_use]
    pub fn status(&self) -> Status {
        let _ = &self.inner.parts;
        Status::default()
    }
}
