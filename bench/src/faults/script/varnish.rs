//! A Varnish node dies, hangs, or takes no purges.

use anyhow::Result;

use super::{Fault, World, fault, hold};
use crate::faults::wire::State;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!(
            "varnish-killed",
            "SIGKILL of one node; 3 s later an empty one",
            killed
        ),
        fault!("varnish-stopped", "SIGSTOP of one node for 5 s", stopped),
        fault!(
            "purges-refused",
            "one node refuses the purges of both gateways for a minute, and serves on",
            refused
        ),
        fault!(
            "purges-unanswered",
            "one node answers no purge of one gateway for 15 s, and serves on",
            unanswered
        ),
    ]
}

async fn killed(world: &World) -> Result<()> {
    let node = &world.edges[0].node;
    node.kill().await?;
    hold(3).await;
    node.restart().await
}

async fn stopped(world: &World) -> Result<()> {
    let node = &world.edges[1].node;
    node.pause();
    hold(5).await;
    node.resume();
    Ok(())
}

async fn refused(world: &World) -> Result<()> {
    for gateway in &world.gateways {
        gateway.purges[0].set(State::Refusing);
    }
    hold(60).await;
    for gateway in &world.gateways {
        gateway.purges[0].set(State::Whole);
    }
    Ok(())
}

async fn unanswered(world: &World) -> Result<()> {
    let wire = &world.gateways[1].purges[1];
    wire.set(State::Silent);
    hold(15).await;
    wire.set(State::Whole);
    Ok(())
}
