//! The accept loop: how many connections, how long each may take, and how they end.
//!
//! HTTP/1.1 and HTTP/2 without TLS (h2c by prior knowledge) on one port. It decides nothing about requests; the
//! service that it is given never fails. The listener and the signal to stop are arguments, so a test owns both.

mod body;
mod connection;
mod refusal;
mod stall;

pub use body::Body;
pub use connection::{Connection, Streaming};

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use freshet_core::time::Clock;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::TaskTracker;

use crate::config::settings::Server as Settings;

/// After accepting failed (no file descriptors left), this long until the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How the server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every request in flight was answered.
    Drained,
    /// The deadline came first; this many connections were cut.
    CutOff(usize),
}

/// Serves until `stop` completes, then drains.
pub async fn serve<H, F>(
    listener: TcpListener,
    settings: &Settings,
    clock: Arc<dyn Clock>,
    handler: H,
    stop: impl Future<Output = ()>,
) -> Ended
where
    H: Fn(Request<Incoming>, Arc<Connection>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    let builder = Arc::new(builder(settings));
    let permits = Arc::new(Semaphore::new(
        usize::try_from(settings.connections_max).unwrap_or(Semaphore::MAX_PERMITS),
    ));
    let (drain, draining) = watch::channel(false);
    let tracker = TaskTracker::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let permit = tokio::select! {
            () = &mut stop => break,
            permit = Arc::clone(&permits).acquire_owned() => permit,
        };
        let stream = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
        };
        let _ = stream.set_nodelay(true);
        let connection = Arc::new(Connection::new(settings, Arc::clone(&clock)));
        let task = connection::run(
            stream,
            Arc::clone(&builder),
            connection,
            handler.clone(),
            draining.clone(),
        );
        tracker.spawn(async move {
            task.await;
            drop(permit);
        });
    }
    drop(listener);
    drain.send_replace(true);
    tracker.close();
    match tokio::time::timeout(settings.drain_timeout, tracker.wait()).await {
        Ok(()) => Ended::Drained,
        Err(_) => Ended::CutOff(tracker.len()),
    }
}

fn builder(settings: &Settings) -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.header_read_timeout)
        .max_buf_size(settings.header_bytes_max.len())
        .half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(settings.streams_max)
        .max_header_list_size(u32::try_from(settings.header_bytes_max.0).unwrap_or(u32::MAX))
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20));
    builder
}
