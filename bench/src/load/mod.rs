//! A closed-loop HTTP/1.1 load driver that costs little beside what it measures: prebuilt requests over
//! keep-alive connections, and a reader that looks only for the status and the length of an answer.
//!
//! Closed loop means that it measures throughput at a fixed concurrency; latencies taken this way leave
//! out the wait of requests that an open loop would have sent, and are not reported.

mod answer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// What to send: each connection walks through `requests` from its own offset.
pub(crate) struct Load {
    pub(crate) requests: Arc<[Vec<u8>]>,
    pub(crate) connections: usize,
    pub(crate) duration: Duration,
}

/// What came back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Throughput {
    pub(crate) per_s: f64,
}

impl Load {
    /// A load of `GET` requests for these paths.
    pub(crate) fn get(paths: &[String], connections: usize, duration: Duration) -> Load {
        let requests = paths
            .iter()
            .map(|path| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
            .collect();
        Load {
            requests,
            connections,
            duration,
        }
    }

    /// Runs the load on a thread of its own, so that the driver costs one core at most.
    ///
    /// # Errors
    /// A connection failed, or an answer was not 200: such a figure would mean nothing.
    pub(crate) async fn run(&self, target: SocketAddr) -> anyhow::Result<Throughput> {
        let (requests, connections, duration) =
            (self.requests.clone(), self.connections, self.duration);
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("starting the load driver")?
                .block_on(drive(target, requests, connections, duration))
        });
        tokio::task::spawn_blocking(move || {
            thread
                .join()
                .map_err(|_| anyhow::anyhow!("the load driver panicked"))?
        })
        .await?
    }
}

#[allow(clippy::disallowed_methods)] // a load driver measures real time
async fn drive(
    target: SocketAddr,
    requests: Arc<[Vec<u8>]>,
    connections: usize,
    duration: Duration,
) -> anyhow::Result<Throughput> {
    let started = std::time::Instant::now();
    let deadline = tokio::time::Instant::now() + duration;
    let done = Arc::new(AtomicU64::new(0));
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..connections {
        let offset = connection * requests.len() / connections;
        tasks.spawn(converse(
            target,
            requests.clone(),
            offset,
            deadline,
            done.clone(),
        ));
    }
    while let Some(outcome) = tasks.join_next().await {
        outcome??;
    }
    let requests = done.load(Ordering::Relaxed);
    #[allow(clippy::cast_precision_loss)]
    let per_s = requests as f64 / started.elapsed().as_secs_f64();
    Ok(Throughput { per_s })
}

#[allow(clippy::disallowed_methods)]
async fn converse(
    target: SocketAddr,
    requests: Arc<[Vec<u8>]>,
    offset: usize,
    deadline: tokio::time::Instant,
    done: Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let mut stream = TcpStream::connect(target).await.context("connecting")?;
    stream.set_nodelay(true)?;
    let mut answers = answer::Reader::default();
    for request in requests.iter().cycle().skip(offset) {
        stream.write_all(request).await?;
        answers.next(&mut stream).await?;
        done.fetch_add(1, Ordering::Relaxed);
        if tokio::time::Instant::now() >= deadline {
            break;
        }
    }
    Ok(())
}
