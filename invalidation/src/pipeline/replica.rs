//! A gateway over the grid: it matches nothing and purges nothing itself. It has its queries matched by cells, follows
//! how far they all are, and drops from its tier what they tell it changed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use freshet_core::key::Key;
use freshet_core::time::{Moment, Position};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::feed::until;
use super::types::Answer;
use super::{Connect, Inner, NotCached, Ticket};
use crate::ingest::port::{SourceError, Watermark};
use crate::partition::streams::{ENTRIES_AT_ONCE_MAX, From, Line, Reader, StreamError};
use crate::partition::{Client, Heard, Notice, Request, Verdict};
use crate::registry::Resource;
use crate::sketch::port::{Scope, SketchError};

/// How often it is asked how far the cells are, milliseconds.
const LOOK_MS: u64 = 100;

/// What was known of the grid when a ticket was given.
#[derive(Clone, Debug)]
pub(super) struct Known {
    /// The resource's own row.
    row: u32,
    /// Of all rows: an answer may show records of any.
    generations: Vec<Option<u64>>,
    /// Everything up to there was heard of.
    through: Position,
}

/// Runs until `stop`.
pub(super) async fn run(
    inner: &Arc<Inner>,
    client: &Arc<Client>,
    connect: Connect,
    stop: CancellationToken,
) {
    let mut tasks = JoinSet::new();
    let (following, listening, living) = (Arc::clone(inner), Arc::clone(client), Arc::clone(inner));
    let of = Arc::clone(client);
    tasks.spawn(until(stop.clone(), async move {
        following.follow(&of).await;
    }));
    tasks.spawn(until(stop.clone(), async move { listening.listen().await }));
    tasks.spawn(until(stop, async move { living.feed_live(connect).await }));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            error!(%error, "a part of the pipeline failed");
        }
    }
    info!("the pipeline stopped");
}

/// Why it is not known how far the cells are.
#[derive(Debug, thiserror::Error)]
enum Unknown {
    #[error(transparent)]
    Sketch(#[from] SketchError),
    #[error(transparent)]
    Streams(#[from] StreamError),
    #[error("no cell has reported yet")]
    NoCell,
}

impl Inner {
    /// What is known of the grid now; `None`: there is none.
    ///
    /// # Errors
    /// [`NotCached::MatcherBehind`]: cells of the resource's row are down.
    pub(super) fn known(&self, resource: &Resource) -> Result<Option<Known>, NotCached> {
        let Some(client) = self.client() else {
            return Ok(None);
        };
        let row = client.shape().row_of(resource);
        let generations = client.generations();
        if generations.get(row as usize).copied().flatten().is_none() {
            return Err(NotCached::MatcherBehind);
        }
        let through = self.state.lock().position();
        Ok(Some(Known {
            row,
            generations,
            through,
        }))
    }

    /// C1: the cells of the row match the answer from its position on.
    pub(super) async fn register(
        &self,
        known: &Known,
        ticket: &Ticket,
        answer: &Answer<'_>,
    ) -> Result<(), NotCached> {
        let resource = &ticket.resource;
        let Some(client) = self.client().filter(|_| resource.needs_place()) else {
            return Ok(());
        };
        let images = self.registry.lock().images(&resource.namespace);
        let request = Request {
            id: 0,
            gateway: "".into(),
            namespace: resource.namespace.clone(),
            key: resource.key.clone(),
            epoch: ticket.epoch,
            position: answer.position,
            span_ms: answer.lifetimes.span_ms(),
            images,
            known: known.through,
            members: Some(answer.members.to_vec()),
            window: answer.window.clone(),
            joined: answer.joined.clone(),
        };
        match client.ask(known.row, request).await {
            Ok(Verdict::Active) => Ok(()),
            Ok(Verdict::Changed) => Err(NotCached::InvalidatedMeanwhile),
            Ok(Verdict::Late) => Err(NotCached::ReadTooEarly),
            Ok(Verdict::Full) => Err(NotCached::Capacity),
            Ok(Verdict::Quota) => Err(NotCached::Quota),
            Ok(Verdict::Retiring) => Err(NotCached::Outweighed),
            Ok(Verdict::Undecidable) => Err(NotCached::Undecidable),
            Err(_) => Err(NotCached::MatcherBehind),
        }
    }

    /// After the sketch knows the copies: had the row of one been lost before that, nobody would have made it stale. The
    /// records that an answer shows are copies of their own, and of other rows.
    pub(super) async fn confirm_rows(
        &self,
        known: &Known,
        embedded: &[Key],
    ) -> Result<(), NotCached> {
        let Some(client) = self.client() else {
            return Ok(());
        };
        let of_records = embedded.iter().map(|key| client.shape().row_of_key(key));
        let rows: BTreeSet<u32> = of_records.chain([known.row]).collect();
        for row in rows {
            let generation = known.generations.get(row as usize).copied().flatten();
            let generation = generation.ok_or(NotCached::MatcherBehind)?;
            match client.is_of(row, generation).await {
                Ok(true) => {}
                Ok(false) => return Err(NotCached::InvalidatedMeanwhile),
                Err(_) => return Err(NotCached::MatcherBehind),
            }
        }
        Ok(())
    }

    /// Follows how far the cells are, for ever.
    async fn follow(&self, client: &Client) {
        let (mut heard, mut reader, mut failing) = (Heard::default(), None, false);
        loop {
            let followed = self.follow_once(client, &mut heard, &mut reader).await;
            match followed {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        warn!(%error, "it is not known how far the cells are");
                    }
                    failing = true;
                    self.state.lock().sketch = false;
                    tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
                }
            }
        }
    }

    /// First how far the cells are, then what they told until then, and only then it counts: the tier has dropped what
    /// changed up to there.
    async fn follow_once(
        &self,
        client: &Client,
        heard: &mut Heard,
        reader: &mut Option<Box<dyn Reader>>,
    ) -> Result<(), Unknown> {
        let asked = self.clock.now();
        client.look().await?;
        let reader = match reader {
            Some(reader) => reader,
            None => {
                self.forget_all();
                let new = client.streams().read(&Line::Notices, From::Now).await?;
                reader.insert(new)
            }
        };
        let nothing = Scope::Collections(Vec::new());
        let snapshot = self.sketch.snapshot(&nothing).await?;
        client.learn(snapshot.members);
        let report = snapshot.report.ok_or(Unknown::NoCell)?;
        // Until there were no more, and not until none comes any more: under load that would be never.
        while self.take_notices(heard, reader, 0).await? == ENTRIES_AT_ONCE_MAX {}
        let is_new = {
            let mut state = self.state.lock();
            let is_new = state.epoch.map(|epoch| epoch.number) != Some(snapshot.epoch.number);
            state.epoch = Some(snapshot.epoch);
            (state.sketch, state.feed) = (true, true);
            state.saturated = snapshot.saturated;
            state.purge_ms = report.invalidation_ms;
            state.watermark = Some(Watermark {
                position: report.watermark,
                as_of: Moment(asked.0.saturating_sub(report.age_ms)),
            });
            is_new
        };
        if is_new {
            self.snapshots.clear();
            self.metrics.epoch(snapshot.epoch.number);
            self.forget_all();
        }
        self.observe(report.watermark);
        self.take_notices(heard, reader, LOOK_MS).await?;
        Ok(())
    }

    /// How many there were.
    async fn take_notices(
        &self,
        heard: &mut Heard,
        reader: &mut Box<dyn Reader>,
        wait_ms: u64,
    ) -> Result<usize, StreamError> {
        let entries = reader.next(wait_ms).await?;
        for entry in &entries {
            match Notice::read(&entry.body) {
                Ok(notice) if heard.hear(&notice) && !notice.everything => self.take(&notice),
                _ => self.forget_all(),
            }
        }
        Ok(entries.len())
    }

    fn take(&self, notice: &Notice) {
        let now = self.clock.now();
        for changed in &notice.changed {
            self.tier.drop_keys(&changed.records);
            self.tier.drop_keys(&changed.queries);
            if changed.whole {
                self.tier.drop_collection(&changed.namespace);
                self.registry.lock().reshape();
            }
            let policy = self.settings.policy(&changed.namespace);
            let mut estimator = self.estimator.lock();
            for record in &changed.records {
                estimator.written(&changed.namespace, record, now);
            }
            for query in &changed.queries {
                estimator.invalidated(policy, query, now);
            }
        }
    }

    /// What is not known to be unchanged is dropped.
    fn forget_all(&self) {
        self.tier.drop_all();
        self.registry.lock().reshape();
    }

    /// Live queries are followed here: what they need of every change no cell has.
    async fn feed_live(&self, connect: Connect) {
        let mut source = connect(None);
        let mut failures = 0;
        loop {
            match source.next().await {
                Ok(batch) => {
                    failures = 0;
                    self.live.deliver(&batch);
                }
                Err(SourceError::Unavailable(_)) => {
                    failures += 1;
                    self.pause(failures).await;
                }
                Err(SourceError::Gap(why) | SourceError::Missed(why)) => {
                    warn!(why, "changes were lost: live queries begin anew");
                    self.live.lose();
                }
            }
        }
    }
}
