//! One cell of the grid: a pipeline whose changes are those of its column, and whose queries are those of its row. What
//! differs from a pipeline alone is here: one process is the cell at a time, queries come as requests, gateways are told
//! what changed, and what is lost is the row's.

mod judge;
mod loss;

use std::sync::Arc;
use std::time::Duration;

use freshet_core::freshness::ResourceKind;
use freshet_core::name::Namespace;
use freshet_core::time::Moment;
use parking_lot::Mutex;
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::Inner;
use crate::effect::Effects;
use crate::matcher::Affected;
use crate::partition::streams::{StreamError, Streams};
use crate::partition::{Board, Cell, Request, Retained, answer_requests};
use crate::registry::Resource;

/// How often a cell sees to it that its row counts it as up, milliseconds.
const KEEP_UP_MS: u64 = 500;
/// How long a process that is not heard of keeps another one from being its cell, milliseconds.
const LEASE_MS: u64 = 1_500;
/// A cell whose watermark is older is not up, milliseconds.
const UP_AGE_MS_MAX: u64 = 2_000;

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

    /// All of it, whether a copy was out or not: others may have made it stale before, and gateways count writes.
    pub(super) fn note(&self, namespace: &Namespace, effects: &Effects) {
        let keys = effects.keys.iter().map(|(key, (kind, _))| (key, *kind));
        self.board.note(namespace, keys, effects.whole.is_some());
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
