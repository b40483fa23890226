//! Sketches to be sent: put together at most every so often, their ages counted on to the moment of sending
//! (rule C6).

use std::collections::HashMap;

use bytes::Bytes;
use freshet_core::sketch::wire::{self, Header, INVALIDATION_UNBOUNDED_MS};
use freshet_core::sketch::{Epoch, counting};
use freshet_core::time::{Moment, Position};
use parking_lot::Mutex;
use tracing::debug;

use super::Inner;
use crate::sketch::port::{Scope, Snapshot};

/// Snapshots by what was asked for.
pub(super) struct Snapshots {
    reuse_ms: u64,
    taken: Mutex<HashMap<Scope, (Moment, Snapshot)>>,
}

/// Different scopes kept at a time.
const SCOPES_MAX: usize = 64;

impl Snapshots {
    pub(super) fn new(reuse_ms: u64) -> Snapshots {
        Snapshots {
            reuse_ms,
            taken: Mutex::new(HashMap::new()),
        }
    }

    fn get(&self, scope: &Scope, now: Moment) -> Option<(Moment, Snapshot)> {
        let taken = self.taken.lock();
        let (at, snapshot) = taken.get(scope)?;
        (now.since(*at) < self.reuse_ms).then(|| (*at, snapshot.clone()))
    }

    fn put(&self, scope: Scope, at: Moment, snapshot: Snapshot) {
        let mut taken = self.taken.lock();
        if taken.len() >= SCOPES_MAX {
            taken.clear();
        }
        taken.insert(scope, (at, snapshot));
    }

    pub(super) fn clear(&self) {
        self.taken.lock().clear();
    }
}

impl Inner {
    pub(super) async fn sketch_bytes(&self, mut scope: Scope) -> Bytes {
        let state = *self.state.lock();
        if let Scope::Collections(namespaces) = &mut scope {
            namespaces.sort();
            namespaces.dedup();
        }
        let Some((taken, snapshot)) = self.snapshot(scope, state.sketch).await else {
            return saturated(state.epoch);
        };
        let now = self.clock.now();
        let Some(report) = snapshot.report else {
            return saturated(Some(snapshot.epoch));
        };
        // This process's own suspicion is newer than what it reported.
        let own = state.invalidation_ms(self.purge_ms(), now);
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

    pub(super) async fn snapshot(
        &self,
        scope: Scope,
        sketch_answers: bool,
    ) -> Option<(Moment, Snapshot)> {
        let asked = self.clock.now();
        if let Some(kept) = self.snapshots.get(&scope, asked) {
            return Some(kept);
        }
        if !sketch_answers {
            return None;
        }
        match self.sketch.snapshot(&scope).await {
            Ok(snapshot) => {
                self.state.lock().saturated = snapshot.saturated;
                if !matches!(&scope, Scope::Collections(namespaces) if namespaces.is_empty()) {
                    self.metrics.snapshot(&snapshot);
                }
                // Its ages are those of some moment since it was asked for: the earliest counts.
                self.snapshots.put(scope, asked, snapshot.clone());
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
