//! The sketch port. Every operation is atomic: between the look and the act nothing else happens. Time
//! is the adapter's own (this process's clock, or the Redis server's), never the caller's.
//!
//! An operation of an old epoch is refused as a whole (rule C8): what it knows is no longer accounted for.

use std::sync::Arc;

use async_trait::async_trait;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::Epoch;
use freshet_core::time::Position;

/// A copy about to be issued.
#[derive(Clone, Copy, Debug)]
pub struct Read<'a> {
    /// The resource.
    pub key: &'a Key,
    /// Where it was read.
    pub position: Position,
    /// What the copy is given.
    pub lifetimes: Lifetimes,
    /// The copy travels inside another resource's response (rule C4): purging this key does not reach it.
    pub embedded: bool,
}

/// What became of a [`Read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The copy is accounted for and may be issued.
    Recorded,
    /// The key changed at this position, after the read (rule C2), or may have: the sketch remembers
    /// nothing at or before it.
    InvalidatedAt(Position),
}

/// A key that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The resource.
    pub key: Key,
    /// The position of the write.
    pub position: Position,
}

/// A purge that every shared cache confirmed after its repeat (rule C5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purged {
    /// The resource.
    pub key: Key,
    /// The latest invalidation that the purge answers to.
    pub position: Position,
}

/// What this process contributes to the sketch's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// Every write at or before it is in the sketch, as far as this process matches.
    pub watermark: Position,
    /// How old the watermark is now.
    pub age_ms: u64,
    /// Δ_inv of this process's purges.
    pub invalidation_ms: u32,
}

/// The sketch of some collections, now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Which life.
    pub epoch: Epoch,
    /// Contains everything; `bits` is empty.
    pub saturated: bool,
    /// Bits.
    pub m: u32,
    /// Hash functions.
    pub k: u8,
    /// ⌈m/8⌉ bytes in wire order.
    pub bits: Arc<[u8]>,
    /// Keys in it.
    pub stale_keys: usize,
    /// The least watermark and the greatest ages over all processes that feed this sketch; `None` when
    /// one of them has not reported yet.
    pub report: Option<Report>,
    /// The names of those that have reported in this epoch, where others can feed it.
    pub members: Vec<String>,
}

/// Which collections a snapshot is of. For a whole database the sketch says itself what it knows of: the
/// database no longer lists a collection that was dropped, while copies of it are still about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Every collection of this database.
    Database(Box<str>),
    /// These.
    Collections(Vec<Namespace>),
}

/// How the sketch's content is known at start (rule C8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Nothing was ever issued: the store is new. Whole.
    First,
    /// Copies of an earlier life may exist. Whole only if the adapter kept its state and the change feed
    /// resumes where that state ends; which the feed tells later.
    Again,
}

/// One sketch.
#[async_trait]
pub trait SketchStore: Send + Sync {
    /// Takes up the kept state, or begins a new epoch: whole after [`Start::First`], else saturated.
    async fn open(&self, start: Start) -> Result<Opened, SketchError>;

    /// The keys that copies may be outstanding of, to be matched again after a restart.
    async fn outstanding(&self) -> Result<Vec<(Namespace, Key)>, SketchError>;

    /// Records copies before they are issued, or refuses each that is out of date (rules C1–C4).
    async fn settle(
        &self,
        epoch: u64,
        namespace: &Namespace,
        reads: &[Read<'_>],
    ) -> Result<Vec<Settled>, SketchError>;

    /// Records changes: outstanding copies become stale until their horizon. Tells, per write, whether
    /// there was one. The same write twice is one.
    async fn report_write(
        &self,
        epoch: u64,
        namespace: &Namespace,
        writes: &[Write],
    ) -> Result<Vec<bool>, SketchError>;

    /// Nobody matched these for a while: what is out of them becomes stale wherever it was read, as by a write at
    /// the given position. Tells, per key, whether there was anything.
    async fn report_lost(
        &self,
        epoch: u64,
        namespace: &Namespace,
        lost: &[Write],
    ) -> Result<Vec<bool>, SketchError>;

    /// The whole collection changed: every outstanding copy of it becomes stale.
    async fn report_collection(
        &self,
        epoch: u64,
        namespace: &Namespace,
        position: Position,
    ) -> Result<(), SketchError>;

    /// Shortens horizons to now + M (rule C3).
    async fn confirm_purge(
        &self,
        epoch: u64,
        namespace: &Namespace,
        purged: &[Purged],
    ) -> Result<(), SketchError>;

    /// Forgets everything and begins a new, saturated epoch, unless `epoch` is over already (rule C8).
    /// Reads before `through` are refused from now on. Answers the epoch that is current now.
    async fn saturate(&self, epoch: u64, through: Position) -> Result<Epoch, SketchError>;

    /// All shared caches dropped everything issued before this epoch began: saturated until now + max M
    /// at most.
    async fn confirm_saturation(&self, epoch: u64) -> Result<(), SketchError>;

    /// The union over a scope, in one step: a collection that comes up meanwhile is in it or has no stale key yet.
    async fn snapshot(&self, scope: &Scope) -> Result<Snapshot, SketchError>;

    /// Puts this process's report, and where its feed resumes. Answers which cells of a grid are gone, by their
    /// names: they reported nothing for too long. What only they matched is to be reported lost, and they dismissed.
    async fn report(
        &self,
        epoch: u64,
        report: Report,
        resume: Option<&[u8]>,
    ) -> Result<Vec<String>, SketchError>;

    /// A cell's report does not count any more.
    async fn dismiss(&self, epoch: u64, cell: &str) -> Result<(), SketchError>;
}

/// What [`SketchStore::open`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The current epoch.
    pub epoch: Epoch,
    /// What this process issued in an earlier life.
    pub earlier: Earlier,
}

/// What is known of the copies that an earlier life of this process issued (rule C8).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Earlier {
    /// There are none: the first start, or the first of this process beside others that feed the sketch.
    Nothing,
    /// All are in the sketch ([`SketchStore::outstanding`]), with every change up to where the feed resumes.
    Kept(Vec<u8>),
    /// Nothing; the epoch is new and saturated.
    Lost,
}

/// Why an operation had no effect (or, for `Unavailable`, may have had one: repeating is harmless).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SketchError {
    /// No answer in time.
    #[error("the sketch is unavailable: {0}")]
    Unavailable(String),
    /// Another epoch is current.
    #[error("the sketch is in epoch {0}")]
    EpochChanged(u64),
    /// It holds as many keys as it may.
    #[error("the sketch is full")]
    Full,
}
