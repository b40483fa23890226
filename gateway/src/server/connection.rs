//! One connection: how busy it is, when it is closed for idleness, how long its answers may take to be taken.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use freshet_core::time::{Clock, Moment};
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::Body;
use super::stall::Stalling;
use crate::config::settings::Server as Settings;

/// What is known of a connection.
pub struct Connection {
    in_flight: AtomicU32,
    streams: AtomicU32,
    last_ms: AtomicU64,
    fills_a_cache: AtomicBool,
    fill_timeout: Duration,
    write_timeout: Duration,
    idle_timeout: Duration,
    /// Until the first request has begun, a connection may be silent for this long.
    silent_timeout: Duration,
    begun: AtomicBool,
    clock: Arc<dyn Clock>,
}

impl Connection {
    pub(super) fn new(settings: &Settings, clock: Arc<dyn Clock>) -> Connection {
        Connection {
            in_flight: AtomicU32::new(0),
            streams: AtomicU32::new(0),
            last_ms: AtomicU64::new(clock.now().0),
            fills_a_cache: AtomicBool::new(false),
            fill_timeout: settings.fill_timeout,
            write_timeout: settings.write_timeout,
            idle_timeout: settings.idle_timeout,
            silent_timeout: settings.idle_timeout.min(settings.header_read_timeout),
            begun: AtomicBool::new(false),
            clock,
        }
    }

    /// Says whether the answer that goes out now may be stored by a cache, and so must be taken within F (C5).
    pub fn answers(&self, cacheable: bool) {
        self.fills_a_cache.store(cacheable, Ordering::Relaxed);
    }

    /// The moment by which a cacheable answer that starts now must have been taken.
    #[must_use]
    pub fn fill_deadline(&self, now: Moment) -> Moment {
        now.after_ms(u64::try_from(self.fill_timeout.as_millis()).unwrap_or(u64::MAX))
    }

    pub(super) fn write_limit(&self) -> Duration {
        if self.fills_a_cache.load(Ordering::Relaxed) {
            self.fill_timeout
        } else {
            self.write_timeout
        }
    }

    /// Is in use until that is dropped, though its request is answered, and ends when the client closes it: a stream
    /// has no other end.
    #[must_use]
    pub fn streams(self: &Arc<Self>) -> Streaming {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Streaming(self.busy())
    }

    pub(super) fn is_streaming(&self) -> bool {
        self.streams.load(Ordering::Relaxed) > 0
    }

    fn busy(self: &Arc<Self>) -> Busy {
        self.begin();
        Busy(Arc::clone(self))
    }

    fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.begun.store(true, Ordering::Relaxed);
    }

    fn end(&self) {
        self.last_ms.store(self.clock.now().0, Ordering::Relaxed);
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    /// Waits until the connection has had no request for the idle time, or has not begun one in time.
    async fn idle(&self) {
        loop {
            let limit = match self.begun.load(Ordering::Relaxed) {
                true => self.idle_timeout,
                false => self.silent_timeout,
            };
            let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
            let since = self
                .clock
                .now()
                .since(Moment(self.last_ms.load(Ordering::Relaxed)));
            let busy = self.in_flight.load(Ordering::Relaxed) > 0;
            if !busy && since >= limit_ms {
                return;
            }
            let left = if busy { limit_ms } else { limit_ms - since };
            tokio::time::sleep(Duration::from_millis(left.max(1))).await;
        }
    }
}

/// A stream that is being sent, until dropped.
pub struct Streaming(Busy);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts a request as in flight until dropped, also when the client goes away.
struct Busy(Arc<Connection>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.end();
    }
}

pub(super) async fn run<H, F>(
    stream: TcpStream,
    builder: Arc<auto::Builder<TokioExecutor>>,
    connection: Arc<Connection>,
    handler: H,
    mut draining: watch::Receiver<bool>,
) where
    H: Fn(Request<Incoming>, Arc<Connection>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<Response<Body>, Infallible>> + Send + 'static,
{
    let io = TokioIo::new(Stalling::new(stream, Arc::clone(&connection)));
    let for_service = Arc::clone(&connection);
    let service = service_fn(move |request| {
        let in_flight = for_service.busy();
        let answer = handler(request, Arc::clone(&for_service));
        async move {
            let answer = answer.await;
            drop(in_flight);
            answer
        }
    });
    let serving = builder.serve_connection(io, service);
    let mut serving = std::pin::pin!(serving);
    let mut idle = std::pin::pin!(connection.idle());
    let mut closing = false;
    // A peer that neither takes its answers nor lets go of an HTTP/2 connection (no window, no PING answered) would
    // otherwise keep it for good.
    let mut cut = std::pin::pin!(tokio::time::sleep(Duration::MAX));
    loop {
        tokio::select! {
            ended = serving.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(error, "a connection ended early");
                }
                return;
            }
            _ = draining.wait_for(|draining| *draining), if !closing => {}
            () = &mut idle, if !closing => {
                cut.set(tokio::time::sleep(connection.write_timeout));
            }
            () = &mut cut, if closing => return,
        }
        closing = true;
        serving.as_mut().graceful_shutdown();
    }
}
