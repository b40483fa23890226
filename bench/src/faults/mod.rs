//! Faults under load, over the real parts, with a checker of the coherence contract: clients that decide as the SDK does
//! read through browsers' caches and two Varnish nodes, and write through them; foreign programs write to the database;
//! one part after the other is broken; and every answer is held against what was written and when
//! (`docs/consistency.md`).
//!
//! In the end, a control: clients that never ask for the sketch run under the same load. If the checker has nothing
//! against them, it has checked nothing.
//!
//! Two worlds one after the other: gateways that match for themselves, then gateways over a grid of workers.
//!
//! Not here: causal sessions, and the SDK's store of embedded records.

mod browser;
mod client;
mod history;
mod http;
mod judge;
mod load;
mod program;
mod recovery;
mod report;
mod script;
mod tally;
mod universe;
mod wire;
mod world;
mod writers;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{bail, ensure};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use client::{Client, Habit, Manner};
use load::Load;
use report::{Control, FaultReport, Report};
use script::{Act, Fault};
use world::World;

/// What to play.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Writes per second of foreign programs, about; clients write some more.
    #[arg(long, default_value_t = 20.0)]
    rate: f64,
    /// Clients, each of which reads ten times a second, about.
    #[arg(long, default_value_t = 30)]
    clients: usize,
    /// Seconds of load before each fault.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
    /// Only these faults.
    #[arg(long)]
    only: Vec<String>,
    /// List the faults.
    #[arg(long)]
    list: bool,
    /// What chance begins with.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep the logs of gateways and workers in this directory.
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// Δ of the clients in turn, milliseconds: below the time that purges take, above it, and well above it.
const DELTAS_MS: [u64; 4] = [1_000, 8_000, 12_000, 20_000];
/// The Δ that is claimed for clients that do not look.
const CONTROL_DELTA_MS: u64 = 2_000;
/// Seconds of the control.
const CONTROL_S: u64 = 15;
/// Between two reads of a client.
const PAUSE: Duration = Duration::from_millis(100);
/// Foreign programs.
const WRITERS: u64 = 8;
/// How long caching may take to come back, and how long is waited beyond that until clients trust caches.
const CACHING_S_MAX: Duration = Duration::from_secs(60);
const TRUSTED_S_MAX: Duration = Duration::from_secs(20);

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// A part could not be started, a fault could not be made, an answer broke the contract, an acknowledged write was lost,
/// or the checker did not notice clients that break it.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let acts = chosen(options)?;
    if options.list {
        acts.iter()
            .flat_map(|act| &act.faults)
            .for_each(|fault| eprintln!("{:32} {}", fault.name, fault.what));
        return Ok(());
    }
    // Asked for before the build, which may put another file in this program's place.
    let bench = std::env::current_exe()?;
    let freshet = crate::gateway::build_freshet(&bench)?;
    let mut report = Report::new(options);
    for act in &acts {
        perform(act, &freshet, options, &mut report).await?;
    }
    report.finish();
    report.print()?;
    report.verdict()
}

/// What is to be played: worlds with at least one fault.
fn chosen(options: &Options) -> anyhow::Result<Vec<Act>> {
    let mut acts = Vec::from(script::acts());
    for name in &options.only {
        let mut all = acts.iter().flat_map(|act| &act.faults);
        if !all.any(|fault| fault.name == name) {
            bail!("no fault is called {name}; --list lists them");
        }
    }
    if !options.only.is_empty() {
        for act in &mut acts {
            act.faults
                .retain(|fault| options.only.iter().any(|name| name == fault.name));
        }
    }
    acts.retain(|act| !act.faults.is_empty());
    Ok(acts)
}

/// All of one world: its faults under load, the last audit, the control.
async fn perform(
    act: &Act,
    freshet: &Path,
    options: &Options,
    report: &mut Report,
) -> anyhow::Result<()> {
    eprintln!("starting MongoDB, Redis, two gateways and two Varnish nodes");
    let world = World::start(freshet, act.grid).await?;
    eprintln!("the gateways run over {} workers", world.workers.len());
    let ready = world.recover(CACHING_S_MAX, CACHING_S_MAX).await;
    ensure!(
        ready.seconds_until_trusted.is_some(),
        "nothing is cached: {ready:?}"
    );
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    read(&world.load, options, Habit::Careful, &stop, &mut running);
    write(&world.load, options, &stop, &mut running);
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    for fault in &act.faults {
        let played = play(&world, fault, options).await;
        report.faults.push(played?);
    }
    stop.cancel();
    while running.join_next().await.is_some() {}
    report.lost_writes += world.load.audit().await?;
    world.load.take();
    report.control.add(control(&world, options).await);
    if let Some(directory) = &options.logs {
        let own = act.grid.map_or("", |_| "grid");
        world.keep_logs(&directory.join(own))?;
    }
    Ok(())
}

fn read(
    load: &Arc<Load>,
    options: &Options,
    habit: Habit,
    stop: &CancellationToken,
    running: &mut JoinSet<()>,
) {
    for number in 0..options.clients {
        let delta_ms = match habit {
            Habit::Careful => DELTAS_MS[number % DELTAS_MS.len()],
            Habit::Believing => CONTROL_DELTA_MS,
        };
        let manner = Manner {
            habit,
            delta_ms,
            pause: PAUSE,
        };
        let random = StdRng::seed_from_u64(options.seed.wrapping_mul(1_000) + number as u64);
        running.spawn(Client::new(Arc::clone(load), manner).run(random, stop.clone()));
    }
}

fn write(load: &Arc<Load>, options: &Options, stop: &CancellationToken, running: &mut JoinSet<()>) {
    let pause = Duration::from_secs_f64(WRITERS as f64 / options.rate.max(0.1));
    for number in 0..WRITERS {
        let random = StdRng::seed_from_u64(options.seed.wrapping_mul(7_777) + number);
        running.spawn(writers::write_on(
            Arc::clone(load),
            random,
            pause,
            stop.clone(),
        ));
    }
}

/// One fault: load, fault, recovery, audit.
async fn play(world: &World, fault: &Fault, options: &Options) -> anyhow::Result<FaultReport> {
    world.load.take();
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let began = world.load.clock.us();
    let error = (fault.run)(world).await.err();
    let ended = world.load.clock.us();
    let recovery = world.recover(CACHING_S_MAX, TRUSTED_S_MAX).await;
    let lost_writes = world.load.audit().await?;
    let played = FaultReport {
        name: fault.name,
        what: fault.what,
        began_ms: began / 1_000,
        seconds: (ended - began) as f64 / 1e6,
        recovery,
        lost_writes,
        error: error.map(|error| format!("{error:#}")),
        counts: world.load.take(),
    };
    eprintln!("{}", played.line());
    Ok(played)
}

/// Clients that break the contract, under the writers' load.
async fn control(world: &World, options: &Options) -> Control {
    let stop = CancellationToken::new();
    let mut running = JoinSet::new();
    read(&world.load, options, Habit::Believing, &stop, &mut running);
    write(&world.load, options, &stop, &mut running);
    tokio::time::sleep(Duration::from_secs(CONTROL_S)).await;
    stop.cancel();
    while running.join_next().await.is_some() {}
    Control::of(world.load.take())
}
