//! The sketch in Redis when things go wrong: a server that hangs, dies, forgets; a process that restarts, or
//! does not; two processes on one sketch.

mod conformance;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use conformance::{SystemClock, redis, server};
use freshet_core::change::Image;
use freshet_core::freshness::{ResourceKind, SurrogateKey};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, ManualClock, Position};
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::sketch::RedisSketch;
use freshet_invalidation::sketch::port::{Earlier, Report, Scope, SketchError, SketchStore, Start};
use freshet_invalidation::{NotCached, Resource, Revive};
use stage::{Stage, limits, lives, namespace, query, record, state};

fn sketch(url: &str, prefix: &str, member: &str) -> RedisSketch {
    redis(url, prefix, member, limits(), Arc::new(SystemClock::new()))
}

fn stage_on(sketch: RedisSketch, start: Start, revive: Option<Revive>) -> Stage {
    let clock = Arc::new(ManualClock::at(1_000_000));
    Stage::with(clock, Arc::new(sketch), start, revive, None)
}

fn report(watermark: u64, age_ms: u64, invalidation_ms: u32) -> Report {
    Report {
        watermark: Position(watermark),
        age_ms,
        invalidation_ms,
    }
}

#[tokio::test]
async fn d16_c16_a_server_that_hangs_is_given_up_in_time_and_nothing_is_skipped() {
    let server = Parts::own_redis().await.expect("Redis");
    let stage = stage_on(sketch(server.url.as_str(), "f", "a"), Start::First, None);
    stage.progress(1).await;
    stage.read(query(), 1, lives(10, 10), &[]).await;
    let ticket = stage.pipeline.begin(record(1)).expect("begins");
    server.node.pause();
    let event = Stage::event(5, 1, Image::Absent, state(1, 20));
    stage.send(Ok(stage.batch(5, vec![event])));
    let settled = tokio::time::timeout(
        Duration::from_secs(5),
        stage.settle(ticket, 4, lives(10, 0), &[]),
    );
    assert_eq!(
        settled.await.expect("in time"),
        Err(NotCached::SketchUnavailable)
    );
    assert_eq!(
        stage.pipeline.begin(record(1)).expect_err("no"),
        NotCached::SketchUnavailable
    );
    let mut registry = prometheus_client::registry::Registry::default();
    stage.pipeline.register(&mut registry);
    stage.pipeline.refresh_metrics().await;
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    for now in [
        "freshet_invalidation_live 0",
        "freshet_invalidation_saturated 1",
    ] {
        assert!(
            text.contains(now),
            "the alarm goes while nothing moves: {text}"
        );
    }
    let header = stage.header().await;
    assert!(
        header.saturated && header.age_ms == u32::MAX,
        "C7: nothing to be trusted"
    );
    assert_eq!(
        stage.pipeline.status().watermark,
        Position(1),
        "C6: its effect is not in the sketch"
    );
    server.node.resume();
    stage.reaches(5).await;
    assert!(
        stage.contains(&query()).await,
        "the change had its effect after all"
    );
    stage.clock.advance_ms(2);
    let surrogate = SurrogateKey::resource(ResourceKind::Query, &query().key);
    stage
        .until("and its purge", || stage.cache.times(surrogate) == 1)
        .await;
}

#[tokio::test]
async fn c8_a_server_that_forgot_everything_begins_a_saturated_epoch() {
    let server = Parts::own_redis().await.expect("Redis");
    let stage = stage_on(sketch(server.url.as_str(), "f", "a"), Start::First, None);
    stage.progress(1).await;
    stage.read(query(), 1, lives(10, 10), &[]).await;
    let before = stage.header().await;
    assert!(!before.saturated);
    server.node.kill().await.expect("killed");
    server.node.restart().await.expect("restarted");
    stage.progress(2).await;
    stage
        .until("a new epoch begins", || {
            stage.pipeline.status().epoch > before.epoch.number
        })
        .await;
    stage.reaches(2).await;
    let header = stage.header().await;
    assert!(header.saturated);
    assert_eq!(header.watermark, Position(2));
    let ticket = stage.pipeline.begin(query()).expect("caching goes on");
    assert_eq!(stage.settle(ticket, 2, lives(10, 10), &[]).await, Ok(()));
}

#[tokio::test]
async fn a_server_that_lost_the_library_gets_it_again() {
    let server = Parts::own_redis().await.expect("Redis");
    let store = sketch(server.url.as_str(), "f", "a");
    let opened = store.open(Start::First).await.expect("opened");
    let client = redis::Client::open(server.url.as_str()).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("connects");
    let () = redis::cmd("FUNCTION")
        .arg("FLUSH")
        .query_async(&mut connection)
        .await
        .expect("flushed");
    store
        .report(opened.epoch.number, report(1, 0, 0), None)
        .await
        .expect("reloaded");
    assert_eq!(
        store
            .snapshot(&Scope::Collections(vec![namespace()]))
            .await
            .expect("answers")
            .epoch,
        opened.epoch
    );
}

#[tokio::test]
async fn no_server_is_an_error_in_bounded_time() {
    let server = Parts::own_redis().await.expect("Redis");
    let store = sketch(server.url.as_str(), "f", "a");
    server.node.kill().await.expect("killed");
    let opened = tokio::time::timeout(Duration::from_secs(5), store.open(Start::First)).await;
    assert!(matches!(
        opened.expect("in time"),
        Err(SketchError::Unavailable(_))
    ));
}

#[tokio::test]
async fn c6_two_processes_state_the_worse_of_both() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    let (a, b) = (
        sketch(url.as_str(), &prefix, "a"),
        sketch(url.as_str(), &prefix, "b"),
    );
    let epoch = a.open(Start::First).await.expect("opened").epoch.number;
    let joined = b.open(Start::Again).await.expect("opened");
    assert_eq!(
        (joined.epoch.number, joined.earlier),
        (epoch, Earlier::Nothing),
        "joins what is whole"
    );
    for _ in 0..2 {
        a.report(epoch, report(70, 20, 2_250), None)
            .await
            .expect("taken");
        b.report(epoch, report(60, 900, 3_000), None)
            .await
            .expect("taken");
    }
    let stated = a
        .snapshot(&Scope::Collections(vec![namespace()]))
        .await
        .expect("answers")
        .report
        .expect("reported");
    assert_eq!(stated.watermark, Position(60));
    assert!(stated.age_ms >= 900, "{stated:?}");
    assert!(stated.invalidation_ms >= 3_000, "{stated:?}");
    tokio::time::sleep(Duration::from_millis(300)).await;
    a.report(epoch, report(80, 0, 2_250), None)
        .await
        .expect("taken");
    let later = a
        .snapshot(&Scope::Collections(vec![namespace()]))
        .await
        .expect("answers")
        .report
        .expect("reported");
    assert_eq!(later.watermark, Position(60));
    assert!(
        later.invalidation_ms >= 3_300,
        "what b has not purged gets older: {later:?}"
    );
}

#[tokio::test]
async fn c8_a_process_that_is_gone_takes_what_it_matched_with_it() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    let short = |member: &str| {
        let settings = freshet_invalidation::sketch::RedisSettings {
            server: server(url.as_str()),
            prefix: prefix.clone(),
            member: member.to_owned(),
            operation_ms_max: 2_000,
            lease_ms: 200,
        };
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        RedisSketch::new(
            settings,
            limits(),
            clock,
            freshet_invalidation::sketch::Entropy([1; 32]),
        )
        .expect("a URL")
    };
    let (a, b) = (short("a"), short("b"));
    let epoch = a.open(Start::First).await.expect("opened").epoch.number;
    b.open(Start::Again).await.expect("opened");
    b.report(epoch, report(1, 0, 0), None).await.expect("taken");
    let mut last = a.report(epoch, report(1, 0, 0), None).await;
    for _ in 0..400 {
        if last.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        last = a.report(epoch, report(1, 0, 0), None).await;
    }
    assert!(
        matches!(last, Err(SketchError::EpochChanged(new)) if new > epoch),
        "{last:?}"
    );
    assert!(
        a.snapshot(&Scope::Collections(vec![namespace()]))
            .await
            .expect("answers")
            .saturated
    );
}

fn names_everything() -> Revive {
    Arc::new(|_: &Namespace, key: &Key| -> Option<Resource> {
        if *key == query().key {
            Some(query())
        } else {
            Some(record(1))
        }
    })
}

#[tokio::test]
async fn c8_a_sketch_that_outlived_its_process_is_whole_once_all_is_matched_again() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    let first = stage_on(sketch(url.as_str(), &prefix, "a"), Start::First, None);
    first.progress(7).await;
    first.read(query(), 7, lives(50, 50), &[]).await;
    let epoch = first.header().await.epoch;
    first.end().await;

    let again = stage_on(
        sketch(url.as_str(), &prefix, "a"),
        Start::Again,
        Some(names_everything()),
    );
    // A change that happened while nobody listened comes with the resumed feed.
    again.change(9, 1, Image::Absent, state(1, 20)).await;
    assert_eq!(*again.resumed.lock(), Some(7u64.to_le_bytes().to_vec()));
    let header = again.header().await;
    assert_eq!(header.epoch, epoch, "the same life");
    assert!(!header.saturated);
    assert!(
        again.contains(&query()).await,
        "matched with what the earlier process had issued"
    );
    assert_eq!(
        header.invalidation_ms,
        u32::MAX,
        "its purges are not known to be done"
    );
}

#[tokio::test]
async fn c8_a_restart_that_cannot_name_what_is_out_begins_anew() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    let first = stage_on(sketch(url.as_str(), &prefix, "a"), Start::First, None);
    first.progress(7).await;
    first.read(query(), 7, lives(50, 50), &[]).await;
    let epoch = first.header().await.epoch.number;
    first.end().await;
    let again = stage_on(sketch(url.as_str(), &prefix, "a"), Start::Again, None);
    again.progress(9).await;
    let header = again.header().await;
    assert!(header.saturated && header.epoch.number > epoch);
    assert_eq!(*again.resumed.lock(), None);
}

#[tokio::test]
async fn c8_a_server_that_comes_back_with_an_older_state_begins_a_new_epoch() {
    let server = Parts::own_redis().await.expect("Redis");
    let stage = stage_on(sketch(server.url.as_str(), "f", "a"), Start::First, None);
    stage.progress(1).await;
    let client = redis::Client::open(server.url.as_str()).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("connects");
    let save = redis::cmd("SAVE");
    let () = save.query_async(&mut connection).await.expect("saved");
    // Issued after the state was saved: the server that comes back knows nothing of it.
    stage.read(query(), 1, lives(10, 10), &[]).await;
    let before = stage.header().await;
    assert!(!before.saturated);
    server.node.kill().await.expect("killed");
    server.node.restart().await.expect("restarted");
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    let after = stage.header().await;
    assert!(
        after.saturated && after.epoch.number > before.epoch.number,
        "{after:?}"
    );
    assert!(stage.contains(&query()).await);
}

#[tokio::test]
async fn c8_a_server_whose_clock_was_set_begins_a_new_epoch() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    // Ours does not move, so the server's leaps.
    let clock = Arc::new(ManualClock::at(5_000));
    let store = redis(url.as_str(), &prefix, "a", limits(), clock.clone());
    let epoch = store.open(Start::First).await.expect("opened").epoch.number;
    let mut last = Ok(Vec::new());
    for _ in 0..200 {
        last = store.report(epoch, report(1, 0, 0), None).await;
        if last.is_err() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(last, Err(SketchError::EpochChanged(epoch)));
    // Ours leaps: the server's was set back, and what ends by it would never end.
    let new = store.saturate(epoch, Position(1)).await.expect("begun");
    let one = store.report(new.number, report(1, 0, 0), None).await;
    assert_eq!(one, Ok(Vec::new()));
    clock.advance_ms(60_000);
    let two = store.report(new.number, report(1, 0, 0), None).await;
    assert_eq!(two, Err(SketchError::EpochChanged(new.number)));
}

#[tokio::test]
async fn c8_who_comes_while_the_sketch_is_saturated_purges_too() {
    let url = Parts::redis().await.expect("Redis");
    let prefix = fresh_database_name();
    // It begins the epoch, and is gone before it reported or had anything purged.
    let gone = sketch(url.as_str(), &prefix, "a");
    let begun = gone.open(Start::Again).await.expect("opened");
    assert_eq!(begun.earlier, Earlier::Lost);
    let next = sketch(url.as_str(), &prefix, "b");
    let found = next.open(Start::Again).await.expect("opened");
    assert_eq!((found.epoch, found.earlier), (begun.epoch, Earlier::Lost));
}
