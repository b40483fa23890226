//! A pipeline on a stage: a change feed that plays what it is given, caches that remember what was dropped.
#![allow(dead_code, unreachable_pub)] // each suite uses its part of it

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bson::{RawBson, RawDocumentBuf, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::freshness::{Lifetimes, SurrogateKey};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::sketch::machine::Limits;
use freshet_core::sketch::wire::{self, Header};
use freshet_core::time::{Clock, ManualClock, Position, Ttl};
use freshet_core::ttl::Policy;
use freshet_invalidation::ingest::port::{Batch, Source, SourceError, Watermark};
use freshet_invalidation::purge::ledger::Ledger;
use freshet_invalidation::purge::port::{PurgeError, Purger};
use freshet_invalidation::sketch::port::{Scope, SketchStore, Start};
use freshet_invalidation::sketch::{Entropy, LocalSketch};
use freshet_invalidation::{
    Answer, Images, NotCached, Parts, Pipeline, Resource, Revive, Settings, Ticket, Tier, Watch,
    Watched, Window,
};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

pub fn lives(m: u32, s: u32) -> Lifetimes {
    Lifetimes {
        m: Ttl(m),
        s: Ttl(s),
    }
}

/// A record `{_id: id, x}`.
pub fn state(id: i32, x: i32) -> Image {
    Image::Known(RawDocumentBuf::try_from(&doc! {"_id": id, "x": x}).expect("encodes"))
}

pub fn record(id: i32) -> Resource {
    Resource {
        namespace: namespace(),
        key: namespace().record_key(&format!("~{id}")),
        watched: Watched::Record,
        joins: Vec::new(),
        hinted: false,
    }
}

/// The records with x > 10.
pub fn query() -> Resource {
    let filter = RawDocumentBuf::try_from(&doc! {"x": {"$gt": 10}}).expect("encodes");
    let filter = Filter::parse(&filter).expect("a filter");
    Resource {
        namespace: namespace(),
        key: Key::from("/v1/d/c?filter=above10"),
        watched: Watched::Query(Watch::records(
            filter,
            Sort::default(),
            Projection::default(),
            false,
        )),
        joins: Vec::new(),
        hinted: false,
    }
}

pub struct Feed(mpsc::UnboundedReceiver<Result<Batch, SourceError>>);

#[async_trait]
impl Source for Feed {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        match self.0.recv().await {
            Some(next) => next,
            None => std::future::pending().await,
        }
    }
}

/// The gateway's tier.
#[derive(Default)]
pub struct DroppedTier {
    pub keys: Mutex<Vec<Key>>,
    pub collections: AtomicUsize,
    pub all: AtomicUsize,
}

impl Tier for DroppedTier {
    fn drop_keys(&self, keys: &[Key]) {
        self.keys.lock().extend_from_slice(keys);
    }

    fn drop_collection(&self, _namespace: &Namespace) {
        self.collections.fetch_add(1, Ordering::SeqCst);
    }

    fn drop_all(&self) {
        self.all.fetch_add(1, Ordering::SeqCst);
    }
}

/// A shared cache that remembers what it was told to drop, and can be out of order.
#[derive(Default)]
pub struct RecordingCache {
    pub purged: Mutex<Vec<SurrogateKey>>,
    pub down: AtomicBool,
}

#[async_trait]
impl Purger for RecordingCache {
    fn name(&self) -> &str {
        "recording"
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        if self.down.load(Ordering::SeqCst) {
            return Err(PurgeError::Refused(503));
        }
        self.purged.lock().extend_from_slice(keys);
        Ok(())
    }
}

impl RecordingCache {
    pub fn times(&self, key: SurrogateKey) -> usize {
        self.purged.lock().iter().filter(|one| **one == key).count()
    }
}

pub fn limits() -> Limits {
    Limits {
        keys_max: 10_000,
        changes_max: 10_000,
        collections_max: 10,
        retention_ms: 30_000,
        caps: lives(60, 600),
        transfer_ms: 0,
    }
}

pub struct Stage {
    pub pipeline: Pipeline,
    pub clock: Arc<ManualClock>,
    pub tier: Arc<DroppedTier>,
    pub cache: Arc<RecordingCache>,
    /// Where the feed was told to resume.
    pub resumed: Arc<Mutex<Option<Vec<u8>>>>,
    feed: mpsc::UnboundedSender<Result<Batch, SourceError>>,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Stage {
    /// In process, one shared cache, nothing issued before; live at position 1.
    pub async fn new() -> Stage {
        let stage = Stage::local(Start::First);
        stage.progress(1).await;
        stage
    }

    pub fn local(start: Start) -> Stage {
        let clock = Arc::new(ManualClock::at(1_000_000));
        let sketch = LocalSketch::new(clock.clone(), Entropy([5; 32]), limits());
        Stage::with(clock, Arc::new(sketch), start, None, None)
    }

    pub fn with(
        clock: Arc<ManualClock>,
        sketch: Arc<dyn SketchStore>,
        start: Start,
        revive: Option<Revive>,
        ledger: Option<Arc<dyn Ledger>>,
    ) -> Stage {
        let tier = Arc::new(DroppedTier::default());
        let cache = Arc::new(RecordingCache::default());
        let parts = Parts {
            clock: clock.clone(),
            sketch,
            purgers: vec![cache.clone()],
            ledger,
            tier: tier.clone(),
            revive,
        };
        let settings = Settings {
            policy: Policy {
                max_age_cap: Ttl(60),
                shared_max_age_cap: Ttl(600),
                ..Policy::default()
            },
            databases: vec!["d".to_owned()],
            retry_ms: (5, 20),
            snapshot_ms: 0,
            ..Settings::default()
        };
        let pipeline = Pipeline::new(parts, settings);
        pipeline.declare(&namespace(), Images::Both);
        let (feed, batches) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let resumed = Arc::new(Mutex::new(None));
        let (running, stopping, heard) = (pipeline.clone(), stop.clone(), resumed.clone());
        let connect = Box::new(move |resume| -> Box<dyn Source> {
            *heard.lock() = resume;
            Box::new(Feed(batches))
        });
        let running = tokio::spawn(async move { running.run(start, connect, stopping).await });
        Stage {
            pipeline,
            clock,
            tier,
            cache,
            resumed,
            feed,
            stop,
            running: Some(running),
        }
    }

    /// The process ends.
    pub async fn end(mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            running.await.expect("no panic");
        }
    }

    pub fn send(&self, next: Result<Batch, SourceError>) {
        self.feed.send(next).expect("the pipeline runs");
    }

    pub fn batch(&self, position: u64, events: Vec<ChangeEvent>) -> Batch {
        let position = Position(position);
        Batch {
            events,
            through: position,
            watermark: Some(Watermark {
                position,
                as_of: self.clock.now(),
            }),
            resume: Some(position.0.to_le_bytes().to_vec()),
        }
    }

    pub fn event(position: u64, id: i32, before: Image, after: Image) -> ChangeEvent {
        ChangeEvent {
            namespace: namespace(),
            position: Position(position),
            change: Change::Record {
                id: RawBson::Int32(id),
                before,
                after,
            },
        }
    }

    /// The database is idle at `position`.
    pub async fn progress(&self, position: u64) {
        self.send(Ok(self.batch(position, vec![])));
        self.reaches(position).await;
    }

    /// A change, with all its effects.
    pub async fn change(&self, position: u64, id: i32, before: Image, after: Image) {
        let event = Stage::event(position, id, before, after);
        self.send(Ok(self.batch(position, vec![event])));
        self.reaches(position).await;
    }

    pub async fn reaches(&self, position: u64) {
        self.until("the watermark moves", || {
            let status = self.pipeline.status();
            status.live && status.watermark >= Position(position)
        })
        .await;
    }

    /// Waits for a condition.
    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..5_000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!(
            "it never came about that {what}; {:?}",
            self.pipeline.status()
        );
    }

    pub async fn settle(
        &self,
        ticket: Ticket,
        position: u64,
        lifetimes: Lifetimes,
        members: &[Key],
    ) -> Result<(), NotCached> {
        let answer = Answer {
            position: Position(position),
            lifetimes,
            members,
            window: Window::default(),
            joined: Vec::new(),
        };
        self.pipeline.settle(ticket, answer).await
    }

    /// A read that goes well, at `position`.
    pub async fn read(
        &self,
        resource: Resource,
        position: u64,
        lifetimes: Lifetimes,
        members: &[Key],
    ) {
        let ticket = self.pipeline.begin(resource).expect("begins");
        self.settle(ticket, position, lifetimes, members)
            .await
            .expect("settles");
    }

    pub async fn header(&self) -> Header {
        let bytes = self
            .pipeline
            .sketch(Scope::Collections(vec![namespace()]))
            .await;
        wire::decode(&bytes).expect("a sketch").0
    }

    pub async fn contains(&self, resource: &Resource) -> bool {
        let bytes = self
            .pipeline
            .sketch(Scope::Collections(vec![namespace()]))
            .await;
        let (header, bits) = wire::decode(&bytes).expect("a sketch");
        wire::contains(&header, bits, resource.key.as_str())
    }
}
