//! The pipeline's metrics. Names follow Prometheus' conventions; durations are seconds.

mod edges;

use std::sync::atomic::{AtomicI64, AtomicU64};

use freshet_core::notification::Effect;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use self::edges::EdgeMetrics;
use crate::matcher::Affected;
use crate::pipeline::{NotCached, Status};
use crate::purge::EdgeStatus;
use crate::sketch::port::Snapshot;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    effect: &'static str,
}

type Seconds = Gauge<f64, AtomicU64>;

/// All of them.
#[derive(Default)]
pub(crate) struct Metrics {
    events: Counter,
    notifications: Family<Kind, Counter>,
    filter_failures: Counter,
    purges_ordered: Counter,
    purges_pending: Gauge,
    edges: EdgeMetrics,
    not_cached: Family<Reason, Counter>,
    stale_keys: Gauge,
    fill_ratio: Seconds,
    saturated: Gauge,
    epoch: Gauge<i64, AtomicI64>,
    watermark_age: Seconds,
    invalidation: Seconds,
    active: Gauge,
    residual: Gauge,
    atoms: Gauge,
    live: Gauge,
    rows_lost: Counter,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let r = registry.sub_registry_with_prefix("freshet_invalidation");
        r.register("events", "Changes taken in", self.events.clone());
        r.register(
            "notifications",
            "Resources touched by changes",
            self.notifications.clone(),
        );
        r.register(
            "filter_failures",
            "Filters that failed and were taken for touched",
            self.filter_failures.clone(),
        );
        r.register(
            "purges_ordered",
            "Surrogate keys ordered to be purged",
            self.purges_ordered.clone(),
        );
        r.register(
            "purges_pending",
            "Purges not confirmed yet",
            self.purges_pending.clone(),
        );
        self.edges.register(r);
        self.register_state(r);
    }

    fn register_state(&self, r: &mut Registry) {
        r.register(
            "not_cached",
            "Answers that were not cached, by reason",
            self.not_cached.clone(),
        );
        r.register(
            "stale_keys",
            "Keys in the last sketch that was put together",
            self.stale_keys.clone(),
        );
        r.register(
            "fill_ratio",
            "Share of bits set in that sketch",
            self.fill_ratio.clone(),
        );
        r.register(
            "saturated",
            "1 while the sketch contains everything",
            self.saturated.clone(),
        );
        r.register("epoch", "The sketch's epoch", self.epoch.clone());
        r.register(
            "watermark_age_seconds",
            "Age of the watermark",
            self.watermark_age.clone(),
        );
        r.register(
            "delay_seconds",
            "Bound from a write's acknowledgement to its confirmed purge; +Inf: none",
            self.invalidation.clone(),
        );
        r.register(
            "active",
            "Active queries, counts and record forms",
            self.active.clone(),
        );
        r.register(
            "active_residual",
            "Active queries that no index finds: every change is held against them",
            self.residual.clone(),
        );
        r.register(
            "active_atoms",
            "Different conditions of active queries",
            self.atoms.clone(),
        );
        r.register("live", "1 while answers can be cached", self.live.clone());
        r.register(
            "rows_lost",
            "Times that a query partition's copies became stale, since a cell was gone or missed changes",
            self.rows_lost.clone(),
        );
    }

    pub(crate) fn matched(&self, events: usize, all: &[Affected], faults: u64) {
        self.events.inc_by(events as u64);
        self.filter_failures.inc_by(faults);
        for affected in all {
            let Affected::Resources(touched) = affected else {
                continue;
            };
            for one in touched {
                let effect = match one.effect {
                    Effect::Add => "add",
                    Effect::Change => "change",
                    Effect::Move => "move",
                    Effect::Remove => "remove",
                    Effect::Maybe => "maybe",
                };
                self.notifications.get_or_create(&Kind { effect }).inc();
            }
        }
    }

    pub(crate) fn row_lost(&self) {
        self.rows_lost.inc();
    }

    pub(crate) fn invalidated(&self, orders: usize) {
        self.purges_ordered.inc_by(orders as u64);
    }

    pub(crate) fn edges(&self, edges: &[EdgeStatus]) {
        edges.iter().for_each(|edge| self.edges.set(edge));
    }

    pub(crate) fn not_cached(&self, no: NotCached) {
        let reason = no.word();
        self.not_cached.get_or_create(&Reason { reason }).inc();
    }

    #[allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]
    pub(crate) fn snapshot(&self, snapshot: &Snapshot) {
        self.stale_keys.set(snapshot.stale_keys as i64);
        let ones: u32 = snapshot.bits.iter().map(|byte| byte.count_ones()).sum();
        self.fill_ratio
            .set(f64::from(ones) / f64::from(snapshot.m.max(1)));
    }

    #[allow(clippy::cast_possible_wrap)]
    pub(crate) fn epoch(&self, epoch: u64) {
        self.epoch.set(epoch as i64);
    }

    #[allow(clippy::cast_possible_wrap, clippy::cast_precision_loss)]
    pub(crate) fn status(&self, status: &Status) {
        self.live.set(i64::from(status.live && status.sketch));
        self.saturated.set(i64::from(status.saturated));
        self.active.set(status.active_queries as i64);
        self.residual.set(status.coverage.residual as i64);
        self.atoms.set(status.coverage.atoms as i64);
        self.purges_pending.set(status.purges_pending as i64);
        self.watermark_age.set(match status.watermark_age_ms {
            u64::MAX => f64::INFINITY,
            ms => ms as f64 / 1000.0,
        });
        self.invalidation.set(match status.invalidation_ms {
            u32::MAX => f64::INFINITY,
            ms => f64::from(ms) / 1000.0,
        });
    }
}
