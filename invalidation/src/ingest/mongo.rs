//! MongoDB as a source of changes: one change stream over the whole deployment.
//!
//! The stream is read batch by batch, as raw replies, and not through the driver's own change stream: every
//! reply's post-batch resume token is then at hand, which is what the watermark rests on (C6), and nothing is
//! resumed behind our back. What the stream cannot deliver is a gap, never a silence (C8).
//!
//! **Watermark.** At local time s the primary is asked for its operation time P. P counts writes that are
//! acknowledged with `w: 1` and not yet majority-committed, so once the stream has passed P, nothing that was
//! acknowledged by s is missing. No write is needed for it, and no clock but the local monotonic one.

mod event;
mod fragments;
mod lookup;
mod open;
mod token;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bson::{RawDocument, RawDocumentBuf, doc};
use freshet_core::change::ChangeEvent;
use freshet_core::time::{Clock, Moment, Position};
use futures_util::StreamExt;
use mongodb::Client;
use mongodb::error::{Error, ErrorKind};
use mongodb::raw_batch_cursor::{RawBatch, RawBatchCursor};

use super::port::{Batch, Source, SourceError, Watermark};
use event::Parsed;
use fragments::Fragments;
use open::{Features, Start};

/// How long the server holds an empty reply back (`maxAwaitTimeMS`). An empty reply moves the watermark.
const AWAIT_MS: u64 = 100;
/// How long [`Source::next`] waits for a reply before it answers without one.
const REPLY_WAIT_MS_MAX: u64 = 200;
/// How often the primary is asked for its operation time, at most.
const PROBE_INTERVAL_MS: u64 = 50;
/// A stream that says nothing for this long is taken to be dead.
const SILENCE_MS_MAX: u64 = 30_000;
/// Events in a reply at most.
const BATCH_EVENTS_MAX: u32 = 500;

/// The source. One per process.
pub struct MongoSource {
    client: Client,
    clock: Arc<dyn Clock>,
    start: Start,
    features: Option<Features>,
    cursor: Option<RawBatchCursor>,
    fragments: Fragments,
    /// A reply that was received but not yet answered: parsing it may have to look records up.
    received: Option<RawBatch>,
    /// An operation time that the primary had at a moment, which the stream has not reached yet.
    probe: Option<Watermark>,
    probed: Option<Moment>,
    heard: Moment,
    through: Position,
    /// Where a source without a token began. `startAtOperationTime` repeats the change at that very time.
    floor: Position,
    /// The token of the last whole event or empty reply.
    token: Option<RawDocumentBuf>,
}

impl MongoSource {
    /// A source that resumes after `resume` (a [`Batch::resume`] of an earlier one), or else begins now.
    #[must_use]
    pub fn new(client: Client, clock: Arc<dyn Clock>, resume: Option<Vec<u8>>) -> MongoSource {
        // What is no document cannot be resumed from; the server would say so with a gap.
        let start = match resume.map(RawDocumentBuf::from_bytes) {
            None => Start::Now,
            Some(Ok(token)) => Start::After(token),
            Some(Err(_)) => Start::Lost,
        };
        MongoSource {
            heard: clock.now(),
            client,
            clock,
            start,
            features: None,
            cursor: None,
            fragments: Fragments::default(),
            received: None,
            probe: None,
            probed: None,
            through: Position::ZERO,
            floor: Position::ZERO,
            token: None,
        }
    }

    /// Opens the stream. The answer says from where it delivers.
    async fn open(&mut self) -> Result<Batch, SourceError> {
        if matches!(self.start, Start::Lost) {
            self.start = Start::Now;
            return Err(SourceError::Gap("the resume token is damaged".to_owned()));
        }
        let features = match self.features {
            Some(features) => features,
            None => open::features(&self.client).await.map_err(unavailable)?,
        };
        self.features = Some(features);
        if matches!(self.start, Start::Now) {
            let now = open::operation_time(&self.client)
                .await
                .map_err(unavailable)?;
            self.through = now;
            self.floor = now;
            self.start = Start::At(now);
        }
        let opened = open::stream(&self.client, features, &self.start).await;
        self.fragments.clear();
        self.probe = None;
        self.heard = self.clock.now();
        match opened {
            Ok(cursor) => {
                self.cursor = Some(cursor);
                Ok(self.batch(Vec::new(), None))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Notes the primary's operation time, unless one is being waited for or was asked for just now.
    async fn probe(&mut self) {
        let now = self.clock.now();
        let recent = self
            .probed
            .is_some_and(|at| now.since(at) < PROBE_INTERVAL_MS);
        if self.probe.is_some() || recent {
            return;
        }
        let asked = open::operation_time(&self.client);
        let limit = Duration::from_millis(REPLY_WAIT_MS_MAX);
        if let Ok(Ok(position)) = tokio::time::timeout(limit, asked).await {
            self.probed = Some(now);
            self.probe = Some(Watermark {
                position,
                as_of: now,
            });
        }
    }

    /// The next reply; `None` when there is none yet. The cursor keeps a request that is on its way, so a
    /// dropped call loses nothing.
    async fn receive(&mut self) -> Result<bool, SourceError> {
        let Some(cursor) = self.cursor.as_mut() else {
            return Ok(false);
        };
        let limit = Duration::from_millis(REPLY_WAIT_MS_MAX);
        match tokio::time::timeout(limit, cursor.next()).await {
            Ok(Some(Ok(reply))) => {
                self.received = Some(reply);
                self.heard = self.clock.now();
                Ok(true)
            }
            Ok(Some(Err(error))) => Err(self.failed(&error)),
            Ok(None) => {
                self.reopen();
                Err(SourceError::Unavailable(
                    "the server closed the change stream".to_owned(),
                ))
            }
            Err(_) if self.clock.now().since(self.heard) > SILENCE_MS_MAX => {
                self.reopen();
                Err(SourceError::Unavailable(format!(
                    "the change stream was silent for {SILENCE_MS_MAX} ms"
                )))
            }
            Err(_) => Ok(false),
        }
    }

    /// Turns the received reply into events. It stays at hand until that has succeeded.
    async fn digest(&mut self, reply: RawBatch) -> Result<Batch, SourceError> {
        let mut fragments = self.fragments.clone();
        let (mut events, read) = match parse(&reply, &mut fragments) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.received = None;
                return Err(self.failed(&error));
            }
        };
        lookup::fill(&self.client, &mut events)
            .await
            .map_err(unavailable)?;
        self.received = None;
        self.fragments = fragments;
        if let Some(token) = read.whole_through {
            self.start = Start::After(token.clone());
            self.token = Some(token);
        }
        let floor = self.floor;
        let events = events
            .into_iter()
            .map(|event| event.change)
            .filter(|change| change.position > floor)
            .collect();
        Ok(self.batch(events, read.reached))
    }

    fn batch(&mut self, events: Vec<ChangeEvent>, reached: Option<Position>) -> Batch {
        self.through = self.through.max(reached.unwrap_or_default());
        let watermark = self.probe.take_if(|probe| probe.position <= self.through);
        Batch {
            events,
            through: self.through,
            watermark,
            resume: self.token.as_ref().map(|token| token.as_bytes().to_vec()),
        }
    }

    /// Closes the stream after an error, and says whether changes were lost.
    fn failed(&mut self, error: &Error) -> SourceError {
        self.reopen();
        if is_gap(error) {
            self.start = Start::Now;
            self.token = None;
            SourceError::Gap(error.to_string())
        } else {
            SourceError::Unavailable(error.to_string())
        }
    }

    fn reopen(&mut self) {
        self.cursor = None;
        self.received = None;
    }
}

#[async_trait]
impl Source for MongoSource {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        if self.cursor.is_none() {
            return self.open().await;
        }
        if self.received.is_none() {
            self.probe().await;
            if !self.receive().await? {
                return Ok(self.batch(Vec::new(), None));
            }
        }
        match self.received.clone() {
            Some(reply) => self.digest(reply).await,
            None => Ok(self.batch(Vec::new(), None)),
        }
    }
}

/// How far a reply reaches.
struct ReadThrough {
    /// Everything at or before it has been delivered.
    reached: Option<Position>,
    /// Where to resume without missing anything.
    whole_through: Option<RawDocumentBuf>,
}

/// Reads a reply. `fragments` carries the parts of a large event from one reply to the next.
fn parse(reply: &RawBatch, fragments: &mut Fragments) -> Result<(Vec<Parsed>, ReadThrough), Error> {
    let mut events = Vec::new();
    let mut last = None;
    let mut whole_through = None;
    for document in reply.doc_slices()? {
        let bson::RawBsonRef::Document(document) = document? else {
            continue;
        };
        let token = document.get_document("_id")?;
        last = Some(token);
        let Some(event) = fragments.complete(document)? else {
            continue;
        };
        whole_through = Some(token.to_owned());
        events.extend(event::parse(&event)?);
    }
    let cursor = reply.as_raw_document().get_document("cursor")?;
    let post_batch = cursor.get_document("postBatchResumeToken").ok();
    let reached = post_batch.and_then(|token| reached(token, last));
    if fragments.is_empty()
        && let Some(token) = post_batch
    {
        whole_through = Some(token.to_owned());
    }
    Ok((
        events,
        ReadThrough {
            reached,
            whole_through,
        },
    ))
}

/// The position up to which a reply with this post-batch token is complete. A token that is the last event's
/// own may be followed by more events of the same transaction, which share its time.
fn reached(post_batch: &RawDocument, last: Option<&RawDocument>) -> Option<Position> {
    let position = token::position(post_batch)?;
    match last {
        Some(last) if last.as_bytes() == post_batch.as_bytes() => {
            Some(Position(position.0.saturating_sub(1)))
        }
        _ => Some(position),
    }
}

fn unavailable(error: Error) -> SourceError {
    SourceError::Unavailable(error.to_string())
}

/// Whether the stream can never go on from where it was: history lost (286, 280, 40576), a token that is no
/// token (260, 50811), an event that fits no reply (10334), or whatever the server labels so.
fn is_gap(error: &Error) -> bool {
    let code = match &*error.kind {
        ErrorKind::Command(command) => command.code,
        _ => 0,
    };
    matches!(
        code,
        286 | 280 | 40576 | 40647 | 40649 | 260 | 50811 | 10334 | 9
    ) || error.contains_label("NonResumableChangeStreamError")
}

/// The command that asks for the operation time, in one place for the two that need it.
fn ping() -> bson::Document {
    doc! { "ping": 1 }
}
