//! The pipeline under load: the queries, the writers, the listener, and those who read again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use bson::{Document, RawDocumentBuf, doc, rawdoc};
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{Filter, Query};
use freshet_core::sketch::machine::Limits;
use freshet_core::time::{Clock, Ttl};
use freshet_fixture::{Mongo, Redis, Varnish};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::purge::VarnishSettings;
use freshet_invalidation::purge::ledger::{RedisLedger, RedisLedgerSettings};
use freshet_invalidation::sketch::port::Start;
use freshet_invalidation::sketch::{Entropy, RedisSettings, RedisSketch};
use freshet_invalidation::{
    Answer, Images, Parts, Pipeline, RedisServer, Resource, Settings, Watch, Watched, Window,
};
use futures_util::StreamExt;
use mongodb::options::{
    Acknowledgment, ChangeStreamPreAndPostImages, CollectionOptions, WriteConcern,
};
use mongodb::{Client, Collection};
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::LAG_S;
use super::edge::{Backend, Reader};
use super::rounds::{Number, Rounds};
use super::watched::{NoTier, WatchedEdge, WatchedSketch};
use crate::monotonic::Monotonic;

/// Writes under way at most: the writers' connections.
const WRITES_IN_FLIGHT_MAX: usize = 128;
/// Those who read again.
const READERS: usize = 16;
const LIVES: Lifetimes = Lifetimes {
    m: Ttl(60),
    s: Ttl(600),
};

/// Everything that runs.
pub(super) struct Load {
    pub(super) rounds: Arc<Rounds>,
    /// Answers of Varnish from before a purge.
    pub(super) stale: AtomicU64,
    /// Copies found in Varnish.
    pub(super) hits: AtomicU64,
    pipeline: Pipeline,
    queries: Vec<Query>,
    backend: Arc<Backend>,
    reader: Reader,
    records: Collection<RawDocumentBuf>,
    /// Queries whose copies are fresh.
    armed: Mutex<mpsc::UnboundedReceiver<Number>>,
    arm: mpsc::UnboundedSender<Number>,
    stop: CancellationToken,
    _varnish: Varnish,
}

/// How one rate went.
#[derive(Serialize)]
pub(super) struct Step {
    pub(super) wanted_per_s: f64,
    pub(super) writes_per_s: f64,
    /// Writes at the end that the sketch had not heard of.
    pub(super) behind: usize,
    pub(super) kept_up: bool,
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Load {
    /// Starts the pipeline, and has every query answered twice: the second answer is Varnish's.
    pub(super) async fn start(
        mongo: &Mongo,
        redis: &Redis,
        queries: u32,
    ) -> anyhow::Result<Arc<Load>> {
        let clock = Arc::new(Monotonic::start());
        let queries: Vec<Query> = (0..queries).map(query).collect();
        let keys: Vec<Key> = queries.iter().map(Query::key).collect();
        let backend = Arc::new(Backend::new(&keys));
        let varnish = freshet_fixture::Parts::varnish(&[backend.serve().await?], None).await?;
        let records = fill(mongo, queries.len()).await?;
        let (done, again) = mpsc::unbounded_channel();
        let rounds = Arc::new(Rounds::new(Arc::clone(&clock), &keys, done)?);
        let stop = CancellationToken::new();
        let pipeline = pipeline(mongo, redis, &varnish, &rounds, &clock, &stop).await?;
        listen(mongo, &rounds).await?;
        let (arm, armed) = mpsc::unbounded_channel();
        let load = Arc::new(Load {
            rounds,
            stale: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            pipeline,
            queries,
            backend,
            reader: Reader::new(&varnish.url),
            records,
            armed: Mutex::new(armed),
            arm,
            stop,
            _varnish: varnish,
        });
        load.read_all().await?;
        let again = Arc::new(Mutex::new(again));
        for _ in 0..READERS {
            tokio::spawn(Arc::clone(&load).read_again(Arc::clone(&again)));
        }
        Ok(load)
    }

    async fn read_all(self: &Arc<Load>) -> anyhow::Result<()> {
        let all = 0..u32::try_from(self.queries.len())?;
        let reads = futures_util::stream::iter(all).map(|number| async move {
            self.read(number).await?;
            let (_, hit) = self.reader.read(number).await?;
            self.hits.fetch_add(hit.into(), Ordering::SeqCst);
            anyhow::Ok(())
        });
        let mut reads = reads.buffer_unordered(READERS);
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok(())
    }

    async fn read_again(self: Arc<Load>, again: Arc<Mutex<mpsc::UnboundedReceiver<Number>>>) {
        loop {
            let next = again.lock().await.recv().await;
            let Some(number) = next else { return };
            if let Err(error) = self.read(number).await {
                // It is not written to any more: fewer writes are made, none is lost.
                eprintln!("query {number} is not read again: {error}");
            }
        }
    }

    /// As a gateway answers a miss: registered, settled, and kept by Varnish.
    async fn read(&self, number: Number) -> anyhow::Result<()> {
        let query = &self.queries[number as usize];
        let watch = Watch::records(
            query.filter.clone(),
            query.sort.clone(),
            query.projection.clone(),
            false,
        );
        let resource = Resource {
            namespace: namespace(),
            key: query.key(),
            watched: Watched::Query(watch),
            joins: Vec::new(),
            hinted: false,
        };
        self.pipeline.declare(&namespace(), Images::Both);
        let ticket = self.pipeline.begin(resource)?;
        let answer = Answer {
            position: ticket.from,
            lifetimes: LIVES,
            members: &[],
            window: Window::default(),
            joined: Vec::new(),
        };
        self.pipeline.settle(ticket, answer).await?;
        let written = self.backend.writes[number as usize].load(Ordering::SeqCst);
        let (seen, _) = self.reader.read(number).await?;
        if seen < written {
            self.stale.fetch_add(1, Ordering::SeqCst);
        }
        self.arm.send(number).context("nobody writes any more")
    }

    /// Writes at a rate, each at its intended time whether the one before is done or not.
    pub(super) async fn write_for(
        self: &Arc<Load>,
        rate: f64,
        time: Duration,
    ) -> anyhow::Result<Step> {
        let permits = Arc::new(Semaphore::new(WRITES_IN_FLIGHT_MAX));
        let began = self.rounds.us();
        let mut armed = self.armed.lock().await;
        let mut done = 0_u64;
        loop {
            let due = (done as f64 / rate * 1e6) as u64;
            let spent = self.rounds.us() - began;
            if spent >= u64::try_from(time.as_micros())? {
                break;
            }
            if spent < due {
                tokio::time::sleep(Duration::from_micros(due - spent)).await;
            }
            let permit = Arc::clone(&permits).acquire_owned().await?;
            let wait = tokio::time::timeout(Duration::from_secs(10), armed.recv());
            let Ok(Some(number)) = wait.await else {
                bail!(
                    "no query became fresh again for 10 s: {:?} are open",
                    self.rounds.open()
                );
            };
            let load = Arc::clone(self);
            tokio::spawn(async move {
                if let Err(error) = load.write(number).await {
                    eprintln!("a write failed: {error}");
                }
                drop(permit);
            });
            done += 1;
        }
        let spent = (self.rounds.us() - began) as f64 / 1e6;
        let (_, behind) = self.rounds.open();
        let step = Step {
            wanted_per_s: rate,
            writes_per_s: done as f64 / spent,
            behind,
            kept_up: (behind as f64) < rate * LAG_S,
        };
        eprintln!(
            "{:.0} writes/s wanted, {:.0} made, {behind} behind",
            rate, step.writes_per_s
        );
        Ok(step)
    }

    async fn write(&self, number: Number) -> anyhow::Result<()> {
        self.rounds.begin(number);
        let selector = doc! {"_id": i64::from(number)};
        self.records
            .update_one(selector, doc! {"$inc": {"n": 1}})
            .await?;
        self.backend.writes[number as usize].fetch_add(1, Ordering::SeqCst);
        self.rounds.acknowledged(number);
        Ok(())
    }

    /// Waits until nothing is under way, or ten seconds.
    pub(super) async fn settled(&self) {
        for _ in 0..1_000 {
            if self.rounds.open().0 == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn namespace() -> Namespace {
    Namespace::new("bench", "records").expect("a valid name")
}

fn query(number: Number) -> Query {
    let filter = Filter::parse(&rawdoc! {"group": i64::from(number)}).expect("a filter");
    Query {
        filter,
        ..Query::all(namespace())
    }
}

/// The records, one for each query, with images; and how a foreign program writes to them.
async fn fill(mongo: &Mongo, count: usize) -> anyhow::Result<Collection<RawDocumentBuf>> {
    let database = mongo.uri.client().await?.database("bench");
    let images = ChangeStreamPreAndPostImages::builder()
        .enabled(true)
        .build();
    database
        .create_collection("records")
        .change_stream_pre_and_post_images(images)
        .await?;
    let options = CollectionOptions::builder()
        .write_concern(WriteConcern::builder().w(Acknowledgment::Majority).build())
        .build();
    let records = database.collection_with_options::<RawDocumentBuf>("records", options);
    let text = "x".repeat(100);
    let all: Vec<RawDocumentBuf> = (0..i64::try_from(count)?)
        .map(|n| rawdoc! {"_id": n, "group": n, "n": 0, "text": text.as_str()})
        .collect();
    for some in all.chunks(1_000) {
        records.insert_many(some).await?;
    }
    Ok(records)
}

/// The pipeline as a gateway assembles it, and its change feed running.
async fn pipeline(
    mongo: &Mongo,
    redis: &Redis,
    varnish: &Varnish,
    rounds: &Arc<Rounds>,
    clock: &Arc<Monotonic>,
    stop: &CancellationToken,
) -> anyhow::Result<Pipeline> {
    let limits = Limits {
        keys_max: 100_000,
        changes_max: 100_000,
        collections_max: 100,
        retention_ms: 30_000,
        caps: LIVES,
        transfer_ms: 2_000,
    };
    let server = RedisServer::parse(redis.url.as_str(), None)?;
    let settings = RedisSettings {
        server: server.clone(),
        prefix: "bench".to_owned(),
        member: "bench".to_owned(),
        operation_ms_max: 2_000,
        lease_ms: 10_000,
    };
    let shared: Arc<dyn Clock> = Arc::clone(clock) as Arc<dyn Clock>;
    let sketch = RedisSketch::new(settings, limits, Arc::clone(&shared), Entropy([7; 32]))?;
    let edge = freshet_invalidation::purge::Varnish::new(&VarnishSettings {
        url: varnish.url.clone(),
        secret: varnish.secret.to_owned(),
        coalesce_ms: None,
        request_ms_max: 1_000,
    })?;
    let parts = Parts {
        clock: Arc::clone(&shared),
        sketch: Arc::new(WatchedSketch {
            sketch,
            rounds: Arc::clone(rounds),
        }),
        purgers: vec![Arc::new(WatchedEdge {
            edge,
            rounds: Arc::clone(rounds),
        })],
        ledger: Some(Arc::new(RedisLedger::new(&RedisLedgerSettings {
            server,
            prefix: "bench".to_owned(),
            member: "bench".to_owned(),
            operation_ms_max: 2_000,
        })?)),
        tier: Arc::new(NoTier),
        revive: None,
    };
    let settings = Settings {
        databases: vec!["bench".to_owned()],
        ..Settings::default()
    };
    let pipeline = Pipeline::new(parts, settings);
    let source = MongoSource::new(mongo.uri.client().await?, shared, None);
    let (running, stop) = (pipeline.clone(), stop.clone());
    tokio::spawn(async move {
        let connect = Box::new(move |_| Box::new(source) as Box<_>);
        running.run(Start::First, connect, stop).await;
    });
    for _ in 0..1_000 {
        if pipeline.status().live {
            return Ok(pipeline);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("the change feed does not run")
}

/// The bare events, as any listener of the driver's gets them.
async fn listen(mongo: &Mongo, rounds: &Arc<Rounds>) -> anyhow::Result<()> {
    let client: Client = mongo.uri.client().await?;
    let records = client.database("bench").collection::<Document>("records");
    let mut events = records.watch().await?;
    let rounds = Arc::clone(rounds);
    tokio::spawn(async move {
        while let Some(Ok(event)) = events.next().await {
            let id = event.document_key.and_then(|key| key.get_i64("_id").ok());
            if let Some(number) = id.and_then(|id| u32::try_from(id).ok()) {
                rounds.event(number);
            }
        }
        eprintln!("the listener ended");
    });
    Ok(())
}
