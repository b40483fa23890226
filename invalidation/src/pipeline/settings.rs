//! What a deployment decides about the pipeline.

use std::collections::HashMap;

use freshet_core::freshness::Lifetimes;
use freshet_core::name::Namespace;
use freshet_core::ttl::{EstimatorLimits, Policy};

use crate::purge::OutboxSettings;
use crate::registry::RegistryLimits;

/// The settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How answers live, unless their collection says otherwise.
    pub policy: Policy,
    /// Collections with a policy of their own.
    pub policies: HashMap<Namespace, Policy>,
    /// All databases that are served: purged when the sketch lost its state (rule C8). Empty: not known, so
    /// nothing shortens the time for which everything counts as stale.
    pub databases: Vec<String>,
    /// The active list.
    pub registry: RegistryLimits,
    /// The estimator's memory.
    pub estimator: EstimatorLimits,
    /// The purges.
    pub outbox: OutboxSettings,
    /// Nothing new is cached while the watermark is older, milliseconds.
    pub watermark_ms_max: u64,
    /// Answers kept by the process itself are handed out again only while the watermark is no older,
    /// milliseconds: others may have purged meanwhile what this process has not heard of yet.
    pub serve_ms_max: u64,
    /// A sketch is put together anew at most so often, milliseconds.
    pub snapshot_ms: u64,
    /// The first and the longest delay before the sketch or the feed is tried again, milliseconds.
    pub retry_ms: (u64, u64),
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            policy: Policy::default(),
            policies: HashMap::new(),
            databases: Vec::new(),
            registry: RegistryLimits {
                active_max: 100_000,
                members_max: 5_000,
                database_active_max: 100_000,
                ticket_ms: 30_000,
            },
            estimator: EstimatorLimits::default(),
            outbox: OutboxSettings::default(),
            watermark_ms_max: 10_000,
            serve_ms_max: 10_000,
            snapshot_ms: 100,
            retry_ms: (50, 2_000),
        }
    }
}

impl Settings {
    /// The policy of a collection.
    #[must_use]
    pub fn policy(&self, namespace: &Namespace) -> &Policy {
        self.policies.get(namespace).unwrap_or(&self.policy)
    }

    /// The greatest lifetimes that any collection gives.
    #[must_use]
    pub fn caps(&self) -> Lifetimes {
        let all = self.policies.values().chain([&self.policy]);
        all.map(Policy::caps)
            .fold(Lifetimes::ZERO, |most, caps| Lifetimes {
                m: most.m.max(caps.m),
                s: most.s.max(caps.s),
            })
    }
}
