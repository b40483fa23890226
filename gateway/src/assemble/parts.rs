//! The parts that gateways and workers are made of, as the settings say.

use std::sync::Arc;

use anyhow::Context;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::machine::Limits;
use freshet_core::time::{Clock, Ttl};
use freshet_core::ttl::Policy;
use freshet_invalidation::Resource;
use freshet_invalidation::partition::Cell;
use freshet_invalidation::partition::streams::{RedisStreams, RedisStreamsSettings, Streams};
use freshet_invalidation::purge::ledger::{FileLedger, Ledger, RedisLedger, RedisLedgerSettings};
use freshet_invalidation::sketch::port::SketchStore;
use freshet_invalidation::sketch::{Entropy, LocalSketch, RedisSettings, RedisSketch};

use crate::auth::access::Access;
use crate::config::Settings;
use crate::config::settings::{AccessRule, Grant, Grid, StoreChoice};
use crate::edges;
use crate::read::asked::Asked;
use crate::route::{Route, parse_params};

/// Changes remembered per collection for reads under way; beyond it reads of that time are not cached.
const CHANGES_MAX: usize = 100_000;
/// Collections with outstanding copies.
const COLLECTIONS_MAX: usize = 10_000;
/// How old the watermark of one gateway among several may be for its tier to be used, in milliseconds.
const SERVE_MS_MAX: u64 = 2_000;
/// The longest one operation on a shared sketch may take, in milliseconds.
const SKETCH_MS_MAX: u64 = 250;
/// How long changes are remembered, in milliseconds: longer than any permitted read.
const RETENTION_MS: u64 = 30_000;

/// How the pipeline is set up; a gateway and a cell alike.
pub(super) fn pipeline_settings(
    settings: &Settings,
    entropy: &Entropy,
) -> freshet_invalidation::Settings {
    let mut pipeline = freshet_invalidation::Settings {
        databases: databases(&settings.access),
        policy: Policy {
            max_age_cap: seconds(settings.policy.max_age_max),
            shared_max_age_cap: seconds(settings.policy.shared_max_age_max),
            floor: seconds(settings.policy.max_age_min),
            quantile: settings.policy.quantile,
            alpha: settings.policy.alpha,
        },
        ..freshet_invalidation::Settings::default()
    };
    pipeline.registry.active_max =
        usize::try_from(settings.policy.active_max).unwrap_or(usize::MAX);
    let of_database = settings.policy.database_active_max.unwrap_or(u64::MAX);
    pipeline.registry.database_active_max = usize::try_from(of_database).unwrap_or(usize::MAX);
    pipeline.outbox.repeat_after_ms =
        millis(settings.server.fill_timeout).max(edges::repeat_ms_min(&settings.edges));
    if settings.redis.is_some() {
        // Another gateway may hand out a copy that this one has purged already, until it hears of the change or is
        // held to be cut off; the repeat has to come after that (C5).
        pipeline.serve_ms_max = SERVE_MS_MAX;
        pipeline.outbox.repeat_after_ms += SERVE_MS_MAX + SKETCH_MS_MAX;
    }
    pipeline.outbox.seed = seed(entropy);
    pipeline
}

pub(super) fn seed(entropy: &Entropy) -> u64 {
    let bytes = entropy.0.iter();
    bytes.fold(0, |seed, byte| seed << 8 ^ u64::from(*byte))
}

/// The databases that the rules name; none where a rule could mean any.
fn databases(rules: &[AccessRule]) -> Vec<String> {
    let mut names = Vec::new();
    for rule in rules.iter().filter(|rule| rule.read != Grant::Deny) {
        match rule.collection.split_once('.') {
            Some((db, _)) if !db.contains('*') => names.push(db.to_owned()),
            _ => return Vec::new(),
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Revives with the hints that the rules give.
pub(super) fn revive_under(settings: &Settings) -> freshet_invalidation::Revive {
    let access = Access::new(&settings.access);
    Arc::new(move |namespace, key| {
        let mut resource = revive(namespace, key)?;
        resource.hinted = access.is_hinted(namespace);
        Some(resource)
    })
}

/// From a key back to its question, for a sketch that outlived this process.
fn revive(namespace: &Namespace, key: &Key) -> Option<Resource> {
    let (path, query) = match key.as_str().split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (key.as_str(), None),
    };
    let asked = Asked::parse(Route::parse(path).ok()?, &parse_params(query).ok()?).ok()?;
    let same =
        asked.key() == *key && asked.namespace() == namespace && asked.database_only().is_none();
    same.then(|| asked.resource(key.clone()).ok()).flatten()
}

/// In Redis where several gateways share one, else in this process. `member`: who feeds it, and how long it may be silent.
pub(super) fn sketch(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    entropy: Entropy,
    member: &Member,
) -> anyhow::Result<Arc<dyn SketchStore>> {
    let caps = Lifetimes {
        m: seconds(settings.policy.max_age_max),
        s: seconds(settings.policy.shared_max_age_max),
    };
    // What is hinted may be active beyond the limit, up to twice; its copies are known to the sketch as well.
    let hinted = settings.access.iter().any(|rule| rule.hinted);
    let keys_max = settings
        .policy
        .active_max
        .saturating_mul(1 + u64::from(hinted));
    let limits = Limits {
        keys_max: usize::try_from(keys_max).unwrap_or(usize::MAX),
        changes_max: CHANGES_MAX,
        collections_max: COLLECTIONS_MAX,
        retention_ms: RETENTION_MS,
        caps,
        transfer_ms: millis(settings.server.fill_timeout),
    };
    let Some(server) = &settings.redis else {
        return Ok(Arc::new(LocalSketch::new(
            Arc::clone(clock),
            entropy,
            limits,
        )));
    };
    let redis = RedisSettings {
        server: server.clone(),
        prefix: "freshet".to_owned(),
        member: member.name.clone(),
        operation_ms_max: SKETCH_MS_MAX,
        lease_ms: member.lease_ms,
    };
    let sketch = RedisSketch::new(redis, limits, Arc::clone(clock), entropy)
        .context("the settings of Redis")?;
    Ok(Arc::new(sketch))
}

/// Where purges outlive the process: in Redis where there is one, else beside the embedded store.
pub(super) fn ledger(
    settings: &Settings,
    member: &Member,
) -> anyhow::Result<Option<Arc<dyn Ledger>>> {
    if let Some(server) = &settings.redis {
        let settings = RedisLedgerSettings {
            server: server.clone(),
            prefix: "freshet".to_owned(),
            member: member.name.clone(),
            operation_ms_max: SKETCH_MS_MAX,
        };
        let ledger = RedisLedger::new(&settings).context("the settings of Redis")?;
        return Ok(Some(Arc::new(ledger)));
    }
    Ok(match &settings.store {
        StoreChoice::Embedded(directory) => {
            Some(Arc::new(FileLedger::new(&directory.join("purges"))))
        }
        StoreChoice::Mongo(_) => None,
    })
}

/// A process among those that feed the sketch.
pub(super) struct Member {
    pub(super) name: String,
    /// Silent for so long, it is gone.
    lease_ms: u64,
}

impl Member {
    /// A gateway that matches for itself. Unique among the gateways of a deployment, and the same after a restart:
    /// containers all listen on the same address, machines may run several gateways.
    pub(super) fn gateway(settings: &Settings) -> Member {
        let name = settings.name.clone().unwrap_or_else(|| {
            let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
            format!("{}:{}", host.trim(), settings.server.listen)
        });
        Member {
            name,
            lease_ms: 10_000,
        }
    }

    /// A cell: what it takes with it is only its row, so it is given up sooner.
    pub(super) fn cell(cell: &Cell) -> Member {
        Member {
            name: cell.member(),
            lease_ms: 5_000,
        }
    }
}

/// The streams of the grid. Their names tell its shape: grids of two shapes can run side by side, while one replaces the
/// other.
pub(super) fn streams(
    settings: &Settings,
    grid: &Grid,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Streams>> {
    let server = settings.redis.as_ref().context("a grid needs `redis`")?;
    let settings = RedisStreamsSettings {
        server: server.clone(),
        prefix: "freshet".to_owned(),
        shape: grid.shape,
        operation_ms_max: SKETCH_MS_MAX,
        retention_ms: millis(grid.retention),
    };
    let streams =
        RedisStreams::new(settings, Arc::clone(clock)).context("the settings of Redis")?;
    Ok(Arc::new(streams))
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(duration: std::time::Duration) -> Ttl {
    Ttl(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX))
}
