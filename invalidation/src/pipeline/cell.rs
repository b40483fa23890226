//! One cell of the grid: a pipeline whose changes are those of its column, and whose queries are those of its row. What
//! differs from a pipeline alone is here: queries come as requests, gateways are told what changed, and what is lost is
//! the row's (rule C8).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use freshet_core::freshness::{ResourceKind, SurrogateKey};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::wire::INVALIDATION_UNBOUNDED_MS;
use freshet_core::time::Moment;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::Inner;
use crate::effect::Effects;
use crate::matcher::{Affected, Shown, Window, affected};
use crate::partition::streams::{StreamError, Streams};
use crate::partition::{Board, Cell, Request, Retained, Verdict, answer_requests};
use crate::purge::{Order, Target};
use crate::registry::{Refused, Registry, Resource};
use crate::sketch::port::{SketchError, Write};

/// How often a cell sees to it that its row counts it as up, milliseconds.
const KEEP_UP_MS: u64 = 500;
/// How long a process that is not heard of keeps another one from being its cell, milliseconds.
const LEASE_MS: u64 = 1_500;
/// A cell whose watermark is older is not up, milliseconds.
const UP_AGE_MS_MAX: u64 = 2_000;
/// How long purges of what a lost cell matched are waited for, milliseconds.
const PURGED_WAIT_MS: u64 = 10_000;

/// What a cell has beside its pipeline.
pub(super) struct CellRole {
    pub(super) cell: Cell,
    pub(super) streams: Arc<dyn Streams>,
    pub(super) board: Board,
    pub(super) retained: Mutex<Retained>,
    /// Other cells that are gone.
    pub(super) gone: watch::Sender<Vec<String>>,
    /// Names this life of this process: no two have the same.
    holder: String,
    /// When it was last known that no other process is this cell.
    held: Mutex<Option<Moment>>,
}

impl CellRole {
    pub(super) fn new(
        cell: Cell,
        streams: Arc<dyn Streams>,
        holder: String,
        life: u64,
    ) -> CellRole {
        CellRole {
            cell,
            streams,
            board: Board::new(cell.member(), life),
            retained: Mutex::default(),
            gone: watch::Sender::default(),
            holder,
            held: Mutex::new(None),
        }
    }

    fn office(&self) -> String {
        let Cell { row, column, .. } = self.cell;
        format!("cell:{row}:{column}")
    }

    /// Takes the cell, or keeps it. False: another process has it.
    async fn hold(&self, asked: Moment) -> Result<bool, StreamError> {
        let office = self.office();
        let term = self.streams.lead(&office, &self.holder, LEASE_MS).await?;
        if term.is_some() {
            *self.held.lock() = Some(asked);
        }
        Ok(term.is_some())
    }

    /// Whether no other process can be this cell now: what this one says of it counts.
    pub(super) fn is_held(&self, now: Moment) -> bool {
        self.held
            .lock()
            .is_some_and(|held| now.since(held) < LEASE_MS)
    }

    /// The next process need not wait.
    pub(super) async fn let_go(&self) {
        if let Err(error) = self.streams.step_down(&self.office(), &self.holder).await {
            warn!(%error, "the cell is not given up; its lease ends by itself");
        }
    }

    /// Leaves to other rows what is theirs: of a record's own resource only one cell of the column tells.
    pub(super) fn leave(&self, all: &mut Affected) {
        if let Affected::Resources(touched) = all {
            touched.retain(|one| {
                let is_form = one.key.as_str().contains('?');
                one.kind != ResourceKind::Record || is_form || self.cell.names(&one.key)
            });
        }
    }

    /// Whether a resource is of this cell's row.
    pub(super) fn has(&self, resource: &Resource) -> bool {
        self.cell.shape.row_of(resource) == self.cell.row
    }

    pub(super) fn note(&self, namespace: &Namespace, effects: &Effects, hits: &[bool]) {
        let hit = effects.keys.iter().zip(hits).filter(|(_, hit)| **hit);
        let keys = hit.map(|((key, (kind, _)), _)| (key, *kind));
        self.board.note(namespace, keys, effects.whole.is_some());
    }

    /// A window as far as one column can follow it: what other columns' records do is not seen. `changed`: changes came
    /// after it was read.
    fn followed(&self, window: &Window, changed: bool) -> Window {
        if self.cell.shape.writes == 1 && !changed {
            return window.clone();
        }
        let mut window = window.clone();
        window.places.clear();
        if let Some(end) = &mut window.end {
            end.beyond = Default::default();
        }
        window
    }
}

impl Inner {
    /// What a cell does beside matching, until another process is the cell.
    pub(super) async fn attend(&self) {
        let Some(role) = self.cell() else { return };
        let Cell { row, column, .. } = role.cell;
        while !role.is_held(self.clock.now()) {
            tokio::time::sleep(Duration::from_millis(KEEP_UP_MS)).await;
        }
        let judge = |request: &Request| self.judge(role, request);
        tokio::select! {
            () = answer_requests(&role.streams, row, column, judge) => {}
            () = self.keep_up(role) => {}
            () = self.bury(role) => {}
        }
    }

    /// Has a query matched from where its answer was read.
    fn judge(&self, role: &CellRole, request: &Request) -> Verdict {
        let now = self.clock.now();
        let named = self.revive.as_ref();
        let resource = named.and_then(|name| name(&request.namespace, &request.key));
        let Some(resource) = resource else {
            return Verdict::Undecidable;
        };
        if !role.has(&resource) {
            return Verdict::Late;
        }
        // No change is matched in between.
        let mut registry = self.registry.lock();
        let retained = role.retained.lock();
        let changed = match self.replay(role, &retained, &resource, request) {
            Ok(changed) => changed,
            Err(verdict) => return verdict,
        };
        let shown = request.shown(role.followed(&request.window, changed));
        let entered = enter(&mut registry, &resource, request, shown, now);
        drop(retained);
        drop(registry);
        self.observe(request.position);
        entered.err().unwrap_or(Verdict::Active)
    }

    /// Matches the query with the changes that came after its answer was read, alone: they are few. Whether there were any
    /// that concern its collections.
    fn replay(
        &self,
        role: &CellRole,
        retained: &Retained,
        resource: &Resource,
        request: &Request,
    ) -> Result<bool, Verdict> {
        if retained.reshaped() > request.known {
            return Err(Verdict::Changed);
        }
        let meanwhile = retained.after(request.position).ok_or(Verdict::Late)?;
        let concerns = |namespace: &Namespace| {
            let joined = resource.joins.iter().any(|join| join.from == *namespace);
            joined || *namespace == resource.namespace
        };
        let meanwhile = meanwhile.filter(|event| concerns(&event.namespace));
        let mut meanwhile = meanwhile.peekable();
        if meanwhile.peek().is_none() {
            return Ok(false);
        }
        let now = self.clock.now();
        let mut alone = Registry::new(self.settings.registry);
        let shown = request.shown(role.followed(&request.window, false));
        enter(&mut alone, resource, request, shown, now)?;
        let record = resource.record();
        for event in meanwhile {
            let touched = match affected(alone.collection(&event.namespace), event, now) {
                Affected::Collection(..) => return Err(Verdict::Changed),
                Affected::Resources(touched) => touched,
            };
            let is_it = |key: &Key| *key == resource.key || record.as_ref() == Some(key);
            if touched.iter().any(|one| is_it(&one.key)) {
                return Err(Verdict::Changed);
            }
        }
        Ok(true)
    }

    /// Waits until no other process is this cell.
    pub(super) async fn claim(&self) {
        let Some(role) = self.cell() else { return };
        let mut waits = false;
        loop {
            match role.hold(self.clock.now()).await {
                Ok(true) => return,
                held => {
                    if !waits {
                        let error = held.err();
                        info!(cell = %role.cell, ?error, "waiting until no other process is this cell");
                    }
                    waits = true;
                }
            }
            tokio::time::sleep(Duration::from_millis(KEEP_UP_MS)).await;
        }
    }

    /// A cell that begins is not up before it matches what comes; reads that an earlier life of it had agreed to, and of
    /// which the sketch does not know yet, are refused.
    pub(super) async fn begin_down(&self) {
        let Some(role) = self.cell() else { return };
        let Cell { row, column, .. } = role.cell;
        let mut attempt = 0;
        while let Err(error) = role.streams.mark(row, column, false).await {
            attempt += 1;
            if attempt == 1 {
                warn!(%error, "the streams cannot be reached yet");
            }
            self.pause(attempt).await;
        }
    }

    /// Sees to it that the row counts this cell as up while it is, also after the streams lost what they knew. Until
    /// another process is the cell.
    async fn keep_up(&self, role: &CellRole) {
        let Cell { row, column, .. } = role.cell;
        loop {
            tokio::time::sleep(Duration::from_millis(KEEP_UP_MS)).await;
            match role.hold(self.clock.now()).await {
                Ok(true) => {}
                Ok(false) => {
                    error!(cell = %role.cell, "another process is this cell now: this one ends");
                    return;
                }
                Err(_) => continue,
            }
            let state = *self.state.lock();
            let age = state.age_ms(self.clock.now());
            if !state.feed || !state.sketch || age.is_none_or(|age| age > UP_AGE_MS_MAX) {
                continue;
            }
            let known = match role.streams.row(row).await {
                Ok(known) => known,
                Err(_) => continue,
            };
            let (lags, lagged) = (self.outbox.lags(), known.lagging.contains(&column));
            if lags != lagged && role.streams.lag(row, column, lags).await.is_err() {
                continue;
            }
            if !known.up.contains(&column) && role.streams.mark(row, column, true).await.is_ok() {
                info!(cell = %role.cell, "the cell is up");
            }
        }
    }

    /// Sees to what cells took with them that are gone.
    async fn bury(&self, role: &CellRole) {
        let mut news = role.gone.subscribe();
        while news.changed().await.is_ok() {
            let gone = news.borrow_and_update().clone();
            for member in gone {
                let Some(cell) = Cell::of_member(&member) else {
                    continue;
                };
                warn!(%cell, "a cell is gone: what its row shows counts as stale");
                self.metrics.row_lost();
                self.lose_row(role, cell).await;
                // Until its purges are confirmed, its silence is what tells how late they are (Δ_inv).
                self.purged_since(self.clock.now()).await;
                self.dismiss(&member).await;
            }
        }
    }

    /// What becomes of a cell that is gone in a new epoch is the new epoch's.
    async fn dismiss(&self, member: &str) {
        let mut attempt = 0;
        while let Ok(epoch) = self.epoch()
            && let Err(error) = self.sketch.dismiss(epoch, member).await
            && !matches!(error, SketchError::EpochChanged(_))
        {
            attempt += 1;
            self.pause(attempt).await;
        }
    }

    /// This cell missed changes: what its row shows is lost, and nothing else.
    pub(super) async fn lose_own_row(&self, role: &CellRole) {
        {
            let mut state = self.state.lock();
            state.feed = false;
            state.watermark = None;
            state.losses += 1;
        }
        {
            let mut registry = self.registry.lock();
            registry.forget();
            *role.retained.lock() = Retained::default();
        }
        self.live.lose();
        self.metrics.row_lost();
        self.lose_row(role, role.cell).await;
    }

    /// C8 for one row: reads under way are refused, then what is out is stale, dropped and purged. As often as it takes.
    async fn lose_row(&self, role: &CellRole, lost: Cell) {
        let mut attempt = 0;
        while let Err(error) = self.lose_row_once(role, lost).await {
            attempt += 1;
            match error {
                Lost::Sketch(error @ SketchError::EpochChanged(_)) => {
                    // In the new epoch everything is stale anyhow.
                    self.recover(&error, attempt).await;
                }
                error => {
                    if attempt == 1 {
                        warn!(%error, "a lost row is not stale yet; trying until it is");
                    }
                    self.pause(attempt).await;
                }
            }
        }
    }

    async fn lose_row_once(&self, role: &CellRole, lost: Cell) -> Result<(), Lost> {
        role.streams.mark(lost.row, lost.column, false).await?;
        let epoch = self.epoch()?;
        let position = self.position();
        let mut keys: BTreeMap<Namespace, Vec<(ResourceKind, Write)>> = BTreeMap::new();
        for (namespace, key) in self.sketch.outstanding().await? {
            let named = self.revive.as_ref();
            let resource = named.and_then(|name| name(&namespace, &key));
            // What names nothing is nobody's, and so everybody's.
            let is_lost = |one: &Resource| lost.shape.row_of(one) == lost.row;
            if resource.as_ref().is_none_or(is_lost) {
                let kind = resource.map_or(ResourceKind::Query, |one| one.kind());
                let all = keys.entry(namespace).or_default();
                all.push((kind, Write { key, position }));
            }
        }
        let mut count = 0;
        for (namespace, lost) in keys {
            let writes: Vec<Write> = lost.iter().map(|(_, write)| write.clone()).collect();
            self.sketch.report_lost(epoch, &namespace, &writes).await?;
            count += writes.len();
            // Also those that were stale before: their purges may be lost.
            let orders = lost.into_iter().map(|(kind, write)| Order {
                surrogate: SurrogateKey::resource(kind, &write.key),
                target: Target::Resource(namespace.clone(), write.key),
                position,
            });
            self.outbox.order(orders);
        }
        role.board.note_everything();
        role.board.tell(&*role.streams).await?;
        warn!(cell = %lost, copies = count, "what the row showed is stale");
        Ok(())
    }

    /// Waits until every edge has confirmed what was ordered before `ordered`, or shows that it does not.
    async fn purged_since(&self, ordered: Moment) {
        loop {
            let waited = self.clock.now().since(ordered);
            let edges = self.outbox.edges();
            let open = edges.iter().any(|edge| edge.unconfirmed_ms >= Some(waited));
            let unbounded = self.outbox.invalidation_ms() == INVALIDATION_UNBOUNDED_MS;
            if !open || unbounded || waited > PURGED_WAIT_MS {
                return;
            }
            tokio::time::sleep(Duration::from_millis(KEEP_UP_MS)).await;
        }
    }

    /// Gateways are told what changed before this process says how far it is.
    pub(super) async fn tell(&self) {
        let Some(role) = self.cell() else { return };
        let mut attempt = 0;
        while let Err(error) = role.board.tell(&*role.streams).await {
            attempt += 1;
            if attempt == 1 {
                warn!(%error, "gateways are not told what changed; trying until they are");
            }
            self.pause(attempt).await;
        }
    }
}

/// Registers a copy that is out, in one step.
fn enter(
    registry: &mut Registry,
    resource: &Resource,
    request: &Request,
    shown: Shown<'_>,
    now: Moment,
) -> Result<(), Verdict> {
    registry.declare(&resource.namespace, request.images);
    let begun = registry.begin(resource, now);
    begun.map_err(|why| match why {
        Refused::Full => Verdict::Full,
        Refused::Quota => Verdict::Quota,
        Refused::Retiring => Verdict::Retiring,
        Refused::Undecidable(_) => Verdict::Undecidable,
    })?;
    let settled = registry.settle(resource, shown, request.position, request.span_ms, now);
    registry.release(resource, now);
    settled.then_some(()).ok_or(Verdict::Late)
}

/// Why a row is not lost yet.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Sketch(#[from] SketchError),
    #[error(transparent)]
    Streams(#[from] StreamError),
}
