//! Sketches to be sent: put together at most every so often, their ages counted on to the moment of sending
//! (rule C6).

use std::collections::HashMap;

use bytes::Bytes;
use freshet_core::name::Namespace;
use freshet_core::sketch::wire::{self, Header, INVALIDATION_UNBOUNDED_MS};
use freshet_core::sketch::{Epoch, counting};
use freshet_core::time::{Moment, Position};
use parking_lot::Mutex;
use tracing::debug;

use super::Inner;
use crate::sketch::port::Snapshot;

/// Snapshots by the collections asked for.
pub(super) struct Snapshots {
    reuse_ms: u64,
    taken: Mutex<HashMap<Vec<Namespace>, (Moment, Snapshot)>>,
}

/// Different selections of collections kept at a time.
const SELECTIONS_MAX: usize = 64;

impl Snapshots {
    pub(super) fn new(reuse_ms: u64) -> Snapshots {
        Snapshots {
            reuse_ms,
            taken: Mutex::new(HashMap::new()),
        }
    }

    fn get(&self, selection: &[Namespace], now: Moment) -> Option<(Moment, Snapshot)> {
        let taken = self.taken.lock();
        let (at, snapshot) = taken.get(selection)?;
        (now.since(*at) < self.reuse_ms).then(|| (*at, snapshot.clone()))
    }

    fn put(&self, selection: Vec<Namespace>, at: Moment, snapshot: Snapshot) {
        let mut taken = self.taken.lock();
        if taken.len() >= SELECTIONS_MAX {
            taken.clear();
        }
        taken.insert(selection, (at, snapshot));
    }

    pub(super) fn clear(&self) {
        self.taken.lock().clear();
    }
}

impl Inner {
    pub(super) async fn sketch_bytes(&self, namespaces: &[Namespace]) -> Bytes {
        let state = *self.state.lock();
        let mut selection = namespaces.to_vec();
        selection.sort();
        selection.dedup();
        let Some((taken, snapshot)) = self.snapshot(selection, state.sketch).await else {
            return saturated(state.epoch);
        };
        let now = self.clock.now();
        let Some(report) = snapshot.report else {
            return saturated(Some(snapshot.epoch));
        };
        // This process's own suspicion is newer than what it reported.
        let own = state.invalidation_ms(self.outbox.invalidation_ms(), now);
        let header = Header {
            k: snapshot.k,
            saturated: snapshot.saturated,
            m: snapshot.m,
            age_ms: u32::try_from(report.age_ms + now.since(taken)).unwrap_or(u32::MAX),
            epoch: snapshot.epoch,
            watermark: report.watermark,
            invalidation_ms: report.invalidation_ms.max(own),
        };
        wire::encode(&header, &snapshot.bits)
    }

    async fn snapshot(
        &self,
        selection: Vec<Namespace>,
        sketch_answers: bool,
    ) -> Option<(Moment, Snapshot)> {
        let asked = self.clock.now();
        if let Some(kept) = self.snapshots.get(&selection, asked) {
            return Some(kept);
        }
        if !sketch_answers {
            return None;
        }
        match self.sketch.snapshot(&selection).await {
            Ok(snapshot) => {
                self.state.lock().saturated = snapshot.saturated;
                self.metrics.snapshot(&snapshot);
                // Its ages are those of some moment since it was asked for: the earliest counts.
                self.snapshots.put(selection, asked, snapshot.clone());
                Some((asked, snapshot))
            }
            Err(error) => {
                debug!(%error, "no sketch");
                None
            }
        }
    }
}

/// The sketch when there is none: everything is stale, nothing is bounded.
fn saturated(epoch: Option<Epoch>) -> Bytes {
    let header = Header {
        k: counting::HASHES,
        saturated: true,
        m: counting::BITS_MIN,
        age_ms: u32::MAX,
        epoch: epoch.unwrap_or(Epoch {
            number: 0,
            salt: [0; 16],
        }),
        watermark: Position::ZERO,
        invalidation_ms: INVALIDATION_UNBOUNDED_MS,
    };
    wire::encode(&header, &[])
}
