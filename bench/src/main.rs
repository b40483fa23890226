//! `freshet-bench SUITE --json`: measures one suite and prints one JSON object on stdout; progress goes to stderr.
//!
//! Figures are ratios taken side by side in one run, because the machines are noisy (see `bench/README.md`).

#![allow(clippy::print_stderr, reason = "progress goes to stderr")]
#![allow(clippy::cast_precision_loss, reason = "figures are doubles")]

mod faults;
mod gateway;
mod grid;
mod load;
mod machine;
mod match_fuzz;
mod matcher;
mod monotonic;
mod pipeline;

use anyhow::Context;
use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Freshet, side by side with a baseline, on this machine.
#[derive(Parser)]
#[command(name = "freshet-bench", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    suite: Suite,
}

#[derive(Subcommand)]
enum Suite {
    /// Faults of every part under load, with a checker of the coherence contract.
    Faults(faults::Options),
    /// The gateway against a bare axum server (hits) and a bare driver handler (misses).
    Gateway(gateway::Options),
    /// Matching spread over one and four cells, against one process: the same work, per core.
    Grid(grid::Options),
    /// The matcher against MongoDB: random queries and writes; nothing may be missed.
    MatchFuzz(match_fuzz::Options),
    /// The matching engine: evaluations per second, cost growth, registration, memory.
    Matcher(matcher::Options),
    /// From a foreign write to the sketch and to the purged edge: real MongoDB, Redis and Varnish.
    Pipeline(pipeline::Options),
    /// One of the baselines, as a process of its own. Started by the suites.
    #[command(hide = true)]
    Baseline(gateway::baseline::Options),
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    match arguments.suite {
        Suite::Faults(options) => runtime.block_on(faults::run(&options)),
        Suite::Gateway(options) => runtime.block_on(gateway::run(&options)),
        Suite::Grid(options) => runtime.block_on(grid::run(&options)),
        Suite::MatchFuzz(options) => runtime.block_on(match_fuzz::run(&options)),
        Suite::Matcher(options) => matcher::run(&options),
        Suite::Pipeline(options) => runtime.block_on(pipeline::run(&options)),
        Suite::Baseline(options) => runtime.block_on(gateway::baseline::serve(&options)),
    }
}

/// The middle value.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}
