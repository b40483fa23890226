//! A whole grid on a stage: a database that replays its changes from wherever it is asked to, cells, and a gateway.

#![allow(unreachable_pub)] // as the other stages

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use freshet_core::change::ChangeEvent;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::wire;
use freshet_core::time::{Clock, Position, Ttl};
use freshet_core::ttl::Policy;
use freshet_fixture::{Parts as Real, fresh_database_name};
use freshet_invalidation::ingest::port::{Batch, Source, SourceError, Watermark};
use freshet_invalidation::partition::ingest::Ingest;
use freshet_invalidation::partition::streams::{
    From, Line, LocalStreams, RedisStreams, RedisStreamsSettings, Streams,
};
use freshet_invalidation::partition::{Cell, CellSource, Client, Shape};
use freshet_invalidation::sketch::port::{Scope, SketchStore, Start};
use freshet_invalidation::sketch::{Entropy, RedisSettings, RedisSketch};
use freshet_invalidation::{
    Answer, Images, NotCached, Parts, Pipeline, RedisServer, Resource, Revive, Settings, Window,
};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::conformance::SystemClock;
use crate::stage::{DroppedTier, RecordingCache, limits, lives};

/// What was committed.
#[derive(Default)]
pub struct Database {
    state: Mutex<Committed>,
}

#[derive(Default)]
struct Committed {
    events: Vec<ChangeEvent>,
    position: Position,
    /// History before this is lost.
    lost: usize,
}

struct DatabaseSource {
    database: Arc<Database>,
    clock: Arc<dyn Clock>,
    next: usize,
}

#[async_trait]
impl Source for DatabaseSource {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let as_of = self.clock.now();
        let state = self.database.state.lock();
        if self.next < state.lost {
            self.next = state.events.len();
            return Err(SourceError::Gap("history lost".to_owned()));
        }
        let events = state.events[self.next..].to_vec();
        self.next = state.events.len();
        let position = state.position;
        Ok(Batch {
            events,
            through: position,
            watermark: Some(Watermark { position, as_of }),
            resume: Some(self.next.to_le_bytes().to_vec()),
        })
    }
}

/// The grid.
pub struct Grid {
    pub database: Arc<Database>,
    pub clock: Arc<SystemClock>,
    pub shape: Shape,
    pub streams: Arc<dyn Streams>,
    pub gateway: Pipeline,
    pub tier: Arc<DroppedTier>,
    pub cache: Arc<RecordingCache>,
    url: String,
    prefix: String,
    revive: Revive,
    cells: Vec<Option<RunningCell>>,
    stop: CancellationToken,
}

/// A cell.
pub struct RunningCell {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Grid {
    fn drop(&mut self) {
        self.stop.cancel();
        self.cells.iter_mut().flatten().for_each(RunningCell::kill);
    }
}

impl RunningCell {
    /// As SIGTERM does.
    pub async fn end(&mut self) {
        self.stop.cancel();
        for task in self.tasks.drain(..) {
            task.await.expect("no panic");
        }
    }

    fn kill(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Where the streams are.
#[derive(Clone, Copy, Debug)]
pub enum Transport {
    Local,
    Redis,
}

impl Grid {
    /// All cells up, the gateway live, the database at position 1.
    pub async fn new(transport: Transport, shape: Shape, resources: Vec<Resource>) -> Grid {
        let url = Real::redis().await.expect("Redis").as_str().to_owned();
        let prefix = fresh_database_name();
        let clock = Arc::new(SystemClock::new());
        let shared: Arc<dyn Clock> = clock.clone();
        let streams: Arc<dyn Streams> = match transport {
            Transport::Local => Arc::new(LocalStreams::new(shared.clone(), 5_000)),
            Transport::Redis => {
                let settings = RedisStreamsSettings {
                    server: RedisServer::parse(&url, None).expect("a URL"),
                    prefix: prefix.clone(),
                    shape,
                    operation_ms_max: 1_000,
                    retention_ms: 30_000,
                };
                Arc::new(RedisStreams::new(settings, shared.clone()).expect("a URL"))
            }
        };
        let database = Arc::new(Database::default());
        database.state.lock().position = Position(1);
        let tier = Arc::new(DroppedTier::default());
        let cache = Arc::new(RecordingCache::default());
        let revive: Revive = Arc::new(move |_: &Namespace, key: &Key| {
            resources.iter().find(|one| one.key == *key).cloned()
        });
        let client = Client::new(streams.clone(), shape, "gateway", clock.wall_ms());
        let parts = Parts {
            clock: shared.clone(),
            sketch: sketch(&url, &prefix, "gateway", &clock),
            purgers: Vec::new(),
            ledger: None,
            tier: tier.clone(),
            revive: Some(revive.clone()),
        };
        let gateway = Pipeline::over_grid(parts, settings(), Arc::new(client));
        let stop = CancellationToken::new();
        let (running, stopping) = (gateway.clone(), stop.clone());
        let source = DatabaseSource {
            database: database.clone(),
            clock: shared,
            next: 0,
        };
        let connect = Box::new(move |_| Box::new(source) as Box<dyn Source>);
        tokio::spawn(async move { running.run(Start::Again, connect, stopping).await });
        let mut grid = Grid {
            database,
            clock,
            shape,
            streams,
            gateway,
            tier,
            cache,
            url,
            prefix,
            revive,
            cells: Vec::new(),
            stop,
        };
        let count = shape.queries * shape.writes;
        for at in 0..count {
            grid.cells.push(None);
            grid.begin(at / shape.writes, at % shape.writes, Start::First);
        }
        grid.all_up().await;
        grid
    }

    pub fn start(&mut self, row: u32, column: u32) {
        self.begin(row, column, Start::Again);
    }

    fn begin(&mut self, row: u32, column: u32, start: Start) {
        let (shape, clock) = (self.shape, self.clock.clone());
        let cell = Cell { shape, row, column };
        let shared: Arc<dyn Clock> = clock.clone();
        let parts = Parts {
            clock: shared.clone(),
            sketch: sketch(&self.url, &self.prefix, &cell.member(), &clock),
            purgers: vec![self.cache.clone()],
            ledger: None,
            tier: Arc::new(DroppedTier::default()),
            revive: Some(self.revive.clone()),
        };
        let holder = format!("{cell} {}", fresh_database_name());
        let pipeline = Pipeline::cell(parts, settings(), cell, &holder, self.streams.clone());
        let (database, streams) = (self.database.clone(), self.streams.clone());
        let of = shared.clone();
        let ingest = Ingest {
            streams: streams.clone(),
            clock: shared.clone(),
            shape,
            holder,
            open: Arc::new(move |resume: Option<Vec<u8>>| {
                let next = match resume {
                    Some(resume) => usize::from_le_bytes(resume.try_into().expect("eight bytes")),
                    None => database.state.lock().events.len(),
                };
                Box::new(DatabaseSource {
                    database: database.clone(),
                    clock: of.clone(),
                    next,
                })
            }),
        };
        let connect = Box::new(move |resume: Option<Vec<u8>>| {
            let source = CellSource::new(streams, shared, column, resume.as_deref());
            Box::new(source) as Box<dyn Source>
        });
        let stop = CancellationToken::new();
        let (stopping, leading) = (stop.clone(), stop.clone());
        let tasks = vec![
            tokio::spawn(async move { ingest.run(leading).await }),
            tokio::spawn(async move { pipeline.run(start, connect, stopping).await }),
        ];
        let at = (row * shape.writes + column) as usize;
        self.cells[at] = Some(RunningCell { stop, tasks });
    }

    /// As `kill -9` does.
    pub fn kill(&mut self, row: u32, column: u32) {
        let at = (row * self.shape.writes + column) as usize;
        if let Some(mut cell) = self.cells[at].take() {
            // What it spawned itself ends with the token.
            cell.kill();
            cell.stop.cancel();
        }
    }

    /// As SIGTERM does.
    pub async fn end(&mut self, row: u32, column: u32) {
        self.take(row, column).end().await;
    }

    /// A cell that goes on beside the grid.
    pub fn take(&mut self, row: u32, column: u32) -> RunningCell {
        let at = (row * self.shape.writes + column) as usize;
        self.cells[at].take().expect("a cell")
    }

    pub async fn all_up(&self) {
        for row in 0..self.shape.queries {
            loop {
                let known = self.streams.row(row).await.expect("an answer");
                if known.up.len() == self.shape.writes as usize {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        self.until("the gateway is live", || self.gateway.status().live)
            .await;
    }

    /// Commits changes at one position.
    pub fn commit(&self, events: Vec<ChangeEvent>) -> Position {
        let mut state = self.database.state.lock();
        let position = Position(state.position.0 + 1);
        state.position = position;
        let placed = events
            .into_iter()
            .map(|event| ChangeEvent { position, ..event });
        state.events.extend(placed);
        position
    }

    /// What came before cannot be read any more.
    pub fn lose_history(&self) {
        let mut state = self.database.state.lock();
        state.lost = state.events.len();
    }

    pub fn position(&self) -> u64 {
        self.database.state.lock().position.0
    }

    /// A read of this resource, made now.
    pub async fn read(&self, resource: &Resource, members: &[Key]) -> Result<(), NotCached> {
        self.gateway.declare(&resource.namespace, Images::Both);
        let ticket = self.gateway.begin(resource.clone())?;
        let answer = Answer {
            position: Position(self.position()),
            lifetimes: lives(50, 500),
            members,
            window: Window::default(),
            joined: Vec::new(),
        };
        self.gateway.settle(ticket, answer).await
    }

    /// Reads until it may be cached.
    pub async fn cached(&self, resource: &Resource) {
        for _ in 0..1_000 {
            if self.read(resource, &[]).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("never cached: {:?}", self.read(resource, &[]).await);
    }

    pub async fn contains(&self, resource: &Resource) -> bool {
        let scope = Scope::Collections(vec![resource.namespace.clone()]);
        let bytes = self.gateway.sketch(scope).await;
        let (header, bits) = wire::decode(&bytes).expect("a sketch");
        wire::contains(&header, bits, resource.key.as_str())
    }

    pub async fn until_stale(&self, resource: &Resource) {
        for _ in 0..1_000 {
            if self.contains(resource).await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{} never became stale", resource.key);
    }

    pub async fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        for _ in 0..2_000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("it never came about that {what}");
    }

    /// The leader writes ten pages more.
    pub async fn pages(&self, column: u32) {
        let line = Line::Changes(column);
        let mut reader = self.streams.read(&line, From::Now).await.expect("reads");
        let mut pages = 0;
        while pages < 10 {
            pages += reader.next(100).await.expect("an answer").len();
        }
    }

    /// The whole sketch has reached everything that is committed.
    pub async fn quiet(&self) {
        let position = Position(self.position());
        self.until("the watermark moves", || {
            self.gateway.status().watermark >= position
        })
        .await;
    }
}

fn sketch(url: &str, prefix: &str, member: &str, clock: &Arc<SystemClock>) -> Arc<dyn SketchStore> {
    let settings = RedisSettings {
        server: RedisServer::parse(url, None).expect("a URL"),
        prefix: prefix.to_owned(),
        member: member.to_owned(),
        operation_ms_max: 1_000,
        lease_ms: 3_000,
    };
    let clock: Arc<dyn Clock> = clock.clone();
    Arc::new(RedisSketch::new(settings, limits(), clock, Entropy([9; 32])).expect("a URL"))
}

fn settings() -> Settings {
    let mut settings = Settings {
        policy: Policy {
            max_age_cap: Ttl(60),
            shared_max_age_cap: Ttl(600),
            ..Policy::default()
        },
        databases: vec!["d".to_owned()],
        retry_ms: (5, 50),
        snapshot_ms: 0,
        ..Settings::default()
    };
    settings.outbox.repeat_after_ms = 50;
    settings
}
