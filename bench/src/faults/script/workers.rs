//! Gateways over a grid: workers die, hang, are cut off and replaced, and what is below them breaks.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use freshet_invalidation::partition::Shape;

use super::{Fault, World, database, fault, gateways, hold, redis};
use crate::faults::program::Worker;
use crate::faults::wire::State;

/// Two rows, so that one can be lost, and two columns, so that a row is more than one worker's.
pub(super) const SHAPE: Shape = Shape {
    queries: 2,
    writes: 2,
};
/// How long the others may take to notice that nobody leads: the lease is three seconds.
const LEADERLESS_S_MAX: u64 = 10;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!(
            "worker-killed",
            "SIGKILL of one worker, restarted at once",
            killed
        ),
        fault!(
            "worker-gone",
            "SIGKILL of one worker, restarted after 12 s, when its row is given up",
            gone
        ),
        fault!("worker-stopped", "SIGSTOP of one worker for 8 s", stopped),
        fault!(
            "worker-partitioned",
            "one worker's connections to Redis are silent for 7 s, then closed for 1 s",
            partitioned
        ),
        fault!(
            "ingest-leader-killed",
            "SIGKILL of the worker that reads the change stream, restarted when another one does",
            leader_killed
        ),
        fault!(
            "ingest-leader-stopped",
            "SIGSTOP of that worker for 8 s: another takes over, and it does not know",
            leader_stopped
        ),
        fault!(
            "workers-rolling-restart",
            "SIGTERM and restart of one worker after the other",
            workers_rolled
        ),
        fault!(
            "gateway-over-grid-killed",
            "SIGKILL of one gateway, restarted at once",
            gateways::killed
        ),
        fault!("redis-flushed-under-grid", "FLUSHALL", redis::flushed),
        fault!(
            "redis-killed-under-grid",
            "SIGKILL; 3 s later an empty one",
            redis::killed
        ),
        fault!(
            "primary-killed-under-grid",
            "SIGKILL of the primary, restarted after 5 s",
            database::killed
        ),
        fault!(
            "everything-rolling-restart",
            "SIGTERM and restart of each worker and each gateway in turn",
            everything_rolled
        ),
    ]
}

async fn killed(world: &World) -> Result<()> {
    let node = &follower(world).await?.program.node;
    node.kill().await?;
    node.restart().await
}

async fn gone(world: &World) -> Result<()> {
    let node = &follower(world).await?.program.node;
    node.kill().await?;
    hold(12).await;
    node.restart().await
}

async fn stopped(world: &World) -> Result<()> {
    let node = &follower(world).await?.program.node;
    node.pause();
    hold(8).await;
    node.resume();
    Ok(())
}

async fn partitioned(world: &World) -> Result<()> {
    let wire = &follower(world).await?.program.redis;
    wire.set(State::Silent);
    hold(7).await;
    wire.set(State::Refusing);
    hold(1).await;
    wire.set(State::Whole);
    Ok(())
}

async fn leader_killed(world: &World) -> Result<()> {
    let leader = leader(world).await?;
    leader.program.node.kill().await?;
    let successor = successor(world, leader).await;
    leader.program.node.restart().await?;
    successor
}

async fn leader_stopped(world: &World) -> Result<()> {
    let leader = leader(world).await?;
    leader.program.node.pause();
    hold(8).await;
    let successor = successor(world, leader).await;
    leader.program.node.resume();
    successor
}

async fn workers_rolled(world: &World) -> Result<()> {
    for worker in &world.workers {
        let node = &worker.program.node;
        node.terminate().await?;
        node.restart().await?;
        hold(1).await;
    }
    Ok(())
}

async fn everything_rolled(world: &World) -> Result<()> {
    for program in world.programs() {
        program.node.terminate().await?;
        program.node.restart().await?;
        hold(1).await;
    }
    Ok(())
}

/// Who leads now; `None`: nobody.
async fn leading(world: &World) -> Result<Option<&Worker>> {
    let Shape { queries, writes } = SHAPE;
    let key = format!("{{freshet:{queries}x{writes}:offices}}:ingest:leader");
    let holder = redis::command(world, &format!("GET {key}")).await?;
    let leads = |worker: &&Worker| holder.contains(&format!("{} ", worker.cell.member()));
    Ok(world.workers.iter().find(leads))
}

/// Waits until a worker leads for which this holds.
async fn led_by(world: &World, fits: impl Fn(&Worker) -> bool) -> Result<&Worker> {
    for _ in 0..LEADERLESS_S_MAX * 10 {
        if let Some(leader) = leading(world).await?
            && fits(leader)
        {
            return Ok(leader);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    bail!("no worker took the lead of the ingest")
}

async fn leader(world: &World) -> Result<&Worker> {
    led_by(world, |_| true).await
}

/// Waits until another worker leads.
async fn successor(world: &World, before: &Worker) -> Result<()> {
    led_by(world, |worker| worker.cell != before.cell)
        .await
        .map(drop)
}

/// A worker that is a cell and nothing else.
async fn follower(world: &World) -> Result<&Worker> {
    let leader = leader(world).await?;
    let mut workers = world.workers.iter();
    let follower = workers.find(|worker| worker.cell != leader.cell);
    follower.context("there is one worker only")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use freshet_core::key::Key;

    use super::SHAPE;
    use crate::faults::universe::{PICTURED, Place, STILL};

    #[test]
    fn by_the_still_records_one_sees_every_row() {
        let collection = PICTURED;
        let paths = STILL.map(|number| Place { collection, number }.path());
        let rows: BTreeSet<u32> = paths
            .map(|path| SHAPE.row_of_key(&Key::from(path)))
            .collect();
        assert_eq!(rows, (0..SHAPE.queries).collect());
    }
}
