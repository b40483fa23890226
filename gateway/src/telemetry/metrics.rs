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

use crate::error::Limit;
use crate::read::reason::Reason;
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
struct LimitLabels {
    limit: &'static str,
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
    limits: Family<LimitLabels, Counter>,
    tier_results: Family<ResultLabels, Counter>,
    /// The one counter on the path of a tier hit.
    hits: Counter,
    size: Size,
    live: Live,
}

#[derive(Default)]
struct Size {
    entries: Gauge<u64, AtomicU64>,
    bytes: Gauge<u64, AtomicU64>,
}

#[derive(Default)]
struct Live {
    queries: Gauge,
    followers: Gauge,
}

/// What is looked up when metrics are asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Current {
    /// Answers in the tier, and their bytes.
    pub tier: (u64, u64),
    /// Live queries, and the streams of them.
    pub live: (usize, usize),
}

fn seconds() -> Seconds {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

impl Metrics {
    /// Metrics in a registry of their own; `more` adds those of other parts.
    #[must_use]
    pub fn new(more: impl FnOnce(&mut Registry)) -> Metrics {
        let mut registry = Registry::default();
        more(&mut registry);
        let own = registry.sub_registry_with_prefix("freshet");
        let requests = Family::default();
        own.register(
            "requests",
            "Requests that went past the first look into the tier",
            requests.clone(),
        );
        let duration = Family::new_with_constructor(seconds as fn() -> Seconds);
        own.register_with_unit(
            "request_duration",
            "Time to answer them",
            Unit::Seconds,
            duration.clone(),
        );
        let not_cached: Family<ReasonLabels, Counter> = Family::default();
        own.register(
            "not_cached",
            "Answers that no cache may keep, by reason",
            not_cached.clone(),
        );
        let limits = Family::default();
        own.register(
            "limit_refusals",
            "Requests refused because a limit was reached, by its setting",
            limits.clone(),
        );
        let tier_results: Family<ResultLabels, Counter> = Family::default();
        own.register(
            "tier_results",
            "What the gateway's own tier did for cacheable reads",
            tier_results.clone(),
        );
        let hits = tier_results
            .get_or_create(&ResultLabels { result: "hit" })
            .clone();
        let size = Size::default();
        own.register("tier_entries", "Answers in the tier", size.entries.clone());
        own.register_with_unit(
            "tier_size",
            "Size of the tier",
            Unit::Bytes,
            size.bytes.clone(),
        );
        let live = Live::default();
        own.register("live_queries", "Live queries", live.queries.clone());
        own.register(
            "live_followers",
            "Streams of live queries",
            live.followers.clone(),
        );
        Metrics {
            registry,
            requests,
            duration,
            not_cached,
            limits,
            tier_results,
            hits,
            size,
            live,
        }
    }

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
        let labels = RequestLabels {
            route,
            method,
            status,
        };
        self.requests.get_or_create(&labels).inc();
        #[allow(clippy::cast_precision_loss)]
        self.duration
            .get_or_create(&RouteLabels { route })
            .observe(ms as f64 / 1000.0);
    }

    /// A request was refused because a limit is reached.
    pub fn refused(&self, limit: Limit) {
        let limit = limit.setting();
        self.limits.get_or_create(&LimitLabels { limit }).inc();
    }

    /// An answer goes out that no cache may keep.
    pub fn not_cached(&self, reason: Reason) {
        self.not_cached
            .get_or_create(&ReasonLabels {
                reason: reason.word(),
            })
            .inc();
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
        self.tier_results
            .get_or_create(&ResultLabels { result })
            .inc();
    }

    /// The text form.
    #[must_use]
    pub fn text(&self, current: Current) -> String {
        self.size.entries.set(current.tier.0);
        self.size.bytes.set(current.tier.1);
        let gauge = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.live.queries.set(gauge(current.live.0));
        self.live.followers.set(gauge(current.live.1));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}
