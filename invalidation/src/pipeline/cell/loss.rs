//! What a cell took with it that is gone, or missed: its row's copies are stale, and nothing else (rule C8).

use std::collections::BTreeMap;
use std::time::Duration;

use freshet_core::freshness::{ResourceKind, SurrogateKey};
use freshet_core::name::Namespace;
use freshet_core::sketch::wire::INVALIDATION_UNBOUNDED_MS;
use freshet_core::time::Moment;
use tracing::warn;

use super::super::Inner;
use super::{CellRole, KEEP_UP_MS};
use crate::partition::streams::StreamError;
use crate::partition::{Cell, Retained};
use crate::purge::{Order, Target};
use crate::registry::Resource;
use crate::sketch::port::{SketchError, Write};

/// How long others wait until one has seen to a cell that is gone, milliseconds.
const BURIAL_MS_MAX: u64 = 20_000;
/// How long purges of what a lost cell matched are waited for, milliseconds.
const PURGED_WAIT_MS: u64 = 10_000;

impl Inner {
    /// Sees to what cells took with them that are gone.
    pub(super) async fn bury(&self, role: &CellRole) {
        let mut news = role.gone.subscribe();
        while news.changed().await.is_ok() {
            let gone = news.borrow_and_update().clone();
            for member in gone {
                let Some(cell) = Cell::of_member(&member) else {
                    continue;
                };
                if !self.buries(role, &member).await {
                    continue;
                }
                warn!(%cell, "a cell is gone: what its row shows counts as stale");
                self.metrics.row_lost();
                self.lose_row(role, cell).await;
                // Until its purges are confirmed, its silence is what tells how late they are (Δ_inv).
                self.purged_since(self.clock.now()).await;
                self.dismiss(&member).await;
                // Should it go again, whoever is left need not wait. If this fails, they wait.
                let _ = role.streams.step_down(&burial(&member), &role.holder).await;
            }
        }
    }

    /// Whether it is this cell that sees to one that is gone: one of those that are left does. False once somebody has.
    async fn buries(&self, role: &CellRole, member: &str) -> bool {
        let office = burial(member);
        loop {
            if !role.gone.borrow().iter().any(|one| one == member) {
                return false;
            }
            let term = role
                .streams
                .lead(&office, &role.holder, BURIAL_MS_MAX)
                .await;
            if let Ok(Some(_)) = term {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(KEEP_UP_MS)).await;
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
    pub(in super::super) async fn lose_own_row(&self, role: &CellRole) {
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
        // The streams of another shape are not at hand; its gateways miss the cell among those that report.
        if lost.shape == role.cell.shape {
            role.streams.mark(lost.row, lost.column, false).await?;
        }
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
}

fn burial(member: &str) -> String {
    format!("bury:{member}")
}

/// Why a row is not lost yet.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error(transparent)]
    Sketch(#[from] SketchError),
    #[error(transparent)]
    Streams(#[from] StreamError),
}
