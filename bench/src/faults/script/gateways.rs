//! Gateways die, hang, and are replaced.

use anyhow::Result;

use super::{Fault, World, fault, hold};

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!(
            "gateway-killed",
            "SIGKILL of one gateway, restarted at once",
            killed
        ),
        fault!(
            "gateway-gone",
            "SIGKILL of one gateway, restarted after 15 s, when its lease is over",
            gone
        ),
        fault!(
            "gateway-stopped",
            "SIGSTOP of one gateway for 10 s",
            stopped
        ),
        fault!(
            "gateways-killed",
            "SIGKILL of both gateways, restarted after 2 s",
            both_killed
        ),
        fault!(
            "gateways-rolled",
            "SIGTERM and restart of one gateway, then of the other",
            rolled
        ),
    ]
}

pub(super) async fn killed(world: &World) -> Result<()> {
    let node = &world.gateways[0].node;
    node.kill().await?;
    node.restart().await
}

async fn gone(world: &World) -> Result<()> {
    let node = &world.gateways[1].node;
    node.kill().await?;
    hold(15).await;
    node.restart().await
}

async fn stopped(world: &World) -> Result<()> {
    let node = &world.gateways[0].node;
    node.pause();
    hold(10).await;
    node.resume();
    Ok(())
}

async fn both_killed(world: &World) -> Result<()> {
    for gateway in &world.gateways {
        gateway.node.kill().await?;
    }
    hold(2).await;
    for gateway in &world.gateways {
        gateway.node.restart().await?;
    }
    Ok(())
}

async fn rolled(world: &World) -> Result<()> {
    for gateway in &world.gateways {
        gateway.node.terminate().await?;
        gateway.node.restart().await?;
        hold(1).await;
    }
    Ok(())
}
