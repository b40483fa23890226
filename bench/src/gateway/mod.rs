//! The gateway beside the least that could answer the same: a hit from its own tier against a bare axum server with a
//! constant body of equal size, and a record read through to MongoDB against an axum handler that only calls the
//! driver's `find_one`.
//!
//! Both sides run as processes of their own on the same cores, in turns, driven over the same number of
//! connections; a figure is the median of the ratios of neighbouring turns. Left out: TLS, HTTP/2, and any cache in
//! front.

pub(crate) mod baseline;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use bson::{Document, doc};
use freshet_fixture::Parts;
use serde::Serialize;

use crate::load::Load;
use crate::machine::Machine;
use server::Server;

/// Records in the collection; each has ten fields of a hundred bytes, as YCSB's have.
const RECORDS: usize = 10_000;
const FIELDS: usize = 10;
const FIELD_BYTES: usize = 100;

/// What to measure.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Turns of each side.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds of each turn.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Connections of the load driver.
    #[arg(long, default_value_t = 64)]
    connections: usize,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    /// Requests per second of a record answered from the tier, over the bare server's.
    hit_vs_bare: f64,
    /// Requests per second of a record read through to MongoDB, over the bare driver handler's.
    miss_vs_driver: f64,
    hit: Comparison,
    miss: Comparison,
    rounds: usize,
    seconds: u64,
    connections: usize,
    machine: Machine,
}

/// One comparison: requests per second of each turn.
#[derive(Serialize)]
struct Comparison {
    gateway_per_s: Vec<f64>,
    baseline_per_s: Vec<f64>,
    ratios: Vec<f64>,
}

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// A part could not be started, or an answer was not what it had to be.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    // Asked for before the build, which may put another file in this program's place.
    let bench = std::env::current_exe()?;
    let freshet = build_freshet(&bench)?;
    eprintln!("starting MongoDB and loading {RECORDS} records");
    let mongo = Parts::own_mongo().await?;
    load_records(mongo.uri.as_str()).await?;
    let hit = compare_hits(options, (&bench, &freshet), mongo.uri.as_str()).await?;
    let miss = compare_misses(options, (&bench, &freshet), mongo.uri.as_str()).await?;
    let report = Report {
        hit_vs_bare: crate::median(&hit.ratios),
        miss_vs_driver: crate::median(&miss.ratios),
        hit,
        miss,
        rounds: options.rounds,
        seconds: options.seconds,
        connections: options.connections,
        machine: Machine::read(),
    };
    print(&report)
}

#[allow(clippy::print_stdout)] // the result is what stdout is for
fn print(report: &Report) -> anyhow::Result<()> {
    println!("{}", serde_json::to_string_pretty(report)?);
    Ok(())
}

/// The binary as users build it, beside this one.
pub(crate) fn build_freshet(bench: &Path) -> anyhow::Result<PathBuf> {
    eprintln!("building the gateway in release mode");
    let status = std::process::Command::new("cargo")
        // All of the workspace, as `cargo run` resolves its features: nothing is compiled twice.
        .args(["build", "--release", "--quiet", "--workspace", "--bins"])
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "the gateway does not build");
    let beside = bench.with_file_name("freshet");
    ensure!(
        beside.exists(),
        "no binary at {}: run this with `cargo run --release`",
        beside.display()
    );
    Ok(beside)
}

async fn load_records(uri: &str) -> anyhow::Result<()> {
    let client = mongodb::Client::with_uri_str(uri).await?;
    let records = client.database("bench").collection::<Document>("records");
    let documents = (0..RECORDS).map(|number| {
        let mut document = doc! { "_id": format!("user{number}") };
        for field in 0..FIELDS {
            let letter = char::from(b'a' + u8::try_from((number + field) % 26).unwrap_or(0));
            document.insert(
                format!("field{field}"),
                letter.to_string().repeat(FIELD_BYTES),
            );
        }
        document
    });
    records.insert_many(documents).await?;
    Ok(())
}

async fn compare_hits(
    options: &Options,
    (bench, freshet): (&Path, &Path),
    uri: &str,
) -> anyhow::Result<Comparison> {
    let gateway = Server::gateway(freshet, uri, "64MiB").await?;
    let path = record_path(0);
    let body_bytes = gateway.expect_tier_hit(&path).await?;
    let bare = Server::baseline(bench, &["--body-bytes", &body_bytes.to_string()]).await?;
    let load = Load::get(
        &[path],
        options.connections,
        Duration::from_secs(options.seconds),
    );
    compare("hit", options.rounds, (&gateway, &load), (&bare, &load)).await
}

async fn compare_misses(
    options: &Options,
    (bench, freshet): (&Path, &Path),
    uri: &str,
) -> anyhow::Result<Comparison> {
    let gateway = Server::gateway(freshet, uri, "0B").await?;
    let driver = Server::baseline(bench, &["--mongodb", uri]).await?;
    let duration = Duration::from_secs(options.seconds);
    let through: Vec<String> = (0..RECORDS).map(record_path).collect();
    let straight: Vec<String> = (0..RECORDS)
        .map(|number| format!("/user{number}"))
        .collect();
    gateway.expect_no_hit(&through[0]).await?;
    let through = Load::get(&through, options.connections, duration);
    let straight = Load::get(&straight, options.connections, duration);
    compare(
        "miss",
        options.rounds,
        (&gateway, &through),
        (&driver, &straight),
    )
    .await
}

/// Lets both sides run in turns; the first turn of each warms up and is not counted.
async fn compare(
    name: &str,
    rounds: usize,
    (gateway, through): (&Server, &Load),
    (baseline, straight): (&Server, &Load),
) -> anyhow::Result<Comparison> {
    let mut comparison = Comparison {
        gateway_per_s: vec![],
        baseline_per_s: vec![],
        ratios: vec![],
    };
    for round in 0..=rounds {
        let ours = through.run(gateway.address).await?;
        let theirs = straight.run(baseline.address).await?;
        eprintln!(
            "{name} {round}/{rounds}: {:.0}/s against {:.0}/s",
            ours.per_s, theirs.per_s
        );
        if round > 0 {
            comparison.gateway_per_s.push(ours.per_s.round());
            comparison.baseline_per_s.push(theirs.per_s.round());
            comparison.ratios.push(ours.per_s / theirs.per_s);
        }
    }
    Ok(comparison)
}

fn record_path(number: usize) -> String {
    format!("/v1/bench/records/user{number}")
}
