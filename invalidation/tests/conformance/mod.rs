//! What the suite works with: an adapter, and time that passes for it.
#![allow(dead_code, unreachable_pub)] // each suite uses its part of it

use std::sync::Arc;
use std::time::Duration;

use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::machine::Limits;
use freshet_core::sketch::wire::{self, Header};
use freshet_core::time::{Clock, ManualClock, Moment, Position, Ttl};
use freshet_fixture::{GuardedRedis, Parts, RedisCluster, fresh_database_name};
use freshet_invalidation::RedisServer;
use freshet_invalidation::sketch::port::{
    Purged, Read, Scope, Settled, SketchError, SketchStore, Snapshot, Start, Write,
};
use freshet_invalidation::sketch::{Entropy, LocalSketch, RedisSettings, RedisSketch};
use tokio::sync::OnceCell;

/// One second for clients, none for shared caches.
pub const M1: Lifetimes = Lifetimes {
    m: Ttl(1),
    s: Ttl(0),
};

#[derive(Clone, Copy, Debug)]
pub enum Adapter {
    Local,
    Redis(Kind),
}

/// The ways in which Redis is run.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Plain,
    /// TLS, and a user with the rights it needs.
    Guarded,
    Cluster,
}

impl Kind {
    /// A server of this kind, one for all tests of this process.
    pub async fn server(self) -> RedisServer {
        static GUARDED: OnceCell<GuardedRedis> = OnceCell::const_new();
        static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
        match self {
            Kind::Plain => server(Parts::redis().await.expect("Redis").as_str()),
            Kind::Guarded => {
                let start = async || Parts::guarded_redis().await.expect("Redis over TLS");
                guarded(GUARDED.get_or_init(start).await)
            }
            Kind::Cluster => {
                let start = async || Parts::redis_cluster().await.expect("a cluster");
                server(CLUSTER.get_or_init(start).await.url.as_str())
            }
        }
    }
}

pub fn server(url: &str) -> RedisServer {
    RedisServer::parse(url, None).expect("a URL")
}

pub fn guarded(redis: &GuardedRedis) -> RedisServer {
    let authority = std::fs::read(&redis.authority).expect("an authority");
    RedisServer::parse(redis.url.as_str(), Some(&authority)).expect("a URL")
}

pub struct Bench {
    pub store: Arc<dyn SketchStore>,
    pub epoch: u64,
    manual: Option<Arc<ManualClock>>,
    system: Arc<SystemClock>,
}

/// The process's clock, as the shell has it.
pub struct SystemClock(tokio::time::Instant);

impl SystemClock {
    #[allow(clippy::disallowed_methods)] // a test is its own shell
    pub fn new() -> SystemClock {
        SystemClock(tokio::time::Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.elapsed().as_millis()).expect("not that long"))
    }

    fn wall_ms(&self) -> u64 {
        1_800_000_000_000 + self.now().0
    }
}

pub fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

fn limits() -> Limits {
    Limits {
        keys_max: 100_000,
        changes_max: 10_000,
        collections_max: 10,
        retention_ms: 30_000,
        caps: Lifetimes {
            m: Ttl(600),
            s: Ttl(600),
        },
        transfer_ms: 0,
    }
}

/// A Redis sketch as the process `member` sees it.
pub fn redis(
    url: &str,
    prefix: &str,
    member: &str,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> RedisSketch {
    redis_at(server(url), prefix, member, limits, clock)
}

pub fn redis_at(
    server: RedisServer,
    prefix: &str,
    member: &str,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> RedisSketch {
    redis_within(2_000, server, prefix, member, limits, clock)
}

/// With operations that may take so long, milliseconds.
fn redis_within(
    operation_ms_max: u64,
    server: RedisServer,
    prefix: &str,
    member: &str,
    limits: Limits,
    clock: Arc<dyn Clock>,
) -> RedisSketch {
    let settings = RedisSettings {
        server,
        prefix: prefix.to_owned(),
        member: member.to_owned(),
        operation_ms_max,
        lease_ms: 10_000,
    };
    RedisSketch::new(settings, limits, clock, Entropy([3; 32])).expect("settings")
}

impl Bench {
    pub async fn new(adapter: Adapter) -> Bench {
        Bench::with(adapter, |_| {}).await
    }

    pub async fn with(adapter: Adapter, change: impl FnOnce(&mut Limits)) -> Bench {
        let mut bench = Bench::make(adapter, change).await;
        let opened = bench.store.open(Start::First).await.expect("opened");
        bench.epoch = opened.epoch.number;
        bench
    }

    pub async fn unopened(adapter: Adapter) -> Bench {
        Bench::make(adapter, |_| {}).await
    }

    async fn make(adapter: Adapter, change: impl FnOnce(&mut Limits)) -> Bench {
        let mut limits = limits();
        change(&mut limits);
        match adapter {
            Adapter::Local => {
                let clock = Arc::new(ManualClock::at(1_000));
                let sketch = LocalSketch::new(clock.clone(), Entropy([3; 32]), limits);
                Bench {
                    store: Arc::new(sketch),
                    epoch: 0,
                    manual: Some(clock),
                    system: Arc::new(SystemClock::new()),
                }
            }
            Adapter::Redis(kind) => {
                let clock = Arc::new(SystemClock::new());
                let sketch = redis_within(
                    // The servers are everybody's, and the largest cases take long.
                    10_000,
                    kind.server().await,
                    &fresh_database_name(),
                    "me",
                    limits,
                    clock.clone(),
                );
                Bench {
                    store: Arc::new(sketch),
                    epoch: 0,
                    manual: None,
                    system: clock,
                }
            }
        }
    }

    /// Time passes, for the adapter.
    pub async fn pass(&self, ms: u64) {
        match &self.manual {
            Some(clock) => clock.advance_ms(ms),
            None => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
    }

    /// Now, for the adapter.
    pub fn now(&self) -> Moment {
        match &self.manual {
            Some(clock) => clock.now(),
            None => self.system.now(),
        }
    }

    /// Waits until `id` is not in the sketch any more; how long after `since` that came about. A slow machine
    /// makes it longer, never shorter.
    pub async fn gone_after(&self, id: &str, since: Moment) -> u64 {
        loop {
            if !self.contains(id).await {
                return self.now().since(since);
            }
            assert!(self.now().since(since) < 120_000, "{id} never leaves");
            self.pass(20).await;
        }
    }

    async fn one(
        &self,
        id: &str,
        position: u64,
        lifetimes: Lifetimes,
        embedded: bool,
    ) -> Result<Settled, SketchError> {
        let key = namespace().record_key(id);
        let read = Read {
            key: &key,
            position: Position(position),
            lifetimes,
            embedded,
        };
        let settled = self.store.settle(self.epoch, &namespace(), &[read]).await?;
        assert_eq!(settled.len(), 1);
        Ok(settled[0])
    }

    pub async fn read(
        &self,
        id: &str,
        position: u64,
        lifetimes: Lifetimes,
    ) -> Result<Settled, SketchError> {
        self.one(id, position, lifetimes, false).await
    }

    pub async fn read_embedded(
        &self,
        id: &str,
        position: u64,
        lifetimes: Lifetimes,
    ) -> Result<Settled, SketchError> {
        self.one(id, position, lifetimes, true).await
    }

    pub async fn read_all(&self, keys: &[Key], position: u64, lifetimes: Lifetimes) {
        let read = |key| Read {
            key,
            position: Position(position),
            lifetimes,
            embedded: false,
        };
        let reads: Vec<Read<'_>> = keys.iter().map(read).collect();
        let settled = self
            .store
            .settle(self.epoch, &namespace(), &reads)
            .await
            .expect("answered");
        assert!(settled.iter().all(|one| *one == Settled::Recorded));
    }

    pub async fn write(&self, id: &str, position: u64) -> Result<bool, SketchError> {
        let write = Write {
            key: namespace().record_key(id),
            position: Position(position),
        };
        let hits = self
            .store
            .report_write(self.epoch, &namespace(), &[write])
            .await?;
        Ok(hits[0])
    }

    pub async fn write_all(&self, keys: &[Key], position: u64) {
        let write = |key: &Key| Write {
            key: key.clone(),
            position: Position(position),
        };
        let writes: Vec<Write> = keys.iter().map(write).collect();
        let hits = self
            .store
            .report_write(self.epoch, &namespace(), &writes)
            .await
            .expect("taken");
        assert!(hits.len() == keys.len() && hits.iter().all(|hit| *hit));
    }

    pub async fn confirm(&self, id: &str, position: u64) {
        let purged = Purged {
            key: namespace().record_key(id),
            position: Position(position),
        };
        let confirmed = self
            .store
            .confirm_purge(self.epoch, &namespace(), &[purged])
            .await;
        confirmed.expect("taken");
    }

    pub async fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&Scope::Collections(vec![namespace()]))
            .await
    }

    pub async fn snapshot_of(&self, scope: &Scope) -> Snapshot {
        self.store.snapshot(scope).await.expect("a snapshot")
    }

    pub async fn contains(&self, id: &str) -> bool {
        holds(&self.snapshot().await, &namespace().record_key(id))
    }
}

/// Whether a client that decodes the sketch finds `key` in it.
pub fn holds(snapshot: &Snapshot, key: &Key) -> bool {
    let header = Header {
        k: snapshot.k,
        saturated: snapshot.saturated,
        m: snapshot.m,
        age_ms: 0,
        epoch: snapshot.epoch,
        watermark: Position(0),
        invalidation_ms: 0,
    };
    let bytes = wire::encode(&header, &snapshot.bits);
    let (header, bits) = wire::decode(&bytes).expect("own bytes");
    wire::contains(&header, bits, key.as_str())
}
