//! The matching engine: how many queries × writes it handles per second, how the time per write grows with the number
//! of queries, what a query costs in time to register and in memory, and how fast it is where no index helps.
//!
//! One process, one thread that matches. Writes are inserts, updates of one field and deletes, with the images before
//! and after. Left out: the database, the sketch and the purges (suite `pipeline`).

mod figures;
mod naive;
mod workload;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use bson::RawDocumentBuf;
use freshet_core::change::Image;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::matcher::{Coverage, Happened, Matcher, Shown};
use hdrhistogram::Histogram;
use serde::Serialize;

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
    cost_growth: f64,
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
    let (memory, most_scale, (add_us, remove_us)) = at_most(options, most, seconds)?;
    let few = engine(options.seed, 10_000.min(most))?;
    let few_scale = measure(few, options.seed, 10_000.min(most), seconds)?;
    let reference = 100_000.min(most);
    let mut matcher = engine(options.seed, reference)?;
    let per_s = register(&mut matcher, options.seed, reference, seconds)?;
    let coverage = matcher.coverage();
    let latency_of = measure(matcher, options.seed, reference, seconds)?;
    let rate = 1e6 / latency_of.us_per_write / 2.0;
    let histogram = latency(
        engine(options.seed, reference)?,
        options.seed,
        reference,
        rate,
        seconds,
    )?;
    let residual = residual(options.seed, seconds)?;
    let by_queries = vec![few_scale, latency_of, most_scale];
    let report = Report {
        indexed: Indexed {
            effective_evaluations_per_s: 1e6 / latency_of.us_per_write * reference as f64,
            writes_per_s: 1e6 / latency_of.us_per_write,
            matches_per_write: latency_of.matches_per_write,
            candidates_per_write: latency_of.candidates_per_write,
            p50_ms: histogram.value_at_quantile(0.5) as f64 / 1e3,
            p99_ms: histogram.value_at_quantile(0.99) as f64 / 1e3,
            cost_growth: most_scale.us_per_write / few_scale.us_per_write,
            by_queries: by_queries.clone(),
            coverage: share(coverage),
        },
        residual,
        registration: Registration {
            per_s,
            add_us,
            remove_us,
        },
        memory,
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

/// With the most queries: memory while they come in, time per write, time per registration.
fn at_most(
    options: &Options,
    queries: u64,
    seconds: Duration,
) -> anyhow::Result<(Memory, Scale, (f64, f64))> {
    eprintln!("registering {queries} queries");
    let mut matcher = Matcher::default();
    let mut workload = Workload::new(options.seed, queries);
    warm_up(&mut matcher, &mut workload);
    let before = resident_bytes()?;
    let (mut text, mut adding) = (0, Duration::ZERO);
    let mut ids = Vec::with_capacity(usize::try_from(queries)?);
    for index in 0..queries {
        let asked = workload.query(index);
        text += asked.watch.filter.canonical_text().len();
        let start = Instant::now();
        ids.push(add(&mut matcher, asked)?);
        adding += start.elapsed();
    }
    let grown = resident_bytes()?.saturating_sub(before);
    let text = text as f64 / queries as f64;
    let memory = Memory {
        queries,
        bytes_per_query: grown as f64 / queries as f64 - text,
        filter_text_bytes_per_query: text,
    };
    let scale = measure_on(&mut matcher, options.seed, queries, seconds)?;
    let start = Instant::now();
    for id in ids {
        matcher.remove(id);
    }
    let removing = start.elapsed();
    let us = |all: Duration| all.as_secs_f64() * 1e6 / queries as f64;
    Ok((memory, scale, (us(adding), us(removing))))
}

fn measure(
    mut matcher: Matcher,
    seed: u64,
    queries: u64,
    seconds: Duration,
) -> anyhow::Result<Scale> {
    measure_on(&mut matcher, seed, queries, seconds)
}

/// As many writes as it takes.
fn measure_on(
    matcher: &mut Matcher,
    seed: u64,
    queries: u64,
    seconds: Duration,
) -> anyhow::Result<Scale> {
    let writes = writes(seed, queries);
    let round = |matcher: &mut Matcher| -> u64 {
        writes
            .iter()
            .map(|(before, after)| touched(matcher, before, after))
            .sum()
    };
    round(matcher); // warms up
    let earlier = matcher.work();
    let (mut matches, mut rounds) = (0, 0);
    let start = Instant::now();
    while start.elapsed() < seconds {
        matches += round(matcher);
        rounds += 1;
    }
    let spent = start.elapsed();
    let done = (rounds * WRITES) as f64;
    ensure!(matches > 0, "nothing matched");
    let scale = Scale {
        queries,
        us_per_write: spent.as_secs_f64() * 1e6 / done,
        matches_per_write: matches as f64 / done,
        candidates_per_write: (matcher.work().candidates - earlier.candidates) as f64 / done,
    };
    eprintln!("{scale:?}");
    Ok(scale)
}

/// Seven updates, two inserts and a delete of ten.
fn writes(seed: u64, queries: u64) -> Vec<(Image, Image)> {
    let mut workload = Workload::new(seed + 1, queries);
    let write = |index: usize| {
        let document = workload.document(i64::try_from(index).unwrap_or(0));
        match index % 10 {
            0 | 1 => (Image::Absent, Image::Known(document)),
            2 => (Image::Known(document), Image::Absent),
            _ => {
                let after = workload.updated(&document);
                (Image::Known(document), Image::Known(after))
            }
        }
    };
    (0..WRITES).map(write).collect()
}

/// Open loop: each write has its intended start, whether the one before is done or not.
fn latency(
    mut matcher: Matcher,
    seed: u64,
    queries: u64,
    rate: f64,
    seconds: Duration,
) -> anyhow::Result<Histogram<u64>> {
    eprintln!("latency at {rate:.0} writes/s");
    let writes = writes(seed, queries);
    writes.iter().for_each(|(before, after)| {
        touched(&mut matcher, before, after);
    });
    let mut histogram = Histogram::new(3)?;
    let start = Instant::now();
    for (index, (before, after)) in writes.iter().cycle().enumerate() {
        let intended = Duration::from_secs_f64(index as f64 / rate);
        if intended > seconds {
            break;
        }
        while start.elapsed() < intended {
            std::hint::spin_loop();
        }
        touched(&mut matcher, before, after);
        let late = start.elapsed().saturating_sub(intended);
        histogram.record(u64::try_from(late.as_micros())?)?;
    }
    Ok(histogram)
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

/// Evaluations per second of a step that handles some writes.
fn rate(seconds: Duration, queries: u64, mut step: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    let mut writes = 0;
    while start.elapsed() < seconds {
        writes += step();
    }
    writes as f64 * queries as f64 / start.elapsed().as_secs_f64()
}

/// In and out again.
fn register(
    matcher: &mut Matcher,
    seed: u64,
    queries: u64,
    seconds: Duration,
) -> anyhow::Result<f64> {
    let mut workload = Workload::new(seed + 2, queries);
    let asked: Vec<Asked> = (0..20_000).map(|index| workload.query(index)).collect();
    let (mut done, mut spent) = (0_u32, Duration::ZERO);
    while spent < seconds {
        let start = Instant::now();
        for one in &asked {
            let id = matcher.insert(one.key.clone(), &one.watch, None)?;
            matcher.remove(id);
        }
        spent += start.elapsed();
        done += u32::try_from(asked.len())?;
    }
    Ok(f64::from(done) / spent.as_secs_f64())
}

/// What the process occupies.
fn resident_bytes() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(kib.context("no VmRSS")?.parse::<u64>()? * 1_024)
}
