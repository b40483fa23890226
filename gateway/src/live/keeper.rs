//! Keeps the answer of one live query for all who follow it: reads it, lets changes in, and tells what they come to.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_core::name::Namespace;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::NotCached;
use freshet_invalidation::live::{Following, Next, NotFollowed, Question};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::channel::Channel;
use super::frame;
use super::kept::{Events, Kept, Told};
use crate::app::App;
use crate::error::{Kind, Problem};
use crate::read::asked::Asked;
use crate::store::Images;

/// Between two reads of one query, in milliseconds at least.
const READ_INTERVAL_MS_MIN: u64 = 100;
/// Until a read that failed is tried again, in milliseconds.
const RETRY_MS: u64 = 1_000;
/// How long an answer that nobody follows is kept for those who come back.
const LINGER_MS: u64 = 30_000;
/// How often that is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// Someone who wants to follow.
pub(super) struct Joining {
    /// The position of the last event that was received.
    pub(super) last: Option<Position>,
    /// Where the answer goes.
    pub(super) reply: oneshot::Sender<Result<Joined, Problem>>,
}

/// What a follower begins with, and what comes then.
pub(super) struct Joined {
    /// The whole answer, or what was missed.
    pub(super) first: Vec<Bytes>,
    /// The events from then on.
    pub(super) events: broadcast::Receiver<Bytes>,
}

/// The keeper.
struct Keeper<'a> {
    app: &'a App,
    /// What the answer is read from, as it was found in this shape.
    collections: Vec<Namespace>,
    shape: u64,
    following: Following,
    kept: Kept,
    channel: Channel,
    /// The answer has to be read, not before then.
    read_at: Option<Moment>,
    /// Changes up to there were seen: a read is made at or after it.
    seen: Position,
    last_read: Moment,
    /// Followers were told so: what is read next is a new beginning.
    begins_again: bool,
    /// The database refuses the query as the data is now.
    refused: bool,
}

/// Keeps an answer until nobody follows it any more.
pub(super) async fn keep(
    app: Arc<App>,
    asked: Asked,
    mut joining: mpsc::Receiver<Joining>,
    closing: CancellationToken,
) {
    let mut keeper = match Keeper::begin(&app, asked).await {
        Ok(keeper) => keeper,
        Err(problem) => return refuse(joining, &problem),
    };
    tokio::select! {
        () = keeper.run(&mut joining) => {}
        () = closing.cancelled() => {}
    }
}

fn refuse(mut joining: mpsc::Receiver<Joining>, problem: &Problem) {
    joining.close();
    while let Ok(one) = joining.try_recv() {
        let _ = one.reply.send(Err(problem.clone()));
    }
}

impl<'a> Keeper<'a> {
    async fn begin(app: &'a App, asked: Asked) -> Result<Keeper<'a>, Problem> {
        let own = std::iter::once(asked.namespace().clone());
        let collections: Vec<Namespace> = own.chain(asked.joined()).collect();
        let shape = app.pipeline.shape();
        check(app, &collections).await?;
        if let Some(operator) = asked.database_only() {
            return Err(refused(operator));
        }
        let (namespace, joined) = (asked.namespace().clone(), asked.joined());
        let mut kept = Kept::of(asked)?;
        let question = Question {
            namespace,
            watch: kept.watch(),
            joined,
        };
        let following = app
            .pipeline
            .live()
            .follow(&question)
            .map_err(|no| match no {
                NotFollowed::Undecidable(why) => refused(&why.to_string()),
                NotFollowed::NotRunning => {
                    Problem::new(Kind::Unavailable, "changes do not come in now")
                }
            })?;
        let now = app.clock.now();
        let read = in_time(app, kept.read(app, following.from().await, now)).await?;
        Ok(Keeper {
            app,
            collections,
            shape,
            following,
            kept,
            channel: Channel::new(read.position),
            read_at: None,
            seen: read.position,
            last_read: now,
            begins_again: false,
            refused: false,
        })
    }

    async fn run(&mut self, joining: &mut mpsc::Receiver<Joining>) {
        let mut look = tokio::time::interval(LOOK);
        let mut followed = self.app.clock.now();
        while !self.refused {
            tokio::select! {
                one = joining.recv() => match one {
                    Some(one) => self.join(one),
                    None => return,
                },
                next = self.following.next() => self.take_in(next).await,
                () = until(self.app, self.read_at) => self.read().await,
                _ = look.tick() => {
                    let now = self.app.clock.now();
                    if self.channel.listeners() > 0 {
                        followed = now;
                    } else if now.since(followed) >= LINGER_MS {
                        return;
                    }
                }
            }
        }
    }

    fn join(&self, Joining { last, reply }: Joining) {
        // What was cut off begins again: its last id is zero.
        let last = last.filter(|last| *last > Position::ZERO);
        let missed = last.and_then(|last| self.channel.missed(last));
        let first = match missed {
            Some(missed) => Ok(missed),
            None => self.result().map(|result| vec![result]),
        };
        // Between the two lines nothing is sent: this is the only one who does.
        let events = self.channel.subscribe();
        let _ = reply.send(first.map(|first| Joined { first, events }));
    }

    fn result(&self) -> Result<Bytes, Problem> {
        let result = self.kept.result()?;
        Ok(frame::event("result", self.channel.position(), &result))
    }

    async fn take_in(&mut self, next: Next) {
        let delivery = match next {
            Next::Delivery(delivery) => delivery,
            Next::Lost => {
                self.seen = self.seen.max(self.following.from().await);
                self.break_off("changes-lost");
                return self.read().await;
            }
        };
        // Of what a read has seen, or what comes a second time.
        if delivery.position <= self.seen {
            return;
        }
        self.seen = delivery.position;
        if self.read_at.is_some() {
            return;
        }
        match self.kept.apply(&delivery.changes) {
            Ok(Told::Events(events)) => self.send(delivery.position, &events),
            Ok(Told::Read(not_before)) => self.read_not_before(not_before),
            Err(problem) => self.failed(&problem),
        }
    }

    fn read_not_before(&mut self, moment: Moment) {
        let earliest = self.last_read.after_ms(READ_INTERVAL_MS_MIN);
        self.read_at = Some(moment.max(earliest));
    }

    /// Reads what changes alone do not tell. Events lead on from what was shown, unless changes were lost.
    async fn read(&mut self) {
        let now = self.app.clock.now();
        self.last_read = now;
        if let Err(problem) = self.check_again().await {
            return self.failed(&problem);
        }
        match in_time(self.app, self.kept.read(self.app, self.seen, now)).await {
            Ok(read) => {
                self.read_at = None;
                self.seen = self.seen.max(read.position);
                match std::mem::take(&mut self.begins_again) {
                    true => self.begin_again(read.position),
                    false => self.send(read.position, &read.events),
                }
            }
            Err(problem) => self.failed(&problem),
        }
    }

    /// A collection may have come back as something that is not watched (C14).
    async fn check_again(&mut self) -> Result<(), Problem> {
        let shape = self.app.pipeline.shape();
        if shape != self.shape {
            check(self.app, &self.collections).await?;
            self.shape = shape;
        }
        Ok(())
    }

    fn send(&mut self, position: Position, events: &Events) {
        let events = events.iter();
        let events = events.map(|(name, data)| frame::event(name, position, data));
        self.channel.send(position, events);
    }

    fn begin_again(&mut self, position: Position) {
        match self.kept.result() {
            Ok(result) => {
                let result = frame::event("result", position, &result);
                self.channel.send(position, [result]);
            }
            Err(problem) => self.failed(&problem),
        }
    }

    /// What is shown may be stale from now on: followers are told, once. A query that is refused ends, and whoever comes
    /// back hears why.
    fn failed(&mut self, problem: &Problem) {
        self.refused = problem.kind == Kind::Malformed;
        self.read_at = Some(self.app.clock.now().after_ms(RETRY_MS));
        if self.begins_again && !self.refused {
            return;
        }
        let internal = problem.internal.as_deref().unwrap_or("");
        tracing::warn!(detail = %problem.detail, internal, "a live query cannot be read");
        self.break_off(match self.refused {
            true => "refused",
            false => "unavailable",
        });
    }

    /// What was shown is not continued: what is read next is a new beginning.
    fn break_off(&mut self, reason: &str) {
        self.begins_again = true;
        let position = self.channel.position();
        let resync = frame::resync(position, reason);
        self.channel.send(position, [resync]);
    }
}

/// The feed tells all that reads of these collections show. What is not there yet may come up.
async fn check(app: &App, collections: &[Namespace]) -> Result<(), Problem> {
    for namespace in collections {
        if let Images::NotWatched = app.store.ensure_images(namespace).await? {
            return Err(refused(NotCached::Undecidable.word()));
        }
    }
    Ok(())
}

async fn until(app: &App, at: Option<Moment>) {
    match at {
        Some(at) => {
            let wait = at.since(app.clock.now());
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        None => std::future::pending().await,
    }
}

async fn in_time<T>(
    app: &App,
    read: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let late = || Problem::new(Kind::Unavailable, "the database did not answer in time");
    let reading = async {
        let _permit = app.reads.acquire().await.map_err(|_| late())?;
        read.await
    };
    let limit = app.settings.limits.read_timeout;
    tokio::time::timeout(limit, reading)
        .await
        .map_err(|_| late())?
}

fn refused(why: &str) -> Problem {
    Problem::malformed(format!("this query cannot be live: {why}"))
}
