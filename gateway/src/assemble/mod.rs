//! Settings → parts → application: which store, which sketch, which caches to purge.

mod parts;
pub mod worker;

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use freshet_core::time::Clock;
use freshet_invalidation::partition::Client;
use freshet_invalidation::sketch::Entropy;
use freshet_invalidation::sketch::port::Start;
use freshet_invalidation::{Connect, Parts, Pipeline};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::parts::Member;
use crate::app::{self, App};
use crate::config::Settings;
use crate::config::settings::StoreChoice;
use crate::edges;
use crate::store::{EmbeddedOptions, EmbeddedStore, MongoOptions, MongoStore, Store};
use crate::telemetry::activity::{Activity, Watched};
use crate::tier::Tier;

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
    let pipeline = pipeline(&settings, &clock, entropy, seen_by_pipeline)?;
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

/// One that matches for itself, or over a grid of cells, which then purge as well.
fn pipeline(
    settings: &Settings,
    clock: &Arc<dyn Clock>,
    entropy: Entropy,
    tier: Arc<dyn freshet_invalidation::Tier>,
) -> anyhow::Result<Pipeline> {
    let member = Member::gateway(settings);
    let mut made_of = Parts {
        clock: Arc::clone(clock),
        sketch: parts::sketch(settings, clock, entropy, &member)?,
        purgers: Vec::new(),
        ledger: None,
        tier,
        revive: Some(parts::revive_under(settings)),
    };
    let set = parts::pipeline_settings(settings, &entropy);
    if let Some(grid) = &settings.grid {
        let streams = parts::streams(settings, grid, clock)?;
        let client = Client::new(streams, grid.shape, &member.name, clock.wall_ms());
        return Ok(Pipeline::over_grid(made_of, set, Arc::new(client)));
    }
    made_of.purgers = edges::purgers(&settings.edges, clock, parts::seed(&entropy))?;
    made_of.ledger = parts::ledger(settings, &member)?;
    Ok(Pipeline::new(made_of, set))
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
