//! The sketch in process: the pure machine behind a mutex, with the process's clock. Its state dies with
//! the process, so every start but the first is saturated (rule C8).

use std::sync::Arc;

use async_trait::async_trait;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::Epoch;
use freshet_core::sketch::counting::HASHES;
use freshet_core::sketch::machine::{Limits, NewCopy, Refused, Sketch};
use freshet_core::time::{Clock, Moment, Position};
use parking_lot::Mutex;

use super::epoch::Entropy;
use super::port::{
    Earlier, Opened, Purged, Read, Report, Scope, Settled, SketchError, SketchStore, Snapshot,
    Start, Write,
};

/// The adapter.
pub struct LocalSketch {
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    state: Mutex<State>,
}

struct State {
    sketch: Sketch,
    report: Option<(Report, Moment)>,
}

impl LocalSketch {
    /// An empty sketch; [`SketchStore::open`] says whether that is the truth.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Entropy, limits: Limits) -> LocalSketch {
        let sketch = Sketch::new(limits, entropy.epoch_after(0, clock.wall_ms()));
        LocalSketch {
            clock,
            entropy,
            state: Mutex::new(State {
                sketch,
                report: None,
            }),
        }
    }

    fn with<T>(
        &self,
        epoch: u64,
        act: impl FnOnce(&mut State, Moment) -> T,
    ) -> Result<T, SketchError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let current = state.sketch.epoch().number;
        if epoch != current {
            return Err(SketchError::EpochChanged(current));
        }
        Ok(act(&mut state, now))
    }

    fn begin_epoch(&self, state: &mut State, through: Position) -> Epoch {
        let last = state.sketch.epoch().number;
        let epoch = self.entropy.epoch_after(last, self.clock.wall_ms());
        state.sketch.saturate(epoch, through, self.clock.now());
        state.report = None;
        epoch
    }
}

#[async_trait]
impl SketchStore for LocalSketch {
    async fn open(&self, start: Start) -> Result<Opened, SketchError> {
        let mut state = self.state.lock();
        let (epoch, earlier) = match start {
            Start::First => (state.sketch.epoch(), Earlier::Nothing),
            Start::Again => {
                let epoch = self.begin_epoch(&mut state, Position::ZERO);
                (epoch, Earlier::Lost)
            }
        };
        Ok(Opened { epoch, earlier })
    }

    async fn outstanding(&self) -> Result<Vec<(Namespace, Key)>, SketchError> {
        Ok(Vec::new())
    }

    async fn settle(
        &self,
        epoch: u64,
        namespace: &Namespace,
        reads: &[Read<'_>],
    ) -> Result<Vec<Settled>, SketchError> {
        self.with(epoch, |state, now| {
            let settle = |read: &Read<'_>| {
                let copy = NewCopy {
                    key: read.key,
                    position: read.position,
                    lifetimes: read.lifetimes,
                    embedded: read.embedded,
                };
                match state.sketch.settle(namespace, copy, now) {
                    Ok(()) => Ok(Settled::Recorded),
                    Err(Refused::InvalidatedAt(at)) => Ok(Settled::InvalidatedAt(at)),
                    Err(Refused::Full) => Err(SketchError::Full),
                }
            };
            reads.iter().map(settle).collect()
        })?
    }

    async fn report_write(
        &self,
        epoch: u64,
        namespace: &Namespace,
        writes: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        self.with(epoch, |state, now| {
            let report = |write: &Write| {
                state
                    .sketch
                    .report_write(namespace, &write.key, write.position, now)
            };
            writes.iter().map(report).collect()
        })
    }

    async fn report_lost(
        &self,
        epoch: u64,
        namespace: &Namespace,
        lost: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        self.with(epoch, |state, now| {
            let report = |one: &Write| {
                let Write { key, position } = one;
                state.sketch.report_lost(namespace, key, *position, now)
            };
            lost.iter().map(report).collect()
        })
    }

    async fn report_collection(
        &self,
        epoch: u64,
        namespace: &Namespace,
        position: Position,
    ) -> Result<(), SketchError> {
        self.with(epoch, |state, now| {
            state.sketch.report_collection(namespace, position, now);
        })
    }

    async fn confirm_purge(
        &self,
        epoch: u64,
        namespace: &Namespace,
        purged: &[Purged],
    ) -> Result<(), SketchError> {
        self.with(epoch, |state, now| {
            for purge in purged {
                state
                    .sketch
                    .confirm_purge(namespace, &purge.key, purge.position, now);
            }
        })
    }

    async fn saturate(&self, epoch: u64, through: Position) -> Result<Epoch, SketchError> {
        let mut state = self.state.lock();
        if state.sketch.epoch().number != epoch {
            return Ok(state.sketch.epoch());
        }
        Ok(self.begin_epoch(&mut state, through))
    }

    async fn confirm_saturation(&self, epoch: u64) -> Result<(), SketchError> {
        self.with(epoch, |state, now| state.sketch.confirm_saturation(now))
    }

    async fn snapshot(&self, scope: &Scope) -> Result<Snapshot, SketchError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let union = match scope {
            Scope::Collections(namespaces) => state.sketch.union(namespaces, now),
            Scope::Database(db) => {
                let known = state.sketch.collections(db);
                state.sketch.union(&known, now)
            }
        };
        let report = state.report.map(|(report, at)| Report {
            age_ms: report.age_ms + now.since(at),
            ..report
        });
        Ok(Snapshot {
            epoch: state.sketch.epoch(),
            saturated: union.saturated,
            m: union.m,
            k: HASHES,
            bits: union.bits.into(),
            stale_keys: union.stale_keys,
            report,
            members: Vec::new(),
        })
    }

    async fn report(
        &self,
        epoch: u64,
        report: Report,
        _resume: Option<&[u8]>,
    ) -> Result<Vec<String>, SketchError> {
        self.with(epoch, |state, now| state.report = Some((report, now)))?;
        Ok(Vec::new())
    }

    /// Others do not report to it.
    async fn dismiss(&self, epoch: u64, _cell: &str) -> Result<(), SketchError> {
        self.with(epoch, |_, _| ())
    }
}
