//! Carries purges out: one worker per node takes what is due from the queue, so that a node that hangs holds
//! up no other. What every node confirmed is handed on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use freshet_core::freshness::SurrogateKey;
use freshet_core::sketch::wire::INVALIDATION_UNBOUNDED_MS;
use freshet_core::time::{Clock, Moment, Position};
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::backoff::Backoff;
use super::delay::Delay;
use super::failing::Failing;
use super::ledger::{Ledger, LedgerError};
use super::port::{PurgeError, Purger};
use super::queue::{Done, Order, Outcome, Queue, QueueLimits, Target};

/// How purges are carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutboxSettings {
    /// Orders not confirmed yet.
    pub orders_max: usize,
    /// F (rule C5), milliseconds.
    pub repeat_after_ms: u64,
    /// Δ_inv is unbounded while an order is unconfirmed for longer, milliseconds; at least four times what the slowest
    /// cache takes, after F.
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

/// The outbox. What it has not confirmed is in the ledger, if there is one. Without it a process that dies leaves its
/// orders to the next one's purge of the databases (rule C8), and until that is confirmed Δ_inv is unbounded.
pub struct Outbox {
    clock: Arc<dyn Clock>,
    nodes: Vec<Arc<dyn Purger>>,
    ledger: Option<Arc<dyn Ledger>>,
    /// Orders that are not in the ledger yet.
    unnoted: Mutex<Vec<Order>>,
    unbounded_after_ms: u64,
    state: Mutex<State>,
    lags: AtomicBool,
    ordered: Notify,
}

struct State {
    queue: Queue,
    delay: Delay,
    /// Of each node, how many requests succeeded and how many failed.
    requests: Vec<(u64, u64)>,
}

/// How a node is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeStatus {
    /// The node.
    pub name: String,
    /// Requests that succeeded.
    pub sent: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Purges that it has not confirmed.
    pub pending: usize,
    /// How old the oldest of them is, milliseconds.
    pub unconfirmed_ms: Option<u64>,
    /// For how long every request has failed, milliseconds.
    pub failing_ms: Option<u64>,
    /// Whether that is too old: nothing is given to shared caches any more.
    pub down: bool,
}

impl Outbox {
    /// An empty outbox for these nodes.
    #[must_use]
    pub fn new(
        settings: OutboxSettings,
        nodes: Vec<Arc<dyn Purger>>,
        ledger: Option<Arc<dyn Ledger>>,
        clock: Arc<dyn Clock>,
    ) -> Outbox {
        let limits = QueueLimits {
            orders_max: settings.orders_max,
            repeat_after_ms: settings.repeat_after_ms,
        };
        let backoff = Backoff::new(settings.retry_ms, settings.retry_ms_max, settings.seed);
        let coalesce_ms: Vec<u64> = nodes.iter().map(|node| node.coalesce_ms()).collect();
        let slowest = nodes
            .iter()
            .map(|node| node.coalesce_ms() + node.purge_ms());
        let slowest_ms = slowest.max().unwrap_or(0);
        let floor_ms = settings.repeat_after_ms + slowest_ms;
        // An order may wait for a purge under way, be purged, and repeated likewise.
        let unbounded_after_ms = settings
            .unbounded_after_ms
            .max(settings.repeat_after_ms + 4 * slowest_ms);
        let state = State {
            queue: Queue::new(limits, &coalesce_ms, backoff),
            delay: Delay::new(floor_ms, unbounded_after_ms, clock.now()),
            requests: vec![(0, 0); nodes.len()],
        };
        Outbox {
            clock,
            nodes,
            ledger,
            unnoted: Mutex::default(),
            unbounded_after_ms,
            state: Mutex::new(state),
            lags: AtomicBool::new(false),
            ordered: Notify::new(),
        }
    }

    /// Whether there is any shared cache to purge.
    #[must_use]
    pub fn has_nodes(&self) -> bool {
        !self.nodes.is_empty()
    }

    /// Takes orders in; they are sent soon. [`Outbox::note`] says when they outlive the process.
    pub fn order(&self, orders: impl IntoIterator<Item = Order>) {
        if self.nodes.is_empty() {
            return;
        }
        let orders: Vec<Order> = orders.into_iter().collect();
        if self.ledger.is_some() {
            self.unnoted.lock().extend_from_slice(&orders);
        }
        self.push(orders);
    }

    fn push(&self, orders: Vec<Order>) {
        let now = self.clock.now();
        {
            let mut state = self.state.lock();
            orders
                .into_iter()
                .for_each(|order| state.queue.push(order, now));
        }
        self.ordered.notify_waiters();
    }

    /// Takes up what an earlier life of this process did not confirm. False: that is not known.
    pub async fn take_up(&self) -> bool {
        let Some(ledger) = &self.ledger else {
            return self.nodes.is_empty();
        };
        match ledger.take_up().await {
            Ok(orders) => {
                self.push(orders);
                true
            }
            Err(error) => {
                warn!(%error, "what was to be purged is not known");
                false
            }
        }
    }

    /// Has what was ordered in the ledger.
    ///
    /// # Errors
    /// It is not; to be tried again.
    pub async fn note(&self) -> Result<(), LedgerError> {
        let Some(ledger) = &self.ledger else {
            return Ok(());
        };
        let orders = std::mem::take(&mut *self.unnoted.lock());
        if orders.is_empty() {
            return Ok(());
        }
        let noted = ledger.note(&orders).await;
        if noted.is_err() {
            self.unnoted.lock().splice(0..0, orders);
        }
        noted
    }

    /// Takes what is confirmed out of the ledger. What stays in it is purged once more by a later life.
    pub async fn settled(&self, confirmed: &[Confirmed]) {
        if let Some(ledger) = &self.ledger
            && let Err(error) = ledger.confirm(confirmed).await
        {
            debug!(%error, "confirmed purges stay in the ledger");
        }
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
        let bound = state.delay.bound_ms(oldest, now);
        self.lags
            .store(bound == INVALIDATION_UNBOUNDED_MS, Ordering::Relaxed);
        bound
    }

    /// Whether a node had left an order unconfirmed for too long when [`Outbox::invalidation_ms`] was last asked.
    #[must_use]
    pub fn lags(&self) -> bool {
        self.lags.load(Ordering::Relaxed)
    }

    /// How each node is doing.
    #[must_use]
    pub fn edges(&self) -> Vec<EdgeStatus> {
        let now = self.clock.now();
        let state = self.state.lock();
        let of = |(node, purger): (usize, &Arc<dyn Purger>)| {
            let backlog = state.queue.backlog(node, now);
            let failing_since = state.queue.failing_since(node);
            let (sent, failed) = state.requests[node];
            EdgeStatus {
                name: purger.name().to_owned(),
                sent,
                failed,
                pending: backlog.pending,
                unconfirmed_ms: backlog.oldest_ms,
                failing_ms: failing_since.map(|since| now.since(since)),
                down: backlog.oldest_ms > Some(self.unbounded_after_ms),
            }
        };
        self.nodes.iter().enumerate().map(of).collect()
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
        let add = |(sent, failed), one: &(u64, u64)| (sent + one.0, failed + one.1);
        state.requests.iter().fold((0, 0), add)
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
        let mut failing = Failing::default();
        while !stop.is_cancelled() {
            let ordered = self.ordered.notified();
            tokio::pin!(ordered);
            ordered.as_mut().enable();
            let sent = self.clock.now();
            let keys_max = self.nodes[node].keys_max();
            let keys = self.state.lock().queue.take(node, keys_max, sent);
            if keys.is_empty() {
                tokio::select! {
                    () = &mut ordered => {}
                    () = self.until_due(node) => {}
                    () = stop.cancelled() => return,
                }
                continue;
            }
            let purged = self.nodes[node].purge(&keys).await;
            failing.tell(self.nodes[node].name(), &purged, self.clock.now());
            let done = self.settle(node, &keys, sent, outcome(&purged));
            if !done.is_empty() {
                hand_on(done, confirmed).await;
            }
        }
    }

    fn settle(
        &self,
        node: usize,
        keys: &[SurrogateKey],
        sent: Moment,
        outcome: Outcome,
    ) -> Vec<Confirmed> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        match outcome {
            Outcome::Purged => state.requests[node].0 += 1,
            Outcome::Failed | Outcome::Busy(_) => state.requests[node].1 += 1,
        }
        let done = state.queue.done(node, keys, sent, outcome, now);
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

fn outcome(purged: &Result<(), PurgeError>) -> Outcome {
    match purged {
        Ok(()) => Outcome::Purged,
        Err(PurgeError::Busy { retry_after_ms, .. }) => Outcome::Busy(*retry_after_ms),
        Err(_) => Outcome::Failed,
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
