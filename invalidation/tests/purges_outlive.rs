//! C5, C8: what was to be purged is purged, whatever becomes of the process that ordered it; and no more than that.

mod conformance;
mod stage;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use conformance::{SystemClock, redis, server};
use freshet_core::change::Image;
use freshet_core::freshness::{ResourceKind, SurrogateKey, database_surrogate};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::ManualClock;
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::purge::ledger::{Ledger, LedgerError, RedisLedger, RedisLedgerSettings};
use freshet_invalidation::purge::{Confirmed, Order};
use freshet_invalidation::sketch::port::Start;
use freshet_invalidation::{Resource, Revive};
use stage::{Stage, limits, lives, query, record, state};

/// One process after the other, over the same Redis.
struct Lives {
    url: String,
    prefix: String,
}

/// A ledger that can be out of reach.
struct Reachable {
    ledger: RedisLedger,
    reached: Arc<AtomicBool>,
}

#[async_trait]
impl Ledger for Reachable {
    async fn take_up(&self) -> Result<Vec<Order>, LedgerError> {
        self.check()?;
        self.ledger.take_up().await
    }

    async fn note(&self, orders: &[Order]) -> Result<(), LedgerError> {
        self.check()?;
        self.ledger.note(orders).await
    }

    async fn confirm(&self, confirmed: &[Confirmed]) -> Result<(), LedgerError> {
        self.check()?;
        self.ledger.confirm(confirmed).await
    }
}

impl Reachable {
    fn check(&self) -> Result<(), LedgerError> {
        match self.reached.load(Ordering::SeqCst) {
            true => Ok(()),
            false => Err(LedgerError("out of reach".to_owned())),
        }
    }
}

impl Lives {
    async fn new() -> Lives {
        Lives {
            url: Parts::redis().await.expect("Redis").as_str().to_owned(),
            prefix: fresh_database_name(),
        }
    }

    fn begin(&self, start: Start, reached: &Arc<AtomicBool>) -> Stage {
        let clock = Arc::new(SystemClock::new());
        let sketch = redis(&self.url, &self.prefix, "a", limits(), clock);
        let settings = RedisLedgerSettings {
            server: server(&self.url),
            prefix: self.prefix.clone(),
            member: "a".to_owned(),
            operation_ms_max: 2_000,
        };
        let ledger = Reachable {
            ledger: RedisLedger::new(&settings).expect("settings"),
            reached: Arc::clone(reached),
        };
        let revive: Revive = Arc::new(|_: &Namespace, key: &Key| -> Option<Resource> {
            Some(match *key == query().key {
                true => query(),
                false => record(1),
            })
        });
        let clock = Arc::new(ManualClock::at(1_000_000));
        Stage::with(
            clock,
            Arc::new(sketch),
            start,
            Some(revive),
            Some(Arc::new(ledger)),
        )
    }
}

fn surrogate() -> SurrogateKey {
    SurrogateKey::resource(ResourceKind::Query, &query().key)
}

/// Until a purge is sent, repeated, and confirmed.
async fn purged(stage: &Stage) {
    stage
        .until("it is purged, again, and confirmed", || {
            stage.clock.advance_ms(100);
            stage.cache.times(surrogate()) >= 2 && stage.pipeline.status().purges_pending == 0
        })
        .await;
}

#[tokio::test]
async fn c5_a_purge_that_failed_is_made_by_the_next_life_and_nothing_else_is_purged() {
    let (lives_of, reached) = (Lives::new().await, Arc::new(AtomicBool::new(true)));
    let first = lives_of.begin(Start::First, &reached);
    first.progress(7).await;
    first.read(query(), 7, lives(50, 50), &[]).await;
    first.cache.down.store(true, Ordering::SeqCst);
    first.change(9, 1, Image::Absent, state(1, 20)).await;
    let epoch = first.header().await.epoch;
    first.end().await;

    let second = lives_of.begin(Start::Again, &reached);
    second.progress(10).await;
    purged(&second).await;
    assert_eq!(second.cache.times(database_surrogate("d")), 0);
    let header = second.header().await;
    assert_eq!((header.epoch, header.saturated), (epoch, false));
    second.progress(11).await;
    assert_ne!(second.header().await.invalidation_ms, u32::MAX);
    second.end().await;

    let third = lives_of.begin(Start::Again, &reached);
    third.progress(12).await;
    third.clock.advance_ms(5_000);
    third.progress(13).await;
    assert_eq!(third.cache.times(surrogate()), 0, "it is settled");
}

#[tokio::test]
async fn c5_a_purge_that_was_not_noted_is_ordered_again_when_its_change_comes_again() {
    let (lives_of, reached) = (Lives::new().await, Arc::new(AtomicBool::new(true)));
    let first = lives_of.begin(Start::First, &reached);
    first.progress(7).await;
    first.read(query(), 7, lives(50, 50), &[]).await;
    // The process ends between the sketch, which has taken the change, and the ledger.
    reached.store(false, Ordering::SeqCst);
    first.cache.down.store(true, Ordering::SeqCst);
    let event = Stage::event(9, 1, Image::Absent, state(1, 20));
    first.send(Ok(first.batch(9, vec![event.clone()])));
    for _ in 0..500 {
        if first.contains(&query()).await {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    assert!(first.contains(&query()).await, "the sketch has it");
    first.end().await;

    reached.store(true, Ordering::SeqCst);
    let second = lives_of.begin(Start::Again, &reached);
    second.send(Ok(second.batch(9, vec![event])));
    second.reaches(9).await;
    assert_eq!(*second.resumed.lock(), Some(7u64.to_le_bytes().to_vec()));
    purged(&second).await;
    assert_eq!(second.cache.times(database_surrogate("d")), 0);
}

#[tokio::test]
async fn c8_a_ledger_that_cannot_be_read_costs_the_whole_database() {
    let (lives_of, reached) = (Lives::new().await, Arc::new(AtomicBool::new(true)));
    let first = lives_of.begin(Start::First, &reached);
    first.progress(7).await;
    first.read(query(), 7, lives(50, 50), &[]).await;
    first.end().await;
    reached.store(false, Ordering::SeqCst);
    let second = lives_of.begin(Start::Again, &reached);
    second
        .until("the database is purged", || {
            second.clock.advance_ms(100);
            second.cache.times(database_surrogate("d")) > 0
        })
        .await;
}
