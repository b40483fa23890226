//! From a write to its effects, over the real parts: a foreign program writes to MongoDB, and what counts is when the
//! sketch in Redis has the query's key, and when Varnish has dropped its copy. Beside it, in the same run, the same
//! writes' bare change-stream events, as any other listener gets them.
//!
//! Each of the active queries shows one record. Its copy lies in Varnish; once it is stale and purged it is read and
//! registered again, so that every write changes a cached result. Times are from the write's acknowledgement (`w:
//! majority`) on; what was there before it took no time.

mod edge;
mod load;
mod rounds;
mod watched;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::ensure;
use freshet_fixture::Parts;
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::machine::Machine;
use load::{Load, Step};
use rounds::Times;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Active queries.
    #[arg(long, default_value_t = 10_000)]
    queries: u32,
    /// Writes per second while latencies are taken.
    #[arg(long, default_value_t = 1_000)]
    rate: u32,
    /// Seconds of that.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Seconds of each step on the way to the sustained maximum.
    #[arg(long, default_value_t = 5)]
    step_seconds: u64,
}

/// What is printed. Milliseconds.
#[derive(Serialize)]
struct Report {
    queries: u32,
    writes_per_s: f64,
    writes: u64,
    /// From the acknowledgement to the bare change-stream event.
    ack_to_event_ms: Quantiles,
    ack_to_sketch_ms: Quantiles,
    ack_to_purged_ms: Quantiles,
    /// The difference of the 99th percentiles of the sketch and the bare event.
    overhead_p99_ms: f64,
    /// The 99th percentile of each write's own difference.
    event_to_sketch_ms: Quantiles,
    /// Writes per second, until the pipeline lags.
    sustained_writes_per_s: f64,
    /// What ended it: `lag`, or `load` where the writers did not get further.
    sustained_until: &'static str,
    steps: Vec<Step>,
    /// Writes that the sketch never heard of, and answers of Varnish from before a purge.
    missed: u64,
    /// Copies that were found in Varnish before they became stale.
    hits_before: u64,
    machine: Machine,
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    max: f64,
}

impl Quantiles {
    fn of(histogram: &Histogram<u64>) -> Quantiles {
        let ms = |us: u64| us as f64 / 1_000.0;
        Quantiles {
            p50: ms(histogram.value_at_quantile(0.5)),
            p99: ms(histogram.value_at_quantile(0.99)),
            max: ms(histogram.max()),
        }
    }
}

/// The factors of the rate on the way to the maximum.
const STEPS: [f64; 8] = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
/// The pipeline lags when the sketch has not heard of so many seconds' writes.
const LAG_S: f64 = 0.5;

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// A part could not be started, or fails.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    eprintln!("starting MongoDB, Redis, Varnish");
    let (mongo, redis) = (Parts::own_mongo().await?, Parts::own_redis().await?);
    let load = Arc::new(Load::start(&mongo, &redis, options.queries).await?);
    eprintln!("{} queries are active and in Varnish", options.queries);
    let rate = f64::from(options.rate);
    load.write_for(rate, Duration::from_secs(3)).await?; // warms up
    load.settled().await;
    drop(load.rounds.take()?);
    let main = load
        .write_for(rate, Duration::from_secs(options.seconds))
        .await?;
    load.settled().await;
    let times = load.rounds.take()?;
    let (steps, until) = sustained(&load, options).await?;
    load.settled().await;
    let best = steps.iter().chain([&main]).filter(|step| step.kept_up);
    let best = best.map(|step| step.writes_per_s).fold(0.0, f64::max);
    let unheard = load.rounds.open().1 as u64;
    ensure!(!times.to_sketch.is_empty(), "nothing was measured");
    print(&report(
        options,
        &times,
        &main,
        unheard + load.stale.load(Ordering::SeqCst),
        |report| {
            report.sustained_writes_per_s = best;
            report.sustained_until = until;
            report.steps = steps;
            report.hits_before = load.hits.load(Ordering::SeqCst);
        },
    ))
}

/// Faster and faster, until the pipeline or the writers do not keep up.
async fn sustained(
    load: &Arc<Load>,
    options: &Options,
) -> anyhow::Result<(Vec<Step>, &'static str)> {
    let mut steps = Vec::new();
    for factor in STEPS {
        let rate = f64::from(options.rate) * factor;
        let step = load
            .write_for(rate, Duration::from_secs(options.step_seconds))
            .await?;
        let (lags, slow) = (!step.kept_up, step.writes_per_s < rate * 0.9);
        steps.push(step);
        if lags || slow {
            return Ok((steps, if lags { "lag" } else { "load" }));
        }
        load.settled().await;
    }
    Ok((steps, "the last step"))
}

fn report(
    options: &Options,
    times: &Times,
    main: &Step,
    missed: u64,
    rest: impl FnOnce(&mut Report),
) -> Report {
    let p99 = |histogram: &Histogram<u64>| histogram.value_at_quantile(0.99) as f64 / 1_000.0;
    let mut report = Report {
        queries: options.queries,
        writes_per_s: main.writes_per_s,
        writes: times.to_sketch.len(),
        ack_to_event_ms: Quantiles::of(&times.to_event),
        ack_to_sketch_ms: Quantiles::of(&times.to_sketch),
        ack_to_purged_ms: Quantiles::of(&times.to_purged),
        overhead_p99_ms: p99(&times.to_sketch) - p99(&times.to_event),
        event_to_sketch_ms: Quantiles::of(&times.overhead),
        sustained_writes_per_s: 0.0,
        sustained_until: "",
        steps: Vec::new(),
        missed,
        hits_before: 0,
        machine: Machine::read(),
    };
    rest(&mut report);
    report
}

#[allow(clippy::print_stdout)] // the result is what stdout is for
fn print(report: &Report) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}
