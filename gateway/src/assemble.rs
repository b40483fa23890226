//! Settings → parts → application: which store, which sketch, which caches to purge.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::machine::Limits;
use freshet_core::time::{Clock, Ttl};
use freshet_core::ttl::Policy;
use freshet_invalidation::purge::ledger::{FileLedger, Ledger, RedisLedger, RedisLedgerSettings};
use freshet_invalidation::sketch::port::{SketchStore, Start};
use freshet_invalidation::sketch::{Entropy, LocalSketch, RedisSettings, RedisSketch};
use freshet_invalidation::{Connect, Parts, Pipeline, Resource};
use secrecy::ExposeSecret;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::app::{self, App};
use crate::auth::access::Access;
use crate::config::Settings;
use crate::config::settings::{AccessRule, Grant, StoreChoice};
use crate::edges;
use crate::read::asked::Asked;
use crate::route::{Route, parse_params};
use crate::store::{EmbeddedOptions, EmbeddedStore, MongoOptions, MongoStore, Store};
use crate::telemetry::activity::{Activity, Watched};
use crate::tier::Tier;

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

/// An application with what runs beside it.
pub struct Assembled {
    /// The application.
    pub app: Arc<App>,
    /// The pipeline and the rest; they end with the stop token.
    pub tasks: TaskTracker,
}

/// Opens the configured store.
///
/// # Errors
/// What is wrong with it. A MongoDB that is down is not: it may come up later (C16).
pub async fn open_store(
    choice: &StoreChoice,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Arc<dyn Store>> {
    match choice {
        StoreChoice::Mongo(uri) => {
            // One provider for all of TLS; a second call finds it installed.
            let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
            let store = MongoStore::connect(MongoOptions::new(uri), Arc::clone(clock))
                .await
                .context("the MongoDB connection string")?;
            Ok(Arc::new(store))
        }
        StoreChoice::Embedded(directory) => {
            let store = EmbeddedStore::open(EmbeddedOptions::new(directory), Arc::clone(clock))
                .context("the embedded database")?;
            Ok(Arc::new(store))
        }
    }
}

/// Puts everything together and starts what runs beside the server.
///
/// # Errors
/// What is wrong with a part.
pub async fn assemble(
    settings: Settings,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    activity: Option<Arc<Activity>>,
    stop: &CancellationToken,
) -> anyhow::Result<Assembled> {
    let start = start(&settings);
    let store = open_store(&settings.store, &clock).await?;
    let tier = Arc::new(Tier::new(
        settings.tier.bytes_max.0,
        settings.tier.entry_bytes_max.len(),
    ));
    let seen_by_pipeline: Arc<dyn freshet_invalidation::Tier> = match &activity {
        Some(activity) => Arc::new(Watched {
            tier: Arc::clone(&tier),
            activity: Arc::clone(activity),
            clock: Arc::clone(&clock),
        }),
        None => tier.clone(),
    };
    let parts = Parts {
        clock: Arc::clone(&clock),
        sketch: sketch(&settings, &clock, entropy)?,
        purgers: edges::purgers(&settings.edges, &clock, seed(&entropy))?,
        ledger: ledger(&settings)?,
        tier: seen_by_pipeline,
        revive: Some(revive_under(&settings)),
    };
    let pipeline = Pipeline::new(parts, pipeline_settings(&settings, &entropy));
    let tasks = TaskTracker::new();
    let running = pipeline.clone();
    let (for_feed, stop) = (Arc::clone(&store), stop.clone());
    let connect: Connect = Box::new(move |resume| for_feed.source(resume));
    tasks.spawn(async move { running.run(start, connect, stop).await });
    let app = App::new(
        settings,
        app::Parts {
            clock,
            store,
            pipeline,
            tier,
            activity,
        },
    );
    Ok(Assembled {
        app: Arc::new(app),
        tasks,
    })
}

/// Nobody can hold a copy of what was never there; of everything else somebody may (C8).
fn start(settings: &Settings) -> Start {
    match &settings.store {
        StoreChoice::Embedded(directory) if is_empty(directory) => Start::First,
        _ => Start::Again,
    }
}

fn is_empty(directory: &Path) -> bool {
    match std::fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn pipeline_settings(settings: &Settings, entropy: &Entropy) -> freshet_invalidation::Settings {
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

fn seed(entropy: &Entropy) -> u64 {
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
fn revive_under(settings: &Settings) -> freshet_invalidation::Revive {
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

/// In Redis where several gateways share one, else in this process.
fn sketch(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    entropy: Entropy,
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
    let Some(url) = &settings.redis else {
        return Ok(Arc::new(LocalSketch::new(
            Arc::clone(clock),
            entropy,
            limits,
        )));
    };
    let redis = RedisSettings {
        url: url.expose_secret().to_owned(),
        prefix: "freshet".to_owned(),
        member: member(settings),
        operation_ms_max: SKETCH_MS_MAX,
        lease_ms: 10_000,
    };
    let sketch =
        RedisSketch::new(redis, limits, Arc::clone(clock), entropy).context("the Redis URL")?;
    Ok(Arc::new(sketch))
}

/// Where purges outlive the process: in Redis where there is one, else beside the embedded store.
fn ledger(settings: &Settings) -> anyhow::Result<Option<Arc<dyn Ledger>>> {
    if let Some(url) = &settings.redis {
        let settings = RedisLedgerSettings {
            url: url.expose_secret().to_owned(),
            prefix: "freshet".to_owned(),
            member: member(settings),
            operation_ms_max: SKETCH_MS_MAX,
        };
        let ledger = RedisLedger::new(&settings).context("the Redis URL")?;
        return Ok(Some(Arc::new(ledger)));
    }
    Ok(match &settings.store {
        StoreChoice::Embedded(directory) => {
            Some(Arc::new(FileLedger::new(&directory.join("purges"))))
        }
        StoreChoice::Mongo(_) => None,
    })
}

/// Unique among the gateways of a deployment, and the same after a restart: containers all listen on the same
/// address, machines may run several gateways.
fn member(settings: &Settings) -> String {
    settings.name.clone().unwrap_or_else(|| {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        format!("{}:{}", host.trim(), settings.server.listen)
    })
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn seconds(duration: std::time::Duration) -> Ttl {
    Ttl(u32::try_from(duration.as_secs()).unwrap_or(u32::MAX))
}
