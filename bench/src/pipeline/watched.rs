//! The real sketch and the real edge, with a look at when they are done.

use std::sync::Arc;

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::Epoch;
use freshet_core::time::Position;
use freshet_invalidation::Tier;
use freshet_invalidation::purge::Varnish;
use freshet_invalidation::purge::port::{PurgeError, Purger};
use freshet_invalidation::sketch::RedisSketch;
use freshet_invalidation::sketch::port::{
    Opened, Purged, Read, Report, Scope, Settled, SketchError, SketchStore, Snapshot, Start, Write,
};

use super::rounds::Rounds;

/// The sketch in Redis.
pub(super) struct WatchedSketch {
    pub(super) sketch: RedisSketch,
    pub(super) rounds: Arc<Rounds>,
}

/// A Varnish node.
pub(super) struct WatchedEdge {
    pub(super) edge: Varnish,
    pub(super) rounds: Arc<Rounds>,
}

/// No tier: what is measured lies beyond it.
pub(super) struct NoTier;

#[async_trait]
impl SketchStore for WatchedSketch {
    async fn open(&self, start: Start) -> Result<Opened, SketchError> {
        self.sketch.open(start).await
    }

    async fn outstanding(&self) -> Result<Vec<(Namespace, Key)>, SketchError> {
        self.sketch.outstanding().await
    }

    async fn settle(
        &self,
        epoch: u64,
        namespace: &Namespace,
        reads: &[Read<'_>],
    ) -> Result<Vec<Settled>, SketchError> {
        self.sketch.settle(epoch, namespace, reads).await
    }

    async fn report_write(
        &self,
        epoch: u64,
        namespace: &Namespace,
        writes: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        let hits = self.sketch.report_write(epoch, namespace, writes).await?;
        for (write, _) in writes.iter().zip(&hits).filter(|(_, hit)| **hit) {
            self.rounds.reported(&write.key);
        }
        Ok(hits)
    }

    async fn report_lost(
        &self,
        epoch: u64,
        namespace: &Namespace,
        lost: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        self.sketch.report_lost(epoch, namespace, lost).await
    }

    async fn report_collection(
        &self,
        epoch: u64,
        namespace: &Namespace,
        position: Position,
    ) -> Result<(), SketchError> {
        self.sketch
            .report_collection(epoch, namespace, position)
            .await
    }

    async fn confirm_purge(
        &self,
        epoch: u64,
        namespace: &Namespace,
        purged: &[Purged],
    ) -> Result<(), SketchError> {
        self.sketch.confirm_purge(epoch, namespace, purged).await
    }

    async fn saturate(&self, epoch: u64, through: Position) -> Result<Epoch, SketchError> {
        self.sketch.saturate(epoch, through).await
    }

    async fn confirm_saturation(&self, epoch: u64) -> Result<(), SketchError> {
        self.sketch.confirm_saturation(epoch).await
    }

    async fn snapshot(&self, scope: &Scope) -> Result<Snapshot, SketchError> {
        self.sketch.snapshot(scope).await
    }

    async fn report(
        &self,
        epoch: u64,
        report: Report,
        resume: Option<&[u8]>,
    ) -> Result<Vec<String>, SketchError> {
        self.sketch.report(epoch, report, resume).await
    }

    async fn dismiss(&self, epoch: u64, cell: &str) -> Result<(), SketchError> {
        self.sketch.dismiss(epoch, cell).await
    }
}

#[async_trait]
impl Purger for WatchedEdge {
    fn name(&self) -> &str {
        self.edge.name()
    }

    fn keys_max(&self) -> usize {
        self.edge.keys_max()
    }

    fn coalesce_ms(&self) -> u64 {
        self.edge.coalesce_ms()
    }

    fn purge_ms(&self) -> u64 {
        self.edge.purge_ms()
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        let sent = self.rounds.us();
        self.edge.purge(keys).await?;
        keys.iter().for_each(|key| self.rounds.purged(key, sent));
        Ok(())
    }
}

impl Tier for NoTier {
    fn drop_keys(&self, _: &[Key]) {}
    fn drop_collection(&self, _: &Namespace) {}
    fn drop_all(&self) {}
}
