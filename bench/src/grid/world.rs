//! One arrangement: who matches, and what they are given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::machine::Limits;
use freshet_core::time::{Clock, Position, Ttl};
use freshet_fixture::{Redis, fresh_database_name};
use freshet_invalidation::partition::ingest::Ingest;
use freshet_invalidation::partition::streams::{RedisStreams, RedisStreamsSettings, Streams};
use freshet_invalidation::partition::{Cell, CellSource, Client, Shape};
use freshet_invalidation::sketch::port::{Scope, SketchStore, Start};
use freshet_invalidation::sketch::{Entropy, RedisSettings, RedisSketch};
use freshet_invalidation::{
    Answer, Images, NotCached, Parts, Pipeline, RedisServer, Resource, Revive, Settings, Tier,
    Window,
};
use futures_util::StreamExt;
use tokio_util::sync::CancellationToken;

use super::Run;
use super::counted::{Counted, Counts};
use super::cpu;
use super::load::{Load, Nothing, Writes, namespace};
use crate::monotonic::Monotonic;

/// Reads under way while queries are registered.
const READS: usize = 256;

/// What runs.
pub(super) struct World {
    load: Arc<Load>,
    shape: Option<Shape>,
    clock: Arc<Monotonic>,
    go: Arc<AtomicBool>,
    /// Whose answers are cached.
    reads: Pipeline,
    /// Who matches.
    matching: Vec<Pipeline>,
    counts: Arc<Counts>,
    sketch: Arc<dyn SketchStore>,
    redis_process: String,
    stop: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What an arrangement is made of.
struct Making {
    server: RedisServer,
    prefix: String,
    clock: Arc<Monotonic>,
    load: Arc<Load>,
    go: Arc<AtomicBool>,
    next: Arc<AtomicUsize>,
    counts: Arc<Counts>,
    stop: CancellationToken,
}

impl World {
    /// Starts whoever matches, and registers every query.
    pub(super) async fn start(
        redis: &Redis,
        load: &Arc<Load>,
        shape: Option<Shape>,
    ) -> anyhow::Result<World> {
        let making = Making {
            server: RedisServer::parse(redis.url.as_str(), None)?,
            prefix: fresh_database_name(),
            clock: Arc::new(Monotonic::start()),
            load: Arc::clone(load),
            go: Arc::new(AtomicBool::new(false)),
            next: Arc::default(),
            counts: Arc::default(),
            stop: CancellationToken::new(),
        };
        let (reads, matching) = match shape {
            None => making.one_process()?,
            Some(shape) => making.grid(shape)?,
        };
        let world = World {
            load: Arc::clone(load),
            shape,
            clock: Arc::clone(&making.clock),
            go: making.go.clone(),
            reads,
            matching,
            counts: making.counts.clone(),
            sketch: making.sketch("observer")?,
            redis_process: redis.node.pid().context("Redis has ended")?.to_string(),
            stop: making.stop.clone(),
        };
        world.register().await?;
        Ok(world)
    }

    async fn register(&self) -> anyhow::Result<()> {
        for _ in 0..1_000 {
            if self.reads.status().live {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let reads = futures_util::stream::iter(&self.load.resources)
            .map(|(resource, window)| self.read(resource, window));
        let mut reads = reads.buffer_unordered(READS);
        while let Some(read) = reads.next().await {
            read?;
        }
        Ok(())
    }

    /// As a gateway answers a miss. Cells may not be up yet.
    async fn read(&self, resource: &Resource, window: &Window) -> anyhow::Result<()> {
        for _ in 0..1_000 {
            self.reads.declare(&resource.namespace, Images::Both);
            let settled = match self.reads.begin(resource.clone()) {
                Err(no) => Err(no),
                Ok(ticket) => {
                    let answer = Answer {
                        position: ticket.from.max(Position(1)),
                        lifetimes: LIVES,
                        members: &[],
                        window: window.clone(),
                        joined: Vec::new(),
                    };
                    self.reads.settle(ticket, answer).await
                }
            };
            match settled {
                Ok(()) => return Ok(()),
                Err(NotCached::Undecidable) => bail!("{} cannot be decided", resource.key),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
        bail!("{} is never cached", resource.key)
    }

    /// From the first write until all have had their effects everywhere.
    pub(super) async fn measure(self) -> anyhow::Result<Run> {
        let writes = self.load.events.len() as f64;
        let used = || -> anyhow::Result<(f64, f64)> {
            Ok((cpu::seconds("self")?, cpu::seconds(&self.redis_process)?))
        };
        let counted = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed) as f64;
        let counts = || {
            let Counts {
                appended,
                delivered,
                bytes,
            } = &*self.counts;
            [counted(appended), counted(delivered), counted(bytes)]
        };
        let (began, before, earlier) = (self.clock.us(), used()?, counts());
        self.go.store(true, Ordering::SeqCst);
        let end = self.load.end();
        while !self
            .matching
            .iter()
            .all(|one| one.status().watermark >= end)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
            ensure!(self.clock.us() - began < 300_000_000, "never done");
        }
        let seconds = (self.clock.us() - began) as f64 / 1e6;
        let (after, later) = (used()?, counts());
        let scope = Scope::Collections(vec![namespace()]);
        let stale_keys = self.sketch.snapshot(&scope).await?.stale_keys;
        let (own, redis) = (after.0 - before.0, after.1 - before.1);
        let [appended, delivered, bytes] = [0, 1, 2].map(|at| (later[at] - earlier[at]) / writes);
        Ok(Run {
            query_partitions: self.shape.map_or(0, |shape| shape.queries),
            write_partitions: self.shape.map_or(0, |shape| shape.writes),
            seconds,
            writes_per_s: writes / seconds,
            cpu_s: own,
            redis_cpu_s: redis,
            writes_per_core_s: writes / (own + redis),
            appended_per_write: appended,
            delivered_per_write: delivered,
            bytes_per_write: bytes,
            stale_keys,
        })
    }
}

const LIVES: Lifetimes = Lifetimes {
    m: Ttl(60),
    s: Ttl(600),
};

impl Making {
    fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock) as Arc<dyn Clock>
    }

    fn source(&self) -> Writes {
        Writes {
            load: Arc::clone(&self.load),
            go: Arc::clone(&self.go),
            clock: self.clock(),
            next: Arc::clone(&self.next),
        }
    }

    fn sketch(&self, member: &str) -> anyhow::Result<Arc<dyn SketchStore>> {
        let limits = Limits {
            keys_max: 1_000_000,
            changes_max: 100_000,
            collections_max: 100,
            retention_ms: 30_000,
            caps: LIVES,
            transfer_ms: 2_000,
        };
        let settings = RedisSettings {
            server: self.server.clone(),
            prefix: self.prefix.clone(),
            member: member.to_owned(),
            operation_ms_max: 5_000,
            lease_ms: 60_000,
        };
        let sketch = RedisSketch::new(settings, limits, self.clock(), Entropy([7; 32]))?;
        Ok(Arc::new(sketch))
    }

    fn parts(&self, member: &str) -> anyhow::Result<Parts> {
        let load = Arc::clone(&self.load);
        let revive: Revive =
            Arc::new(move |_: &Namespace, key: &Key| load.by_key.get(key).cloned());
        Ok(Parts {
            clock: self.clock(),
            sketch: self.sketch(member)?,
            purgers: Vec::new(),
            ledger: None,
            tier: Arc::new(NoTier),
            revive: Some(revive),
        })
    }

    fn one_process(&self) -> anyhow::Result<(Pipeline, Vec<Pipeline>)> {
        let pipeline = Pipeline::new(self.parts("alone")?, settings());
        let source = self.source();
        self.run(&pipeline, Box::new(move |_| Box::new(source)));
        Ok((pipeline.clone(), vec![pipeline]))
    }

    fn grid(&self, shape: Shape) -> anyhow::Result<(Pipeline, Vec<Pipeline>)> {
        let streams = RedisStreamsSettings {
            server: self.server.clone(),
            prefix: self.prefix.clone(),
            operation_ms_max: 5_000,
            shape,
            retention_ms: 30_000,
        };
        let streams: Arc<dyn Streams> = Arc::new(Counted {
            streams: Arc::new(RedisStreams::new(streams, self.clock())?),
            counts: Arc::clone(&self.counts),
        });
        let source = self.source();
        let ingest = Ingest {
            streams: Arc::clone(&streams),
            clock: self.clock(),
            shape,
            holder: "leader".to_owned(),
            open: Arc::new(move |_| {
                Box::new(Writes {
                    load: Arc::clone(&source.load),
                    go: Arc::clone(&source.go),
                    clock: Arc::clone(&source.clock),
                    next: Arc::clone(&source.next),
                })
            }),
        };
        let stop = self.stop.clone();
        tokio::spawn(async move { ingest.run(stop).await });
        let mut cells = Vec::new();
        for at in 0..shape.queries * shape.writes {
            let (row, column) = (at / shape.writes, at % shape.writes);
            let cell = Cell { shape, row, column };
            let parts = self.parts(&cell.member())?;
            let pipeline = Pipeline::cell(
                parts,
                settings(),
                cell,
                &cell.member(),
                Arc::clone(&streams),
            );
            let (streams, clock) = (Arc::clone(&streams), self.clock());
            self.run(
                &pipeline,
                Box::new(move |resume: Option<Vec<u8>>| {
                    Box::new(CellSource::new(streams, clock, column, resume.as_deref()))
                }),
            );
            cells.push(pipeline);
        }
        let client = Client::new(streams, shape, "gateway", 1);
        let gateway = Pipeline::over_grid(self.parts("gateway")?, settings(), Arc::new(client));
        // No live queries here.
        self.run(&gateway, Box::new(|_| Box::new(Nothing)));
        Ok((gateway, cells))
    }

    fn run(&self, pipeline: &Pipeline, connect: freshet_invalidation::Connect) {
        let (running, stop) = (pipeline.clone(), self.stop.clone());
        tokio::spawn(async move { running.run(Start::First, connect, stop).await });
    }
}

fn settings() -> Settings {
    let mut settings = Settings {
        databases: vec!["bench".to_owned()],
        ..Settings::default()
    };
    settings.registry.active_max = 10_000_000;
    settings.registry.database_active_max = 10_000_000;
    settings
}

/// No tier: what is measured lies before it.
struct NoTier;

impl Tier for NoTier {
    fn drop_keys(&self, _: &[Key]) {}
    fn drop_collection(&self, _: &Namespace) {}
    fn drop_all(&self) {}
}
