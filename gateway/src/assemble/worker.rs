//! A worker: one cell of the grid, a candidate for the lead of the ingest, and a few pages for those who run it.

use std::sync::Arc;

use freshet_core::time::Clock;
use freshet_invalidation::partition::ingest::Ingest;
use freshet_invalidation::partition::{Cell, CellSource};
use freshet_invalidation::sketch::Entropy;
use freshet_invalidation::sketch::port::Start;
use freshet_invalidation::{Connect, Parts, Pipeline};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::open_store;
use super::parts::{self, Member};
use crate::config::Settings;
use crate::config::settings::Grid;
use crate::edges;
use crate::tier::Tier;

/// A cell that runs.
pub struct Worker {
    /// Its pipeline.
    pub pipeline: Pipeline,
    /// What runs; it ends with the stop token.
    pub tasks: TaskTracker,
}

/// Puts a cell together and starts it.
///
/// # Errors
/// What is wrong with a part.
pub async fn assemble(
    settings: &Settings,
    grid: &Grid,
    cell: Cell,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    stop: &CancellationToken,
) -> anyhow::Result<Worker> {
    let store = open_store(&settings.store, &clock).await?;
    let streams = parts::streams(settings, grid, &clock)?;
    let member = Member::cell(&cell);
    let made_of = Parts {
        clock: Arc::clone(&clock),
        sketch: parts::sketch(settings, &clock, entropy, &member)?,
        purgers: edges::purgers(&settings.edges, &clock, parts::seed(&entropy))?,
        ledger: parts::ledger(settings, &member)?,
        // It answers nobody: there is nothing to keep.
        tier: Arc::new(Tier::new(0, 0)),
        revive: Some(parts::revive_under(settings)),
    };
    let set = parts::pipeline_settings(settings, &entropy);
    let holder = format!("{} {:016x}", member.name, parts::seed(&entropy));
    let pipeline = Pipeline::cell(made_of, set, cell, &holder, Arc::clone(&streams));
    let ingest = Ingest {
        streams: Arc::clone(&streams),
        clock: Arc::clone(&clock),
        shape: cell.shape,
        holder,
        open: Arc::new(move |resume| store.source(resume)),
    };
    let connect: Connect = Box::new(move |resume| {
        let column = cell.column;
        Box::new(CellSource::new(streams, clock, column, resume.as_deref()))
    });
    let tasks = TaskTracker::new();
    let (running, stop) = (pipeline.clone(), stop.clone());
    let leading = stop.clone();
    tasks.spawn(async move { ingest.run(leading).await });
    // What others issued before is in the sketch, or counts as stale.
    tasks.spawn(async move { running.run(Start::Again, connect, stop).await });
    Ok(Worker { pipeline, tasks })
}
