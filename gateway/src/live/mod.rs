//! Live queries (`GET …/_live`): a query's answer and then what changes of it, as Server-Sent Events. Equal queries share
//! one keeper: one evaluation per write, one text per event, however many follow.
//!
//! Every event's `id` is a position: applied up to there, the events lead to exactly what the query would answer at that
//! position. Who comes back with `Last-Event-ID` gets what was missed, or the whole answer again; who is too slow is cut
//! off with `resync`.

mod channel;
mod frame;
mod keeper;
mod kept;
mod list;
mod value;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use freshet_core::key::Key;
use freshet_core::time::Position;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::keeper::{Joined, Joining};
use crate::app::App;
use crate::error::{Kind, Limit, Problem};
use crate::read::asked::Asked;
use crate::read::permit::permit;
use crate::respond::{self, Reply};
use crate::route::{Params, Route};
use crate::server::{Body, Connection, Streaming};

/// A stream that says nothing for so long says that it is alive.
const BEAT: Duration = Duration::from_secs(15);
/// Who join one query at the same moment.
const JOINING_MAX: usize = 1_024;
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// nginx would collect the stream until a buffer is full.
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The live queries of this gateway.
pub struct Lives {
    keepers: Mutex<HashMap<Key, mpsc::Sender<Joining>>>,
    queries_max: usize,
    followers: Arc<Semaphore>,
    followers_max: usize,
    closing: CancellationToken,
}

impl Lives {
    /// None yet.
    #[must_use]
    pub fn new(queries_max: usize, followers_max: usize) -> Lives {
        let followers_max = followers_max.min(Semaphore::MAX_PERMITS);
        Lives {
            keepers: Mutex::default(),
            queries_max,
            followers: Arc::new(Semaphore::new(followers_max)),
            followers_max,
            closing: CancellationToken::new(),
        }
    }

    /// Ends every stream; none begins any more.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Live queries and those who follow them.
    #[must_use]
    pub fn count(&self) -> (usize, usize) {
        let followed = self.followers_max - self.followers.available_permits();
        (self.keepers.lock().len(), followed)
    }
}

/// Answers with a stream.
///
/// # Errors
/// As for a read; 400 where the query cannot be live, 503 where there are too many or changes do not come in.
pub async fn open(
    app: &Arc<App>,
    route: Route,
    params: &Params,
    headers: &HeaderMap,
    connection: &Arc<Connection>,
) -> Result<Reply, Problem> {
    let asked = permit(app, route, params, headers).await?.asked;
    let lives = &app.lives;
    if lives.closing.is_cancelled() {
        return Err(Problem::new(Kind::Unavailable, "this server is stopping"));
    }
    let permit = Arc::clone(&lives.followers)
        .try_acquire_owned()
        .map_err(|_| too_many("too many live queries are followed", Limit::Followers))?;
    let last = headers.get(LAST_EVENT_ID);
    let last = last.and_then(|last| last.to_str().ok()?.parse().ok().map(Position));
    let Joined { first, events } = join(app, asked, last).await?;
    let stream = Stream {
        first: std::iter::once(frame::HELLO).chain(first).collect(),
        events,
        closing: lives.closing.clone(),
        ended: false,
        _permit: permit,
        _streaming: connection.streams(),
    };
    let mut headers = respond::private(Some(EVENT_STREAM));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    let body = Body::stream(stream::unfold(stream, Stream::next));
    Ok(respond::reply(StatusCode::OK, headers, body))
}

/// Joins those who follow the same query, or is the first.
async fn join(app: &Arc<App>, asked: Asked, last: Option<Position>) -> Result<Joined, Problem> {
    let key = asked.key();
    // A keeper may just end: then another one begins.
    for _ in 0..3 {
        let keeper = keeper(app, &key, &asked)?;
        let (reply, joined) = oneshot::channel();
        if keeper.send(Joining { last, reply }).await.is_ok()
            && let Ok(joined) = joined.await
        {
            return joined;
        }
    }
    Err(Problem::new(
        Kind::Unavailable,
        "the query cannot be followed now",
    ))
}

fn keeper(app: &Arc<App>, key: &Key, asked: &Asked) -> Result<mpsc::Sender<Joining>, Problem> {
    let lives = &app.lives;
    let mut keepers = lives.keepers.lock();
    if let Some(keeper) = keepers.get(key)
        && !keeper.is_closed()
    {
        return Ok(keeper.clone());
    }
    if keepers.len() >= lives.queries_max {
        let detail = "too many different queries are live";
        return Err(too_many(detail, Limit::LiveQueries));
    }
    let (sender, joining) = mpsc::channel(JOINING_MAX);
    keepers.insert(key.clone(), sender.clone());
    let (app, key, asked) = (Arc::clone(app), key.clone(), asked.clone());
    let ours = sender.clone();
    tokio::spawn(async move {
        let closing = app.lives.closing.clone();
        keeper::keep(Arc::clone(&app), asked, joining, closing).await;
        let mut keepers = app.lives.keepers.lock();
        if keepers.get(&key).is_some_and(|one| one.same_channel(&ours)) {
            keepers.remove(&key);
        }
    });
    Ok(sender)
}

fn too_many(detail: &'static str, limit: Limit) -> Problem {
    Problem::new(Kind::Unavailable, detail).of_limit(limit)
}

/// One follower's stream.
struct Stream {
    first: VecDeque<Bytes>,
    events: broadcast::Receiver<Bytes>,
    closing: CancellationToken,
    ended: bool,
    _permit: OwnedSemaphorePermit,
    _streaming: Streaming,
}

impl Stream {
    async fn next(mut self) -> Option<(Bytes, Stream)> {
        if self.ended {
            return None;
        }
        if let Some(first) = self.first.pop_front() {
            return Some((first, self));
        }
        let event = tokio::select! {
            event = self.events.recv() => match event {
                Ok(event) => event,
                Err(RecvError::Lagged(_)) => {
                    self.ended = true;
                    // With an id that nothing is kept for: whoever comes back begins with the whole answer.
                    frame::resync(Position::ZERO, "too-slow")
                }
                Err(RecvError::Closed) => return None,
            },
            () = tokio::time::sleep(BEAT) => frame::BEAT,
            () = self.closing.cancelled() => return None,
        };
        Some((event, self))
    }
}
