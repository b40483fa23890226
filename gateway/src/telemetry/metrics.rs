//! Metrics, as Prometheus text. The registry belongs to the application: there are no globals.
//!
//! Labels are words from closed sets, never keys or names that a client chose.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::respond::CacheStatus;

/// A request's labels.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    method: Method,
    status: u16,
}

/// The methods that are counted apart.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Query,
    Other,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabels {
    reason: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResultLabels {
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

type Seconds = Histogram;

/// All metrics.
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    duration: Family<RouteLabels, Seconds, fn() -> Seconds>,
    not_cached: Family<ReasonLabels, Counter>,
    tier_results: Family<ResultLabels, Counter>,
    /// The one counter on the path of a tier hit.
    hits: Counter,
    live: Live,
}

/// What is looked up when somebody asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Snapshot {
    /// Answers in the tier.
    pub tier_entries: u64,
    /// Their size.
    pub tier_bytes: u64,
    /// Queries watched.
    pub active_queries: u64,
    /// Purges not confirmed.
    pub purges_pending: u64,
    /// Age of the watermark, in milliseconds.
    pub watermark_age_ms: u64,
    /// Δ_inv, in milliseconds.
    pub invalidation_ms: u64,
    /// The sketch contains everything.
    pub saturated: bool,
}

#[derive(Default)]
struct Live {
    tier_entries: Gauge<u64, AtomicU64>,
    tier_bytes: Gauge<u64, AtomicU64>,
    active_queries: Gauge<u64, AtomicU64>,
    purges_pending: Gauge<u64, AtomicU64>,
    watermark_age_ms: Gauge<u64, AtomicU64>,
    invalidation_ms: Gauge<u64, AtomicU64>,
    saturated: Gauge<u64, AtomicU64>,
}

fn seconds() -> Seconds {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

impl Default for Metrics {
    fn default() -> Metrics {
        let mut registry = Registry::with_prefix("freshet");
        let requests = Family::default();
        registry.register("requests", "Requests that were not tier hits", requests.clone());
        let duration = Family::new_with_constructor(seconds as fn() -> Seconds);
        registry.register_with_unit("request_duration", "Time to answer, tier hits apart", Unit::Seconds, duration.clone());
        let not_cached: Family<ReasonLabels, Counter> = Family::default();
        registry.register("not_cached", "Answers that no cache may keep, by reason", not_cached.clone());
        let tier_results: Family<ResultLabels, Counter> = Family::default();
        registry.register("tier_results", "What the gateway's own tier did for cacheable reads", tier_results.clone());
        let hits = tier_results.get_or_create(&ResultLabels { result: "hit" }).clone();
        let live = Live::default();
        registry.register("tier_entries", "Answers in the tier", live.tier_entries.clone());
        registry.register_with_unit("tier_size", "Size of the tier", Unit::Bytes, live.tier_bytes.clone());
        registry.register("active_queries", "Queries watched for changes", live.active_queries.clone());
        registry.register("purges_pending", "Purges not confirmed", live.purges_pending.clone());
        registry.register("watermark_age_ms", "Age of the watermark in milliseconds", live.watermark_age_ms.clone());
        registry.register("invalidation_ms", "Bound from write to confirmed purge in milliseconds; 4294967295 is unbounded", live.invalidation_ms.clone());
        registry.register("sketch_saturated", "1 while the sketch contains everything", live.saturated.clone());
        Metrics {
            registry,
            requests,
            duration,
            not_cached,
            tier_results,
            hits,
            live,
        }
    }
}

impl Metrics {
    /// A request was answered by the tier before it was even parsed.
    pub fn hit(&self) {
        self.hits.inc();
    }

    /// A request was answered.
    pub fn answered(&self, route: &'static str, method: &http::Method, status: u16, ms: u64) {
        let method = match method.as_str() {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" => Method::Post,
            "PUT" => Method::Put,
            "PATCH" => Method::Patch,
            "DELETE" => Method::Delete,
            "QUERY" => Method::Query,
            _ => Method::Other,
        };
        let labels = RequestLabels { route, method, status };
        self.requests.get_or_create(&labels).inc();
        #[allow(clippy::cast_precision_loss)]
        self.duration.get_or_create(&RouteLabels { route }).observe(ms as f64 / 1000.0);
    }

    /// An answer goes out that no cache may keep.
    pub fn not_cached(&self, reason: &'static str) {
        self.not_cached.get_or_create(&ReasonLabels { reason }).inc();
    }

    /// A cacheable answer goes out.
    pub fn cache_status(&self, status: CacheStatus) {
        let result = match status {
            CacheStatus::Hit => return self.hit(),
            CacheStatus::Stored => "stored",
            CacheStatus::Collapsed => "collapsed",
            CacheStatus::Reloaded => "reloaded",
            CacheStatus::NotCached(reason) => return self.not_cached(reason),
        };
        self.tier_results.get_or_create(&ResultLabels { result }).inc();
    }

    /// The text form.
    #[must_use]
    pub fn text(&self, snapshot: Snapshot) -> String {
        let live = &self.live;
        live.tier_entries.set(snapshot.tier_entries);
        live.tier_bytes.set(snapshot.tier_bytes);
        live.active_queries.set(snapshot.active_queries);
        live.purges_pending.set(snapshot.purges_pending);
        live.watermark_age_ms.set(snapshot.watermark_age_ms);
        live.invalidation_ms.set(snapshot.invalidation_ms);
        live.saturated.set(u64::from(snapshot.saturated));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
