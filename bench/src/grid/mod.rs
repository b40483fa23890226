//! The grid against one process: the same queries, the same writes, the same sketch in Redis; what differs is who matches.
//! What counts is writes per second and core: every process's work is counted, Redis included, so it does not matter how
//! many cores there are here.
//!
//! The writes come from memory as fast as they are taken, as from a change stream that never waits; cells and leader run
//! in this process, each as its own pipeline, over streams in a real Redis.

mod counted;
mod cpu;
mod load;
mod world;

use std::sync::Arc;

use anyhow::ensure;
use freshet_fixture::Parts;
use freshet_invalidation::partition::Shape;
use serde::Serialize;

use crate::machine::Machine;
use load::Load;
use world::World;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Active queries.
    #[arg(long, default_value_t = 50_000)]
    queries: u64,
    /// Writes.
    #[arg(long, default_value_t = 10_000)]
    writes: u64,
    /// Each arrangement so many times; the middle one counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    queries: u64,
    writes: u64,
    one_process: Run,
    /// One cell that has everything.
    one_cell: Run,
    /// Four cells that share the writes.
    four_columns: Run,
    /// Four cells that share writes and queries.
    two_by_two: Run,
    /// Writes per second and core, over those of one process.
    per_core_one_cell: f64,
    per_core_four_columns: f64,
    per_core_two_by_two: f64,
    machine: Machine,
}

/// How one arrangement did.
#[derive(Clone, Serialize)]
struct Run {
    query_partitions: u32,
    write_partitions: u32,
    seconds: f64,
    writes_per_s: f64,
    /// Processor time, of this process and of Redis.
    cpu_s: f64,
    redis_cpu_s: f64,
    writes_per_core_s: f64,
    /// Entries that were written to streams, and read from them, for each write.
    appended_per_write: f64,
    delivered_per_write: f64,
    bytes_per_write: f64,
    /// Keys that are stale after it. Less than in one process would mean that changes were missed.
    stale_keys: usize,
}

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// A part could not be started, or the arrangements disagree.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    eprintln!("starting Redis");
    let redis = Parts::own_redis().await?;
    let load = Arc::new(Load::new(options.queries, options.writes));
    let shapes = [None, Some((1, 1)), Some((1, 4)), Some((2, 2))];
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); shapes.len()];
    // In turns: what else the machine does meets all of them.
    for _ in 0..options.rounds.max(1) {
        for (runs, shape) in runs.iter_mut().zip(shapes) {
            let shape = shape.map(|(queries, writes)| Shape { queries, writes });
            let run = World::start(&redis, &load, shape).await?.measure().await?;
            eprintln!(
                "{}x{}: {:.0} writes/s, {:.0} per core, {} stale",
                run.query_partitions,
                run.write_partitions,
                run.writes_per_s,
                run.writes_per_core_s,
                run.stale_keys
            );
            runs.push(run);
        }
    }
    let stale: Vec<usize> = runs.iter().flatten().map(|run| run.stale_keys).collect();
    // A column that does not see the others' records takes more for touched (`docs/scaling.md`), never less.
    ensure!(
        stale.iter().all(|one| *one >= stale[0] && *one > 0),
        "some arrangement has missed changes: {stale:?}"
    );
    let [one_process, one_cell, four_columns, two_by_two] =
        [0, 1, 2, 3].map(|at| middle(&runs[at]));
    let per_core = |run: &Run| run.writes_per_core_s / one_process.writes_per_core_s;
    print(&Report {
        queries: options.queries,
        writes: options.writes,
        per_core_one_cell: per_core(&one_cell),
        per_core_four_columns: per_core(&four_columns),
        per_core_two_by_two: per_core(&two_by_two),
        one_process,
        one_cell,
        four_columns,
        two_by_two,
        machine: Machine::read(),
    })
}

fn middle(runs: &[Run]) -> Run {
    let mut sorted = runs.to_vec();
    sorted.sort_by(|a, b| a.writes_per_core_s.total_cmp(&b.writes_per_core_s));
    sorted[sorted.len() / 2].clone()
}

#[allow(clippy::print_stdout)] // the result is what stdout is for
fn print(report: &Report) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}
