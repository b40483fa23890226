//! What is to be purged, at which node, when: pure, the moment is an argument (rule C5).
//!
//! A purge is ordered at the moment of the change's effect. Each node purges at once, and again when the
//! longest fill time F has passed since: only what a node dropped after that is sure to stay away, since a
//! fill under way when the order came has ended by then. An order for a key that is pending starts a new
//! generation, so a key that changes all the time is confirmed all the same.

use std::collections::{BTreeSet, HashMap};

use freshet_core::freshness::{SurrogateKey, collection_surrogate, database_surrogate};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Moment, Position};

use super::backoff::Backoff;
use super::lane::Lane;

/// What a purge is for; tells whom to confirm it to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// One resource.
    Resource(Namespace, Key),
    /// Everything of a collection.
    Collection(Namespace),
    /// Everything of a database, since a sketch's epoch began (rule C8).
    Database(String, u64),
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What carries this is dropped.
    pub surrogate: SurrogateKey,
    /// Why.
    pub target: Target,
    /// The change it answers to.
    pub position: Position,
}

/// The queue's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Orders not confirmed yet; beyond it a collection is purged as a whole.
    pub orders_max: usize,
    /// F: after it a purge is repeated, milliseconds.
    pub repeat_after_ms: u64,
}

/// Orders between two repeats.
#[derive(Clone, Copy, Debug)]
struct Generation {
    position: Position,
    since: Moment,
    last: Moment,
}

#[derive(Clone, Copy, Debug, Default)]
struct AtNode {
    /// When the latest purge that succeeded was sent.
    sent: Option<Moment>,
    due: Moment,
    failures: u32,
    in_flight: bool,
}

#[derive(Debug)]
struct Item {
    target: Target,
    current: Generation,
    next: Option<Generation>,
    nodes: Vec<AtNode>,
}

impl Item {
    fn latest(&self) -> &Generation {
        self.next.as_ref().unwrap_or(&self.current)
    }

    /// The repeat that `node` still owes, and since when its order waits; `None`: it has done all.
    fn owed(&self, node: usize, repeat_after_ms: u64) -> Option<(Moment, Moment)> {
        let sent = self.nodes[node].sent;
        let generations = std::iter::once(&self.current).chain(&self.next);
        generations
            .map(|one| (one.last.after_ms(repeat_after_ms), one.since))
            .find(|(repeat, _)| sent < Some(*repeat))
    }
}

/// What a node owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backlog {
    pub(super) pending: usize,
    pub(super) oldest_ms: Option<u64>,
}

/// A confirmed order and how long it took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) target: Target,
    pub(super) position: Position,
    pub(super) took_ms: u64,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The node has done it.
    Purged,
    /// It has not.
    Failed,
    /// It asked to be left alone, for so long if it said so, milliseconds.
    Busy(Option<u64>),
}

#[derive(Debug)]
pub(super) struct Queue {
    limits: QueueLimits,
    items: HashMap<SurrogateKey, Item>,
    /// Per node, what is due when; items in flight there are not in it.
    due: Vec<BTreeSet<(Moment, SurrogateKey)>>,
    lanes: Vec<Lane>,
    backoff: Backoff,
}

impl Queue {
    /// A queue for as many nodes as there are `coalesce_ms`: orders wait so long at each for others to go with them.
    pub(super) fn new(limits: QueueLimits, coalesce_ms: &[u64], backoff: Backoff) -> Queue {
        Queue {
            limits,
            items: HashMap::new(),
            due: vec![BTreeSet::new(); coalesce_ms.len()],
            lanes: coalesce_ms.iter().map(|ms| Lane::new(*ms)).collect(),
            backoff,
        }
    }

    /// Takes an order in. When there is no room, a wider one takes the place of many.
    pub(super) fn push(&mut self, order: Order, now: Moment) {
        if self.items.contains_key(&order.surrogate) || self.items.len() < self.limits.orders_max {
            return self.put(order, now, now);
        }
        let (Target::Resource(namespace, _) | Target::Collection(namespace)) = &order.target else {
            return self.put(order, now, now); // databases are few
        };
        let namespace = namespace.clone();
        let since = self.drop_resources(|of| *of == namespace).unwrap_or(now);
        let wider = collection_surrogate(&namespace);
        if self.items.len() < self.limits.orders_max || self.items.contains_key(&wider) {
            let order = Order {
                surrogate: wider,
                target: Target::Collection(namespace),
                position: order.position,
            };
            return self.put(order, since, now);
        }
        let db = namespace.db().to_owned();
        let older = self.drop_resources(|of| of.db() == db);
        let order = Order {
            surrogate: database_surrogate(&db),
            target: Target::Database(db, 0),
            position: order.position,
        };
        self.put(order, older.unwrap_or(since).min(since), now);
    }

    fn put(&mut self, order: Order, since: Moment, now: Moment) {
        let nodes = self.due.len();
        let fresh = Generation {
            position: order.position,
            since,
            last: now,
        };
        match self.items.get_mut(&order.surrogate) {
            None => {
                let item = Item {
                    target: order.target,
                    current: fresh,
                    next: None,
                    nodes: vec![AtNode::default(); nodes],
                };
                self.items.insert(order.surrogate, item);
            }
            Some(item) if matches!(order.target, Target::Database(_, epoch) if epoch > 0) => {
                // A new epoch: whatever was pending is in it, and nothing earlier may confirm it.
                item.target = order.target;
                item.next = None;
                item.current = Generation {
                    since: item.current.since.min(since),
                    ..fresh
                };
            }
            Some(item) => {
                item.next = Some(match item.next {
                    None => fresh,
                    Some(next) => Generation {
                        position: next.position.max(fresh.position),
                        since: next.since.min(since),
                        last: now,
                    },
                });
            }
        }
        for node in 0..nodes {
            self.schedule(node, order.surrogate, None);
        }
    }

    /// Forgets orders for resources: a wider purge drops what they would have dropped, but nobody is told
    /// that it is confirmed, so their copies keep the long horizon. Answers when the oldest was ordered.
    fn drop_resources(&mut self, of: impl Fn(&Namespace) -> bool) -> Option<Moment> {
        let gone = |item: &Item| match &item.target {
            Target::Resource(namespace, _) | Target::Collection(namespace) => of(namespace),
            Target::Database(..) => false,
        };
        let mut oldest = None;
        let due = &mut self.due;
        self.items.retain(|surrogate, item| {
            if !gone(item) {
                return true;
            }
            oldest = Some(oldest.unwrap_or(item.current.since).min(item.current.since));
            for (node, due) in item.nodes.iter().zip(due.iter_mut()) {
                due.remove(&(node.due, *surrogate));
            }
            false
        });
        oldest
    }

    /// What `node` shall purge now, at most `keys_max`; in flight until [`Queue::done`].
    pub(super) fn take(&mut self, node: usize, keys_max: usize, now: Moment) -> Vec<SurrogateKey> {
        let mut keys = Vec::new();
        if now < self.lanes[node].quiet_until {
            return keys;
        }
        while keys.len() < keys_max {
            match self.due[node].first() {
                Some((at, _)) if *at <= now => {}
                _ => break,
            }
            let Some((_, key)) = self.due[node].pop_first() else {
                break;
            };
            if let Some(item) = self.items.get_mut(&key) {
                item.nodes[node].in_flight = true;
                keys.push(key);
            }
        }
        keys
    }

    /// When `node` has something to do.
    pub(super) fn next_due(&self, node: usize) -> Option<Moment> {
        let (at, _) = self.due[node].first()?;
        Some((*at).max(self.lanes[node].quiet_until))
    }

    /// `node` purged `keys`, or failed to, by a request sent at `sent`. Answers what is confirmed now.
    pub(super) fn done(
        &mut self,
        node: usize,
        keys: &[SurrogateKey],
        sent: Moment,
        outcome: Outcome,
        now: Moment,
    ) -> Vec<Done> {
        let mut confirmed = Vec::new();
        self.lanes[node].note(outcome, &mut self.backoff, now);
        for key in keys {
            let Some(item) = self.items.get_mut(key) else {
                continue;
            };
            let at = &mut item.nodes[node];
            at.in_flight = false;
            if outcome == Outcome::Purged {
                at.sent = Some(sent);
                at.failures = 0;
                self.schedule(node, *key, None);
                // A node that was down for long has done the repeat of several generations at once.
                confirmed.extend(std::iter::from_fn(|| self.confirm(*key, now)));
            } else {
                at.failures += 1;
                let retry = now.after_ms(self.backoff.delay_ms(at.failures));
                self.schedule(node, *key, Some(retry));
            }
        }
        confirmed
    }

    /// Takes a generation out that every node has repeated the purge for.
    fn confirm(&mut self, key: SurrogateKey, now: Moment) -> Option<Done> {
        let item = self.items.get_mut(&key)?;
        let repeated = item.current.last.after_ms(self.limits.repeat_after_ms);
        if !item.nodes.iter().all(|at| at.sent >= Some(repeated)) {
            return None;
        }
        let done = Done {
            target: item.target.clone(),
            position: item.current.position,
            took_ms: now.since(item.current.since),
        };
        match item.next.take() {
            Some(next) => {
                item.current = next;
                for node in 0..self.due.len() {
                    self.schedule(node, key, None);
                }
            }
            None => {
                for (at, due) in item.nodes.iter().zip(&mut self.due) {
                    due.remove(&(at.due, key));
                }
                self.items.remove(&key);
            }
        }
        Some(done)
    }

    /// Sets when `node` purges `key` next: at once after an order, at the repeat, or at `retry`.
    fn schedule(&mut self, node: usize, key: SurrogateKey, retry: Option<Moment>) {
        let Some(item) = self.items.get_mut(&key) else {
            return;
        };
        let ordered = item.latest().last;
        let repeat = item.owed(node, self.limits.repeat_after_ms);
        let at = &mut item.nodes[node];
        // Whoever fails is not asked more often because more is ordered.
        if at.in_flight || retry.is_none() && at.failures > 0 {
            return;
        }
        let waits = self.due[node].remove(&(at.due, key));
        let due = match retry {
            Some(retry) => retry,
            None if at.sent <= Some(ordered) => {
                let due = ordered.after_ms(self.lanes[node].coalesce_ms);
                // Nor is what waits put off because more is ordered.
                if waits { due.min(at.due) } else { due }
            }
            None => match repeat {
                Some((repeat, _)) => repeat,
                None => return, // done here; other nodes are not
            },
        };
        at.due = due;
        self.due[node].insert((due, key));
    }

    /// Orders not confirmed.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// How old the oldest unconfirmed order is.
    pub(super) fn oldest_ms(&self, now: Moment) -> Option<u64> {
        let ages = self
            .items
            .values()
            .map(|item| now.since(item.current.since));
        ages.max()
    }

    /// What `node` has not confirmed: how many orders, and how old the oldest is.
    pub(super) fn backlog(&self, node: usize, now: Moment) -> Backlog {
        let owed = self
            .items
            .values()
            .filter_map(|item| item.owed(node, self.limits.repeat_after_ms));
        let mut backlog = Backlog::default();
        for (_, since) in owed {
            backlog.pending += 1;
            backlog.oldest_ms = backlog.oldest_ms.max(Some(now.since(since)));
        }
        backlog
    }

    /// Since when every request to `node` has failed.
    pub(super) fn failing_since(&self, node: usize) -> Option<Moment> {
        self.lanes[node].failing_since
    }
}

#[cfg(test)]
mod tests;
