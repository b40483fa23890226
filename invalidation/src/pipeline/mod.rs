//! The facade that the gateway holds: begin, settle, sketch, status. What happens to a change is in `feed`
//! and `effects`.

mod cell;
mod effects;
mod feed;
mod outlook;
mod read;
mod replica;
mod settings;
mod snapshots;
mod state;
mod ticket;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Moment, Position};
use freshet_core::ttl::Estimator;
use parking_lot::Mutex;
use prometheus_client::registry::Registry as MetricRegistry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::cell::CellRole;
use self::snapshots::Snapshots;
use self::state::State;
use crate::ingest::port::{Source, Watermark};
use crate::live::Live;
use crate::partition::streams::Streams;
use crate::partition::{Cell, Client};
use crate::purge::ledger::Ledger;
use crate::purge::port::Purger;
use crate::purge::{EdgeStatus, Outbox};
use crate::registry::{Explained, Images, Registry, Resource};
use crate::sketch::port::{Scope, SketchStore, Start};
use crate::telemetry::Metrics;

pub use settings::Settings;
pub use ticket::Ticket;
pub use types::{Answer, NotCached, Status, Tier};

/// What a pipeline is made of.
pub struct Parts {
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// The sketch.
    pub sketch: Arc<dyn SketchStore>,
    /// The shared caches in front of the gateway.
    pub purgers: Vec<Arc<dyn Purger>>,
    /// Where purges that are not confirmed outlive this process. Without one every restart purges whole databases.
    pub ledger: Option<Arc<dyn Ledger>>,
    /// The gateway's own tier.
    pub tier: Arc<dyn Tier>,
    /// What a key names: a sketch that outlived this process is whole once all that it holds is matched
    /// again (rule C8). Without it every restart begins a new epoch.
    pub revive: Option<Revive>,
}

/// From a key back to the resource that it names; `None`: it names none.
pub type Revive = Arc<dyn Fn(&Namespace, &Key) -> Option<Resource> + Send + Sync>;

/// Begins the change feed where the sketch's kept state ends (`None`: now).
pub type Connect = Box<dyn FnOnce(Option<Vec<u8>>) -> Box<dyn Source> + Send>;

/// The way from a write to its effects. A handle: clones share one pipeline.
#[derive(Clone)]
pub struct Pipeline {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Arc<dyn Clock>,
    sketch: Arc<dyn SketchStore>,
    tier: Arc<dyn Tier>,
    revive: Option<Revive>,
    outbox: Outbox,
    settings: Settings,
    registry: Arc<Mutex<Registry>>,
    estimator: Mutex<Estimator>,
    state: Mutex<State>,
    snapshots: Snapshots,
    live: Arc<Live>,
    /// What was matched and has its effects.
    progress: watch::Sender<Option<Progress>>,
    position: AtomicU64,
    metrics: Metrics,
    role: Role,
}

/// What a pipeline is among others.
enum Role {
    /// It does everything itself.
    Alone,
    /// It matches a part.
    Cell(Box<CellRole>),
    /// Cells match for it.
    Replica(Arc<Client>),
}

/// How far the effects of changes are carried out.
#[derive(Clone)]
struct Progress {
    losses: u64,
    watermark: Option<Watermark>,
    resume: Option<Vec<u8>>,
}

impl Pipeline {
    /// A pipeline that is not running yet: nothing is cacheable.
    #[must_use]
    pub fn new(parts: Parts, settings: Settings) -> Pipeline {
        Pipeline::with_role(parts, settings, Role::Alone)
    }

    /// One cell of a grid. `holder` names this life of this process: while another one is the cell, it waits; should another
    /// one become it, it ends. Its change feed is a [`crate::partition::CellSource`], its name in the sketch
    /// [`Cell::member`], and it has to be able to revive.
    #[must_use]
    pub fn cell(
        parts: Parts,
        settings: Settings,
        cell: Cell,
        holder: &str,
        streams: Arc<dyn Streams>,
    ) -> Pipeline {
        let life = parts.clock.wall_ms();
        let role = CellRole::new(cell, streams, holder.to_owned(), life);
        let role = Role::Cell(Box::new(role));
        Pipeline::with_role(parts, settings, role)
    }

    /// A gateway's, over a grid. Its change feed is for live queries alone.
    #[must_use]
    pub fn over_grid(parts: Parts, settings: Settings, client: Arc<Client>) -> Pipeline {
        Pipeline::with_role(parts, settings, Role::Replica(client))
    }

    fn with_role(parts: Parts, settings: Settings, role: Role) -> Pipeline {
        let clock = Arc::clone(&parts.clock);
        let outbox = Outbox::new(settings.outbox, parts.purgers, parts.ledger, clock);
        Pipeline {
            inner: Arc::new(Inner {
                clock: parts.clock,
                sketch: parts.sketch,
                tier: parts.tier,
                revive: parts.revive,
                outbox,
                registry: Arc::new(Mutex::new(Registry::new(settings.registry))),
                estimator: Mutex::new(Estimator::new(settings.estimator)),
                state: Mutex::new(State::default()),
                snapshots: Snapshots::new(settings.snapshot_ms),
                live: Arc::default(),
                progress: watch::Sender::new(None),
                position: AtomicU64::new(0),
                metrics: Metrics::default(),
                role,
                settings,
            }),
        }
    }

    /// Puts the pipeline's metrics into a registry.
    pub fn register(&self, registry: &mut MetricRegistry) {
        self.inner.metrics.register(registry);
    }

    /// Runs until `stop`: opens the sketch, connects the change feed, carries out effects and purges.
    pub async fn run(&self, start: Start, connect: Connect, stop: CancellationToken) {
        match &self.inner.role {
            Role::Replica(client) => replica::run(&self.inner, client, connect, stop).await,
            Role::Alone | Role::Cell(_) => feed::run(&self.inner, start, connect, stop).await,
        }
    }

    /// C1: registers the resource with the matcher before the database is asked.
    ///
    /// # Errors
    /// Why the answer cannot be cached, whatever it is.
    pub fn begin(&self, resource: Resource) -> Result<Ticket, NotCached> {
        self.inner
            .begin(resource)
            .inspect_err(|no| self.inner.metrics.not_cached(*no))
    }

    /// The estimated lifetimes of an answer with these members; zero: below the floor, do not cache.
    #[must_use]
    pub fn lifetimes(&self, ticket: &Ticket, members: &[Key]) -> Lifetimes {
        let resource = &ticket.resource;
        let policy = self.inner.settings.policy(&resource.namespace);
        let now = self.inner.clock.now();
        let mut estimator = self.inner.estimator.lock();
        let namespace = &resource.namespace;
        let ms = match resource.record() {
            Some(record) => estimator.record_ms(policy, namespace, &record, now),
            None => estimator.query_ms(policy, namespace, &resource.key, members, now),
        };
        policy.lifetimes(ms)
    }

    /// C2–C4: after the read and before the answer goes out as cacheable.
    ///
    /// # Errors
    /// Why it must go out as not shared.
    pub async fn settle(&self, ticket: Ticket, answer: Answer<'_>) -> Result<(), NotCached> {
        self.inner
            .settle(&ticket, answer)
            .await
            .inspect_err(|no| self.inner.metrics.not_cached(*no))
    }

    /// The sketch's wire bytes. Saturated, with an age and Δ_inv beyond every bound, when there is none to
    /// be had (rules C7, C16).
    pub async fn sketch(&self, scope: Scope) -> Bytes {
        self.inner.sketch_bytes(scope).await
    }

    /// The highest position known to be committed: reads are made at or after it.
    #[must_use]
    pub fn position(&self) -> Position {
        self.inner.position()
    }

    /// A write of this gateway was acknowledged at `position`.
    pub fn observe(&self, position: Position) {
        self.inner.observe(position);
    }

    /// What the change feed says about a collection; [`Images::AfterOnly`] until told.
    pub fn declare(&self, namespace: &Namespace, images: Images) {
        self.inner.registry.lock().declare(namespace, images);
    }

    /// How the matcher finds a query; `None`: a record, which is found by its key.
    ///
    /// # Errors
    /// [`NotCached::Undecidable`].
    pub fn explain(&self, resource: &Resource) -> Result<Option<Explained>, NotCached> {
        let explained = self.inner.registry.lock().explain(resource);
        explained.map_err(|_| NotCached::Undecidable)
    }

    /// Whether an answer that this process keeps may be handed out again: its changes come in and reach the sketch.
    /// A process that is cut off from either does not hear that its copies are stale (rules C7, C16).
    #[must_use]
    pub fn serves(&self, now: Moment) -> bool {
        let state = *self.inner.state.lock();
        state.admits(self.inner.settings.serve_ms_max, now).is_ok()
    }

    /// Grows whenever any collection was created, dropped or renamed, or may have been: what was found out about
    /// one before that may be wrong.
    #[must_use]
    pub fn shape(&self) -> u64 {
        self.inner.registry.lock().shape()
    }

    /// The live queries.
    #[must_use]
    pub fn live(&self) -> &Arc<Live> {
        &self.inner.live
    }

    /// Whether shared caches may be given anything: every edge confirms its purges in time. What one that does not
    /// holds may be handed out until its lifetime ends (C3), so that has to end.
    #[must_use]
    pub fn shares(&self) -> bool {
        match &self.inner.role {
            Role::Replica(client) => !client.lags(),
            Role::Alone | Role::Cell(_) => !self.inner.outbox.lags(),
        }
    }

    /// How each edge is doing, for `/readyz`.
    #[must_use]
    pub fn edges(&self) -> Vec<EdgeStatus> {
        self.inner.outbox.edges()
    }

    /// For `/readyz` and the console.
    #[must_use]
    pub fn status(&self) -> Status {
        self.inner.status()
    }

    /// Has the metrics tell how things are now, also when nothing moves.
    pub async fn refresh_metrics(&self) {
        let status = self.probe().await;
        self.inner.metrics.status(&status);
        self.inner.metrics.edges(&self.inner.outbox.edges());
    }

    /// The status, after the sketch itself was asked whether it is saturated: without that it says what the last
    /// sketch that a client fetched was.
    pub async fn probe(&self) -> Status {
        let sketch_answers = self.inner.state.lock().sketch;
        let nothing = Scope::Collections(Vec::new());
        if self.inner.snapshot(nothing, sketch_answers).await.is_none() {
            self.inner.state.lock().saturated = true;
        }
        self.inner.status()
    }
}

impl Inner {
    fn cell(&self) -> Option<&CellRole> {
        match &self.role {
            Role::Cell(role) => Some(role),
            Role::Alone | Role::Replica(_) => None,
        }
    }

    fn client(&self) -> Option<&Client> {
        match &self.role {
            Role::Replica(client) => Some(client),
            Role::Alone | Role::Cell(_) => None,
        }
    }

    /// How long purges take until they are confirmed: those of this process, or of the cells.
    fn purge_ms(&self) -> u32 {
        match self.role {
            Role::Replica(_) => self.state.lock().purge_ms,
            Role::Alone | Role::Cell(_) => self.outbox.invalidation_ms(),
        }
    }

    fn position(&self) -> Position {
        Position(self.position.load(Ordering::Acquire))
    }

    fn observe(&self, position: Position) {
        self.position.fetch_max(position.0, Ordering::AcqRel);
    }

    fn status(&self) -> Status {
        let now = self.clock.now();
        let state = *self.state.lock();
        let (active_queries, coverage) = {
            let registry = self.registry.lock();
            (registry.len(), registry.coverage())
        };
        Status {
            live: state.admits(self.settings.watermark_ms_max, now).is_ok(),
            sketch: state.sketch,
            saturated: state.saturated,
            epoch: state.epoch.map_or(0, |epoch| epoch.number),
            watermark: state.position(),
            watermark_age_ms: state.age_ms(now).unwrap_or(u64::MAX),
            invalidation_ms: state.invalidation_ms(self.purge_ms(), now),
            active_queries,
            coverage,
            purges_pending: self.outbox.pending(),
        }
    }
}
