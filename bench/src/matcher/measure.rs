//! The measurements themselves, on the real clock.

#![allow(clippy::disallowed_methods, reason = "measures real time")]

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use freshet_core::change::Image;
use freshet_invalidation::matcher::Matcher;
use hdrhistogram::Histogram;

use super::workload::{Asked, Workload};
use super::{Memory, Options, Scale, WRITES, add, engine, touched, warm_up};

/// With the most queries: memory while they come in, time per write, time per registration.
/// Turns of the few and the many.
const TURNS: usize = 5;
/// The few.
const FEW: u64 = 10_000;

/// What was measured with the most queries, beside few.
pub(super) struct AtMost {
    pub(super) memory: Memory,
    pub(super) most: Scale,
    pub(super) few: Scale,
    pub(super) growth: f64,
    pub(super) growths: Vec<f64>,
    pub(super) add_us: f64,
    pub(super) remove_us: f64,
}

pub(super) fn at_most(
    options: &Options,
    queries: u64,
    seconds: Duration,
) -> anyhow::Result<AtMost> {
    let few_queries = FEW.min(queries);
    let mut few = engine(options.seed, few_queries)?;
    eprintln!("registering {queries} queries");
    let mut matcher = Matcher::default();
    let mut workload = Workload::new(options.seed, queries);
    warm_up(&mut matcher, &mut workload);
    let mut ids = vec![u32::MAX; usize::try_from(queries)?];
    let before = resident_bytes()?;
    let (mut text, mut adding) = (0, Duration::ZERO);
    for (index, id) in (0..queries).zip(&mut ids) {
        let asked = workload.query(index);
        text += asked.watch.filter.canonical_text().len();
        let start = Instant::now();
        *id = add(&mut matcher, asked)?;
        adding += start.elapsed();
    }
    let grown = resident_bytes()?.saturating_sub(before);
    let text = text as f64 / queries as f64;
    let memory = Memory {
        queries,
        bytes_per_query: grown as f64 / queries as f64 - text,
        filter_text_bytes_per_query: text,
    };
    // In turns, so that both meet the machine in the same mood.
    let (mut most, mut least, mut growths) = (vec![], vec![], vec![]);
    for _ in 0..TURNS {
        let theirs = measure_on(&mut few, options.seed, few_queries, seconds / 2)?;
        let ours = measure_on(&mut matcher, options.seed, queries, seconds / 2)?;
        growths.push(ours.us_per_write / theirs.us_per_write);
        most.push(ours);
        least.push(theirs);
    }
    let start = Instant::now();
    for id in ids {
        matcher.remove(id);
    }
    let removing = start.elapsed();
    let us = |all: Duration| all.as_secs_f64() * 1e6 / queries as f64;
    Ok(AtMost {
        memory,
        most: middle(most),
        few: middle(least),
        growth: crate::median(&growths),
        growths,
        add_us: us(adding),
        remove_us: us(removing),
    })
}

/// The one with the middle time.
fn middle(mut scales: Vec<Scale>) -> Scale {
    scales.sort_by(|a, b| a.us_per_write.total_cmp(&b.us_per_write));
    scales[scales.len() / 2]
}

pub(super) fn time_per_write(
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
pub(super) fn latency(
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

/// Evaluations per second of a step that handles some writes.
pub(super) fn rate(seconds: Duration, queries: u64, mut step: impl FnMut() -> usize) -> f64 {
    let start = Instant::now();
    let mut writes = 0;
    while start.elapsed() < seconds {
        writes += step();
    }
    writes as f64 * queries as f64 / start.elapsed().as_secs_f64()
}

/// In and out again.
pub(super) fn register(
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
