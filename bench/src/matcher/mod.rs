//! The matching engine: how many queries × writes it handles per second, how the time per write grows with the number
//! of queries, what a query costs in time to register and in memory, and how fast it is where no index helps.
//!
//! One process, one thread that matches. Writes are inserts, updates of one field and deletes, with the images before
//! and after. Left out: the database, the sketch and the purges (suite `pipeline`).

mod figures;
mod measure;
mod naive;
pub(crate) mod workload;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use bson::RawDocumentBuf;
use freshet_core::change::Image;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::matcher::{Coverage, Happened, Matcher, Shown};
use serde::Serialize;

use self::measure::{at_most, latency, rate, register, time_per_write};
use self::naive::Naive;
use self::workload::{Asked, Workload};
use crate::machine::Machine;

/// Writes made beforehand; they are played round and round.
const WRITES: usize = 4_096;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Draw the figures into this directory.
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// The seed of the workload.
    #[arg(long, default_value_t = 42)]
    seed: u64,
    /// The most queries that are registered.
    #[arg(long, default_value_t = 1_000_000)]
    queries_max: u64,
}

#[derive(Serialize)]
struct Report {
    indexed: Indexed,
    residual: Residual,
    registration: Registration,
    memory: Memory,
    machine: Machine,
    seed: u64,
    seconds: u64,
}

/// The mix, at 100,000 queries unless said otherwise.
#[derive(Serialize)]
struct Indexed {
    effective_evaluations_per_s: f64,
    writes_per_s: f64,
    matches_per_write: f64,
    candidates_per_write: f64,
    /// From the intended start, at half that load.
    p50_ms: f64,
    p99_ms: f64,
    /// Time per write with the most queries over that with 10,000.
    /// The middle one of turns taken side by side.
    cost_growth: f64,
    cost_growth_turns: Vec<f64>,
    by_queries: Vec<Scale>,
    coverage: f64,
}

/// One number of queries.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Scale {
    queries: u64,
    us_per_write: f64,
    matches_per_write: f64,
    candidates_per_write: f64,
}

#[derive(Serialize)]
struct Residual {
    queries: u64,
    evaluations_per_s_per_core: f64,
    decode_evaluations_per_s_per_core: f64,
    vs_decode: f64,
}

#[derive(Serialize)]
struct Registration {
    /// A parsed query in and out again, with 100,000 others there.
    per_s: f64,
    /// Microseconds per query while all are added, and while all are removed.
    add_us: f64,
    remove_us: f64,
}

#[derive(Serialize)]
struct Memory {
    queries: u64,
    bytes_per_query: f64,
    /// What the filters' own text takes, which is not counted above.
    filter_text_bytes_per_query: f64,
}

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// A query of the workload is refused, or the engine and the naive baseline disagree.
#[allow(clippy::print_stdout)] // the result is what stdout is for
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let seconds = Duration::from_secs(options.seconds);
    let most = options.queries_max;
    let at_most = at_most(options, most, seconds)?;
    let reference = 100_000.min(most);
    let mut matcher = engine(options.seed, reference)?;
    let per_s = register(&mut matcher, options.seed, reference, seconds)?;
    let coverage = matcher.coverage();
    let latency_of = time_per_write(matcher, options.seed, reference, seconds)?;
    let rate = 1e6 / latency_of.us_per_write / 2.0;
    let histogram = latency(
        engine(options.seed, reference)?,
        options.seed,
        reference,
        rate,
        seconds,
    )?;
    let residual = residual(options.seed, seconds)?;
    let by_queries = vec![at_most.few, latency_of, at_most.most];
    let report = Report {
        indexed: Indexed {
            effective_evaluations_per_s: 1e6 / latency_of.us_per_write * reference as f64,
            writes_per_s: 1e6 / latency_of.us_per_write,
            matches_per_write: latency_of.matches_per_write,
            candidates_per_write: latency_of.candidates_per_write,
            p50_ms: histogram.value_at_quantile(0.5) as f64 / 1e3,
            p99_ms: histogram.value_at_quantile(0.99) as f64 / 1e3,
            cost_growth: at_most.growth,
            cost_growth_turns: at_most.growths,
            by_queries: by_queries.clone(),
            coverage: share(coverage),
        },
        residual,
        registration: Registration {
            per_s,
            add_us: at_most.add_us,
            remove_us: at_most.remove_us,
        },
        memory: at_most.memory,
        machine: Machine::read(),
        seed: options.seed,
        seconds: options.seconds,
    };
    if let Some(directory) = &options.plots {
        figures::draw(directory, &by_queries, &histogram).context("drawing the figures")?;
    }
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn share(coverage: Coverage) -> f64 {
    1.0 - coverage.residual as f64 / coverage.queries.max(1) as f64
}

/// The engine with its queries settled: each has a copy out.
fn engine(seed: u64, queries: u64) -> anyhow::Result<Matcher> {
    eprintln!("registering {queries} queries");
    let mut matcher = Matcher::default();
    let mut workload = Workload::new(seed, queries);
    warm_up(&mut matcher, &mut workload);
    for index in 0..queries {
        add(&mut matcher, workload.query(index))?;
    }
    Ok(matcher)
}

/// Some writes, so that the engine has seen values.
fn warm_up(matcher: &mut Matcher, workload: &mut Workload) {
    let probe = workload.query(0);
    let _ = matcher.insert(probe.key, &probe.watch, None);
    for id in 0..2_000 {
        let after = Image::Known(workload.document(id));
        touched(matcher, &Image::Absent, &after);
    }
}

fn add(matcher: &mut Matcher, asked: Asked) -> anyhow::Result<u32> {
    let id = matcher.insert(asked.key, &asked.watch, None)?;
    let shown = Shown {
        members: None,
        window: asked.window,
        joined: Vec::new(),
    };
    matcher.settle(id, &shown, Position(1), 0, Moment(u64::MAX));
    Ok(id)
}

fn touched(matcher: &mut Matcher, before: &Image, after: &Image) -> u64 {
    let happened = Happened {
        before,
        after,
        record: None,
        members: false,
    };
    let mut count = 0;
    matcher.touched(happened, Moment(0), &mut |_, _| count += 1);
    count
}

/// Nothing to index: the engine beside the naive baseline, over the same queries and documents.
fn residual(seed: u64, seconds: Duration) -> anyhow::Result<Residual> {
    const QUERIES: u64 = 3_000;
    eprintln!("{QUERIES} queries without an index");
    let mut workload = Workload::new(seed, 100_000);
    let mut matcher = Matcher::default();
    let mut naive = Vec::new();
    for index in 0..QUERIES {
        let asked = workload.residual(index);
        naive.push(Naive::new(asked.watch.filter.clone())?);
        add(&mut matcher, asked)?;
    }
    let coverage = matcher.coverage();
    ensure!(
        coverage.residual == coverage.queries,
        "some are indexed: {coverage:?}"
    );
    let documents: Vec<RawDocumentBuf> = (0..256).map(|id| workload.document(id)).collect();
    let inserted: Vec<Image> = documents.iter().cloned().map(Image::Known).collect();
    for (document, after) in documents.iter().zip(&inserted).take(16) {
        let theirs = naive.iter().filter(|one| one.matches(document)).count() as u64;
        let ours = touched(&mut matcher, &Image::Absent, after);
        ensure!(ours == theirs, "{ours} of ours match, {theirs} of theirs");
    }
    let (mut ours, mut theirs) = (vec![], vec![]);
    for _ in 0..5 {
        ours.push(rate(seconds / 5, QUERIES, || {
            inserted.iter().for_each(|after| {
                touched(&mut matcher, &Image::Absent, after);
            });
            inserted.len()
        }));
        theirs.push(rate(seconds / 5, QUERIES, || {
            let found = naive
                .iter()
                .filter(|one| one.matches(&documents[0]))
                .count();
            std::hint::black_box(found);
            1
        }));
    }
    let (ours, theirs) = (crate::median(&ours), crate::median(&theirs));
    Ok(Residual {
        queries: QUERIES,
        evaluations_per_s_per_core: ours,
        decode_evaluations_per_s_per_core: theirs,
        vs_decode: ours / theirs,
    })
}
