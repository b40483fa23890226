//! Live queries: what each change means for them, handed to whoever keeps their answers. They are matched by the same
//! engine that finds what to purge, one engine per collection, as answers whose every change counts: a query costs one
//! evaluation per write however many follow it.
//!
//! Changes come in commit order, those of one position together. Who cannot keep up, or whose changes were lost, is
//! told so and reads again ([`Next::Lost`]); nobody holds up matching.

mod engine;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bson::{RawBson, RawDocumentBuf};
use freshet_core::change::Change;
use freshet_core::name::Namespace;
use freshet_core::predicate::Undecidable;
use freshet_core::time::Position;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use self::engine::Engine;
use crate::ingest::port::Batch;
use crate::matcher::Watch;

/// Positions that wait for one follower, at most.
const DELIVERIES_MAX: usize = 1_024;
/// Changes of one position that wait for one follower, at most.
const CHANGES_MAX: usize = 10_000;

/// A query to follow.
#[derive(Clone, Debug)]
pub struct Question {
    /// Its collection.
    pub namespace: Namespace,
    /// Which records, and what of them counts.
    pub watch: Watch,
    /// Collections that it joins: whatever happens there counts.
    pub joined: Vec<Namespace>,
}

/// What a write did to a query's match set.
#[derive(Clone, Debug, PartialEq)]
pub enum Did {
    /// To one record of it.
    Record {
        /// Its `_id`.
        id: RawBson,
        /// What it was, if it was in the set.
        before: Option<Arc<RawDocumentBuf>>,
        /// What it is, if it is in the set.
        after: Option<Arc<RawDocumentBuf>>,
        /// Whether `before` is known: without it, nothing is said of what the record was.
        exact: bool,
    },
    /// Only reading again tells.
    Unknown,
}

/// All that happened at one position.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// The position.
    pub position: Position,
    /// What happened, in order.
    pub changes: Vec<Did>,
}

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// This.
    Delivery(Delivery),
    /// Changes were lost: read again, at or after [`Following::from`].
    Lost,
}

/// Why a query cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFollowed {
    /// The matcher cannot decide it as the database does (rule C14).
    #[error(transparent)]
    Undecidable(#[from] Undecidable),
    /// The change feed delivers nothing now.
    #[error("the change feed is not running")]
    NotRunning,
}

/// The live queries.
pub struct Live {
    state: Mutex<State>,
    /// How far changes are delivered; `None`: they are not.
    through: watch::Sender<Option<Position>>,
}

#[derive(Default)]
struct State {
    engines: HashMap<Namespace, Engine>,
    followers: HashMap<FollowerId, Follower>,
    last: FollowerId,
    /// Followers with changes of positions that more may come of.
    pending: BTreeSet<FollowerId>,
}

type FollowerId = u64;

struct Follower {
    places: Vec<(Namespace, u32)>,
    changes: Vec<(Position, Did)>,
    deliveries: mpsc::Sender<Delivery>,
    lost: Arc<AtomicBool>,
}

/// A query that is followed, until dropped.
pub struct Following {
    live: Arc<Live>,
    id: FollowerId,
    deliveries: mpsc::Receiver<Delivery>,
    lost: Arc<AtomicBool>,
}

impl Default for Live {
    fn default() -> Live {
        Live {
            state: Mutex::default(),
            through: watch::Sender::new(None),
        }
    }
}

impl Live {
    /// Follows a query: every change from [`Following::from`] on is delivered.
    ///
    /// # Errors
    /// [`NotFollowed`].
    pub fn follow(self: &Arc<Live>, question: &Question) -> Result<Following, NotFollowed> {
        let mut state = self.state.lock();
        if self.through.borrow().is_none() {
            return Err(NotFollowed::NotRunning);
        }
        state.last += 1;
        let id = state.last;
        let own = match state.engine(&question.namespace).add(id, &question.watch) {
            Ok(own) => own,
            Err(undecidable) => {
                state.clear(&question.namespace);
                return Err(undecidable.into());
            }
        };
        let mut places = vec![(question.namespace.clone(), own)];
        for joined in &question.joined {
            let any = Watch::aggregate(freshet_core::query::Filter::default(), None);
            let place = state.engine(joined).add_joined(id, &any)?;
            places.push((joined.clone(), place));
        }
        let (deliveries, receiver) = mpsc::channel(DELIVERIES_MAX);
        let lost = Arc::new(AtomicBool::new(false));
        let follower = Follower {
            places,
            changes: Vec::new(),
            deliveries,
            lost: Arc::clone(&lost),
        };
        state.followers.insert(id, follower);
        Ok(Following {
            live: Arc::clone(self),
            id,
            deliveries: receiver,
            lost,
        })
    }

    /// Queries that are followed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state.lock().followers.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Matches a batch of changes. Those of a position beyond `through` wait: more of it may come.
    pub(crate) fn deliver(&self, batch: &Batch) {
        let mut state = self.state.lock();
        let State {
            engines,
            followers,
            pending,
            ..
        } = &mut *state;
        for event in &batch.events {
            let Some(engine) = engines.get_mut(&event.namespace) else {
                continue;
            };
            let mut note = |id: FollowerId, did: Did| {
                if let Some(follower) = followers.get_mut(&id) {
                    follower.note(event.position, did);
                    pending.insert(id);
                }
            };
            match &event.change {
                Change::Record { id, before, after } => {
                    engine.touched(id, before, after, &mut note)
                }
                Change::Collection => engine.each(&mut |id| note(id, Did::Unknown)),
            }
        }
        pending.retain(|id| {
            let follower = followers.get_mut(id);
            follower.is_some_and(|follower| !follower.flush(batch.through))
        });
        self.through.send_if_modified(|through| {
            let further = through.is_none_or(|through| through < batch.through);
            if further {
                *through = Some(batch.through);
            }
            further
        });
    }

    /// Changes were lost: all read again, once the feed delivers.
    pub(crate) fn lose(&self) {
        let mut state = self.state.lock();
        self.through.send_replace(None);
        state.pending.clear();
        for follower in state.followers.values_mut() {
            follower.changes.clear();
            follower.lose();
        }
    }

    fn forget(&self, id: FollowerId) {
        let mut state = self.state.lock();
        let Some(follower) = state.followers.remove(&id) else {
            return;
        };
        for (namespace, place) in follower.places {
            state.engine(&namespace).remove(place);
            state.clear(&namespace);
        }
    }
}

impl State {
    fn engine(&mut self, namespace: &Namespace) -> &mut Engine {
        self.engines.entry(namespace.clone()).or_default()
    }

    /// Drops an engine that nobody needs.
    fn clear(&mut self, namespace: &Namespace) {
        if self.engines.get(namespace).is_some_and(Engine::is_empty) {
            self.engines.remove(namespace);
        }
    }
}

impl Follower {
    fn note(&mut self, position: Position, did: Did) {
        if self.changes.len() < CHANGES_MAX {
            self.changes.push((position, did));
        } else {
            self.lose();
        }
    }

    /// Hands over what is complete. Whether that is all.
    fn flush(&mut self, through: Position) -> bool {
        let complete = self.changes.partition_point(|(at, _)| *at <= through);
        let mut delivery: Option<Delivery> = None;
        let complete: Vec<_> = self.changes.drain(..complete).collect();
        for (position, did) in complete {
            match &mut delivery {
                Some(delivery) if delivery.position == position => delivery.changes.push(did),
                _ => {
                    let next = Delivery {
                        position,
                        changes: vec![did],
                    };
                    let whole = delivery.replace(next);
                    whole.into_iter().for_each(|whole| self.send(whole));
                }
            }
        }
        delivery.into_iter().for_each(|last| self.send(last));
        self.changes.is_empty()
    }

    fn send(&self, delivery: Delivery) {
        if self.deliveries.try_send(delivery).is_err() {
            self.lost.store(true, Ordering::Release);
        }
    }

    fn lose(&mut self) {
        self.lost.store(true, Ordering::Release);
        // Wakes it up; if there is no room, it is not asleep.
        let _ = self.deliveries.try_send(Delivery {
            position: Position::ZERO,
            changes: Vec::new(),
        });
    }
}

impl Following {
    /// Where to read, at or after it: whatever comes later is delivered. Waits while the feed delivers nothing.
    pub async fn from(&self) -> Position {
        let mut through = self.live.through.subscribe();
        match through.wait_for(Option::is_some).await {
            Ok(position) => position.unwrap_or_default(),
            // The sender lives as long as this does.
            Err(_) => Position::ZERO,
        }
    }

    /// What happens next. Cancel safe.
    pub async fn next(&mut self) -> Next {
        if let Some(lost) = self.lost() {
            return lost;
        }
        let delivery = self.deliveries.recv().await;
        match (self.lost(), delivery) {
            (None, Some(delivery)) => Next::Delivery(delivery),
            _ => Next::Lost,
        }
    }

    fn lost(&mut self) -> Option<Next> {
        if !self.lost.swap(false, Ordering::AcqRel) {
            return None;
        }
        while self.deliveries.try_recv().is_ok() {}
        Some(Next::Lost)
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.live.forget(self.id);
    }
}

#[cfg(test)]
mod tests;
