//! Carries purges out: one worker per node takes what is due from the queue, so that a node that hangs holds
//! up no other. What every node confirmed is handed on.

use std::sync::Arc;
use std::time::Duration;

use freshet_core::time::{Clock, Position};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::backoff::Backoff;
use super::delay::Delay;
use super::port::{PURGE_KEYS_MAX, Purger};
use super::queue::{Done, Order, Queue, QueueLimits, Target};

/// How purges are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxSettings {
    /// Orders not confirmed yet.
    pub orders_max: usize,
    /// F (rule C5), milliseconds.
    pub repeat_after_ms: u64,
    /// Orders wait so long for company, milliseconds.
    pub coalesce_ms: u64,
    /// Δ_inv is unbounded while an order is unconfirmed for longer, milliseconds.
    pub unbounded_after_ms: u64,
    /// The first delay after a failure, milliseconds.
    pub retry_ms: u64,
    /// The longest delay after failures, milliseconds.
    pub retry_ms_max: u64,
    /// For the jitter of the delays.
    pub seed: u64,
}

impl Default for OutboxSettings {
    fn default() -> OutboxSettings {
        OutboxSettings {
            orders_max: 100_000,
            repeat_after_ms: 2_000,
            coalesce_ms: 2,
            unbounded_after_ms: 10_000,
            retry_ms: 100,
            retry_ms_max: 5_000,
            seed: 0,
        }
    }
}

/// A purge that every node confirmed after its repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmed {
    /// What was purged.
    pub target: Target,
    /// The latest change it answers to.
    pub position: Position,
}

/// The outbox. In memory: a process that dies leaves its orders to the next one's purge of the databases
/// (rule C8), and until that is confirmed Δ_inv is unbounded.
pub struct Outbox {
    clock: Arc<dyn Clock>,
    nodes: Vec<Arc<dyn Purger>>,
    state: Mutex<State>,
    ordered: Notify,
}

struct State {
    queue: Queue,
    delay: Delay,
    sent: u64,
    failed: u64,
}

/// Slack of the bound over the repeat: the time a purge itself takes.
const PURGE_MS: u64 = 250;

impl Outbox {
    /// An empty outbox for these nodes.
    #[must_use]
    pub fn new(
        settings: OutboxSettings,
        nodes: Vec<Arc<dyn Purger>>,
        clock: Arc<dyn Clock>,
    ) -> Outbox {
        let limits = QueueLimits {
            orders_max: settings.orders_max,
            repeat_after_ms: settings.repeat_after_ms,
            coalesce_ms: settings.coalesce_ms,
        };
        let backoff = Backoff::new(settings.retry_ms, settings.retry_ms_max, settings.seed);
        let floor_ms = settings.repeat_after_ms + PURGE_MS;
        let state = State {
            queue: Queue::new(limits, nodes.len(), backoff),
            delay: Delay::new(floor_ms, settings.unbounded_after_ms, clock.now()),
            sent: 0,
            failed: 0,
        };
        Outbox {
            clock,
            nodes,
            state: Mutex::new(state),
            ordered: Notify::new(),
        }
    }

    /// Whether there is any shared cache to purge.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Takes orders in; they are sent soon.
    pub fn order(&self, orders: impl IntoIterator<Item = Order>) {
        if self.nodes.is_empty() {
            return;
        }
        let now = self.clock.now();
        {
            let mut state = self.state.lock();
            orders
                .into_iter()
                .for_each(|order| state.queue.push(order, now));
        }
        self.ordered.notify_waiters();
    }

    /// Δ_inv of the purges: how long after its order the last copy is gone; 0 without shared caches.
    #[must_use]
    pub fn invalidation_ms(&self) -> u32 {
        if self.nodes.is_empty() {
            return 0;
        }
        let now = self.clock.now();
        let mut state = self.state.lock();
        let oldest = state.queue.oldest_ms(now);
        state.delay.bound_ms(oldest, now)
    }

    /// Orders not confirmed yet.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.state.lock().queue.len()
    }

    /// Requests that succeeded and that failed.
    #[must_use]
    pub fn requests(&self) -> (u64, u64) {
        let state = self.state.lock();
        (state.sent, state.failed)
    }

    /// Works until `stop`; hands on what is confirmed.
    pub async fn run(&self, confirmed: mpsc::Sender<Vec<Confirmed>>, stop: CancellationToken) {
        let workers = (0..self.nodes.len()).map(|node| self.work(node, &confirmed, &stop));
        join_all(workers).await;
    }

    async fn work(
        &self,
        node: usize,
        confirmed: &mpsc::Sender<Vec<Confirmed>>,
        stop: &CancellationToken,
    ) {
        while !stop.is_cancelled() {
            let ordered = self.ordered.notified();
            tokio::pin!(ordered);
            ordered.as_mut().enable();
            let sent = self.clock.now();
            let keys = self.state.lock().queue.take(node, PURGE_KEYS_MAX, sent);
            if keys.is_empty() {
                tokio::select! {
                    () = &mut ordered => {}
                    () = self.until_due(node) => {}
                    () = stop.cancelled() => return,
                }
                continue;
            }
            let purged = self.nodes[node].purge(&keys).await;
            if let Err(error) = &purged {
                warn!(node = self.nodes[node].name(), %error, keys = keys.len(), "a purge failed");
            }
            let done = self.settle(node, &keys, sent, purged.is_ok());
            if !done.is_empty() {
                hand_on(done, confirmed).await;
            }
        }
    }

    fn settle(
        &self,
        node: usize,
        keys: &[freshet_core::freshness::SurrogateKey],
        sent: freshet_core::time::Moment,
        succeeded: bool,
    ) -> Vec<Confirmed> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if succeeded {
            state.sent += 1;
        } else {
            state.failed += 1;
        }
        let done = state.queue.done(node, keys, sent, succeeded, now);
        let mut confirmed = Vec::with_capacity(done.len());
        for Done {
            target,
            position,
            took_ms,
        } in done
        {
            debug!(?target, took_ms, "a purge is confirmed");
            state.delay.confirmed(took_ms, now);
            confirmed.push(Confirmed { target, position });
        }
        confirmed
    }

    /// Waits until something is due at `node`, in steps: the clock may be one that is moved by hand.
    async fn until_due(&self, node: usize) {
        let now = self.clock.now();
        let due = self.state.lock().queue.next_due(node);
        let wait = due.map_or(STEP_MS_MAX, |at| at.since(now).clamp(1, STEP_MS_MAX));
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
}

/// Purges do not wait for a sketch that is slow to hear of them: what it does not hear keeps its long
/// horizon. That a database was purged is worth the wait.
async fn hand_on(done: Vec<Confirmed>, confirmed: &mpsc::Sender<Vec<Confirmed>>) {
    let whole = done
        .iter()
        .any(|one| matches!(one.target, Target::Database(..)));
    // A closed channel: the pipeline stops.
    if whole {
        let _ = confirmed.send(done).await;
    } else if let Err(mpsc::error::TrySendError::Full(done)) = confirmed.try_send(done) {
        debug!(
            purges = done.len(),
            "confirmations are dropped, the sketch is slow"
        );
    }
}

/// The longest a worker sleeps without looking, milliseconds.
const STEP_MS_MAX: u64 = 50;
