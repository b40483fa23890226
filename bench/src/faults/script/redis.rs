//! Redis dies, hangs, forgets, is cut off, or has its clock set.

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Fault, World, fault, hold};
use crate::faults::wire::State;

const HOUR_MS: i64 = 3_600_000;

pub(super) fn faults() -> Vec<Fault> {
    vec![
        fault!("redis-killed", "SIGKILL; 3 s later an empty one", killed),
        fault!("redis-stopped", "SIGSTOP for 5 s", stopped),
        fault!("redis-flushed", "FLUSHALL", flushed),
        fault!(
            "redis-functions-flushed",
            "FUNCTION FLUSH",
            functions_flushed
        ),
        fault!(
            "redis-connections-killed",
            "CLIENT KILL of every connection, ten times in 2 s",
            connections_killed
        ),
        fault!(
            "redis-clock-forward",
            "its clock is set an hour forward",
            clock_forward
        ),
        fault!(
            "redis-clock-back",
            "its clock is set back by an hour",
            clock_back
        ),
        fault!(
            "redis-cut-off",
            "one gateway's connections to it are silent for 5 s, then closed",
            cut_off
        ),
    ]
}

pub(super) async fn killed(world: &World) -> Result<()> {
    let node = &world.redis.redis.node;
    node.kill().await?;
    hold(3).await;
    node.restart().await
}

async fn stopped(world: &World) -> Result<()> {
    let node = &world.redis.redis.node;
    node.pause();
    hold(5).await;
    node.resume();
    Ok(())
}

pub(super) async fn flushed(world: &World) -> Result<()> {
    command(world, "FLUSHALL").await.map(drop)
}

async fn functions_flushed(world: &World) -> Result<()> {
    command(world, "FUNCTION FLUSH").await.map(drop)
}

async fn connections_killed(world: &World) -> Result<()> {
    for _ in 0..10 {
        command(world, "CLIENT KILL TYPE normal SKIPME yes").await?;
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    Ok(())
}

async fn clock_forward(world: &World) -> Result<()> {
    world.redis.clock.shift_ms(HOUR_MS)
}

async fn clock_back(world: &World) -> Result<()> {
    world.redis.clock.shift_ms(0)
}

async fn cut_off(world: &World) -> Result<()> {
    let wire = &world.gateways[0].redis;
    wire.set(State::Silent);
    hold(5).await;
    wire.set(State::Refusing);
    hold(1).await;
    wire.set(State::Whole);
    Ok(())
}

/// One inline command on a connection of its own; what the server says to it.
pub(super) async fn command(world: &World, words: &str) -> Result<String> {
    let port = world.redis.redis.node.port();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.write_all(format!("{words}\r\n").as_bytes()).await?;
    let mut answer = [0; 256];
    let length = stream.read(&mut answer).await?;
    let answer = String::from_utf8_lossy(&answer[..length]);
    anyhow::ensure!(!answer.starts_with('-'), "{words}: {answer}");
    Ok(answer.into_owned())
}
