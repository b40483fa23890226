//! What each edge does with its purges. The label is the edge's name: there are as many as are configured.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::purge::EdgeStatus;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    edge: String,
}

#[derive(Default)]
pub(super) struct EdgeMetrics {
    purges: Family<Labels, Counter>,
    failures: Family<Labels, Counter>,
    pending: Family<Labels, Gauge>,
    unconfirmed: Family<Labels, Gauge<f64, AtomicU64>>,
    down: Family<Labels, Gauge>,
}

impl EdgeMetrics {
    pub(super) fn register(&self, r: &mut Registry) {
        r.register(
            "edge_purges",
            "Purge requests that an edge confirmed",
            self.purges.clone(),
        );
        r.register(
            "edge_failures",
            "Purge requests that failed",
            self.failures.clone(),
        );
        r.register(
            "edge_pending",
            "Purges that an edge has not confirmed",
            self.pending.clone(),
        );
        r.register(
            "edge_unconfirmed_seconds",
            "Age of the oldest of them",
            self.unconfirmed.clone(),
        );
        r.register(
            "edge_down",
            "1 while that is too old, and shared caches are given nothing",
            self.down.clone(),
        );
    }

    #[allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]
    pub(super) fn set(&self, status: &EdgeStatus) {
        let edge = Labels {
            edge: status.name.clone(),
        };
        let total = |counters: &Family<Labels, Counter>, total| {
            let counter = counters.get_or_create(&edge);
            counter.inner().store(total, Ordering::Relaxed);
        };
        total(&self.purges, status.sent);
        total(&self.failures, status.failed);
        let pending = status.pending as i64;
        self.pending.get_or_create(&edge).set(pending);
        let oldest = status.unconfirmed_ms.unwrap_or(0) as f64 / 1000.0;
        self.unconfirmed.get_or_create(&edge).set(oldest);
        let down = i64::from(status.down);
        self.down.get_or_create(&edge).set(down);
    }
}
