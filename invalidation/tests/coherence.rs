//! Rules C1–C8 and C16 through the facade, one race a test. The clock moves only by hand.

mod conformance;
mod stage;

use std::sync::atomic::Ordering;

use conformance::SystemClock;
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::freshness::{
    ResourceKind, SurrogateKey, collection_surrogate, database_surrogate,
};
use freshet_core::time::{Clock, Position};
use freshet_invalidation::ingest::port::{Batch, SourceError};
use freshet_invalidation::sketch::port::Start;
use freshet_invalidation::{Images, NotCached};
use stage::{Stage, lives, namespace, query, record, state};

#[tokio::test]
async fn c1_a_read_is_made_at_or_after_what_is_matched_and_known() {
    let stage = Stage::new().await;
    stage.change(7, 1, Image::Absent, state(1, 20)).await;
    let ticket = stage.pipeline.begin(query()).expect("begins");
    assert_eq!(ticket.from, Position(7));
    assert_eq!(
        stage.settle(ticket, 6, lives(10, 0), &[]).await,
        Err(NotCached::ReadTooEarly)
    );
    stage.pipeline.observe(Position(9));
    assert_eq!(
        stage.pipeline.begin(query()).expect("begins").from,
        Position(9)
    );
}

#[tokio::test]
async fn c1_c2_a_write_between_read_and_settle_is_not_lost() {
    let stage = Stage::new().await;
    let ticket = stage.pipeline.begin(query()).expect("begins");
    // Read at 1; then a record enters the result.
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    assert_eq!(
        stage.settle(ticket, 4, lives(10, 10), &[]).await,
        Err(NotCached::InvalidatedMeanwhile)
    );
    assert!(!stage.contains(&query()).await, "nothing was issued");
}

#[tokio::test]
async fn c2_a_write_at_the_reads_position_was_seen_by_it() {
    let stage = Stage::new().await;
    let ticket = stage.pipeline.begin(query()).expect("begins");
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    assert_eq!(stage.settle(ticket, 5, lives(10, 10), &[]).await, Ok(()));
    assert!(!stage.contains(&query()).await);
}

#[tokio::test]
async fn c2_a_read_before_the_event_arrives_but_after_the_write_stays_fresh() {
    let stage = Stage::new().await;
    // This gateway wrote at 5 and reads; the change comes over the feed afterwards.
    stage.pipeline.observe(Position(5));
    stage.read(record(1), 5, lives(10, 10), &[]).await;
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    assert!(!stage.contains(&record(1)).await);
    assert_eq!(stage.cache.purged.lock().len(), 0);
}

#[tokio::test]
async fn c2_a_member_that_changed_meanwhile_spoils_the_answer() {
    let stage = Stage::new().await;
    let ticket = stage.pipeline.begin(query()).expect("begins");
    // A change that the query's filter does not see (another field would do), but the record's copy does.
    stage.change(5, 2, state(2, 3), state(2, 4)).await;
    let members = [record(2).key];
    assert_eq!(
        stage.settle(ticket, 4, lives(10, 10), &members).await,
        Err(NotCached::InvalidatedMeanwhile)
    );
}

#[tokio::test]
async fn a_read_that_took_too_long_is_not_cached() {
    let stage = Stage::new().await;
    let ticket = stage.pipeline.begin(record(1)).expect("begins");
    stage.clock.advance_ms(30_000);
    stage.progress(1).await;
    assert_eq!(
        stage.settle(ticket, 1, lives(10, 0), &[]).await,
        Err(NotCached::ReadTooSlow)
    );
}

#[tokio::test]
async fn c3_effects_reach_sketch_tier_and_caches_and_end_with_the_horizon() {
    let stage = Stage::new().await;
    stage.read(query(), 1, lives(10, 100), &[]).await;
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    assert!(stage.contains(&query()).await);
    assert!(
        !stage.contains(&record(1)).await,
        "nobody has a copy of the record"
    );
    assert!(stage.tier.keys.lock().contains(&query().key));
    let surrogate = SurrogateKey::resource(ResourceKind::Query, &query().key);
    stage.clock.advance_ms(2);
    stage
        .until("the purge is sent", || stage.cache.times(surrogate) == 1)
        .await;
    stage.clock.advance_ms(2_000);
    stage
        .until("the purge is repeated and confirmed", || {
            stage.cache.times(surrogate) == 2 && stage.pipeline.status().purges_pending == 0
        })
        .await;
    // Confirmed at p: p + M is left of t0 + S + M.
    for _ in 0..200 {
        stage.clock.advance_ms(50);
        stage.progress(5).await;
    }
    stage.clock.advance_ms(1);
    assert!(!stage.contains(&query()).await);
}

#[tokio::test]
async fn c4_embedded_records_are_copies_of_records() {
    let stage = Stage::new().await;
    let members = [record(1).key, record(2).key];
    stage.read(query(), 1, lives(10, 0), &members).await;
    stage.change(5, 1, state(1, 20), state(1, 21)).await;
    assert!(stage.contains(&record(1)).await);
    assert!(stage.contains(&query()).await);
    assert!(!stage.contains(&record(2)).await);
}

#[tokio::test]
async fn c19_a_change_delivered_twice_has_one_effect() {
    let stage = Stage::new().await;
    stage.read(query(), 1, lives(10, 10), &[]).await;
    for _ in 0..2 {
        stage.change(5, 1, Image::Absent, state(1, 20)).await;
    }
    assert_eq!(stage.pipeline.status().purges_pending, 1);
    stage.read(query(), 5, lives(10, 10), &[]).await;
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    stage.clock.advance_ms(20_000);
    stage.progress(6).await;
    assert!(
        !stage.contains(&query()).await,
        "the copy read after it is fresh"
    );
}

#[tokio::test]
async fn c5_a_failing_purge_keeps_the_long_horizon_and_unbounds_the_delay() {
    let stage = Stage::new().await;
    stage.read(record(1), 1, lives(5, 60), &[]).await;
    stage.cache.down.store(true, Ordering::SeqCst);
    stage.change(5, 1, state(1, 1), state(1, 2)).await;
    assert!(stage.header().await.invalidation_ms < 10_000);
    stage.clock.advance_ms(12_000);
    stage.progress(6).await;
    assert_eq!(stage.header().await.invalidation_ms, u32::MAX);
    assert!(
        stage.contains(&record(1)).await,
        "past p + M, but nothing is confirmed"
    );
    stage.cache.down.store(false, Ordering::SeqCst);
    stage
        .until("backoff ends and the purge is confirmed", || {
            stage.clock.advance_ms(100);
            stage.pipeline.status().purges_pending == 0
        })
        .await;
    stage.clock.advance_ms(5_001);
    stage.progress(8).await;
    assert!(!stage.contains(&record(1)).await);
    stage.clock.advance_ms(61_000);
    stage.progress(9).await;
    assert!(
        stage.header().await.invalidation_ms < 10_000,
        "measured, and over"
    );
}

#[tokio::test]
async fn c6_the_sketch_states_its_watermark_and_how_old_that_is() {
    let stage = Stage::new().await;
    stage.progress(9).await;
    stage.clock.advance_ms(700);
    let header = stage.header().await;
    assert_eq!((header.watermark, header.age_ms), (Position(9), 700));
    stage.send(Ok(stage.batch(9, vec![])));
    stage
        .until("an idle database makes progress, too", || {
            stage.pipeline.status().watermark_age_ms == 0
        })
        .await;
    assert_eq!(stage.header().await.age_ms, 0);
}

#[tokio::test]
async fn c7_an_interrupted_feed_ages_and_admits_nothing() {
    let stage = Stage::new().await;
    stage.read(record(1), 1, lives(10, 0), &[]).await;
    stage.send(Err(SourceError::Unavailable("primary lost".into())));
    stage
        .until("it is noticed", || !stage.pipeline.status().live)
        .await;
    assert_eq!(
        stage.pipeline.begin(record(1)).expect_err("no"),
        NotCached::MatcherBehind
    );
    stage.clock.advance_ms(90_000);
    assert_eq!(stage.header().await.age_ms, 90_000);
    stage.progress(2).await;
    assert!(stage.pipeline.begin(record(1)).is_ok());
}

#[tokio::test]
async fn c7_a_feed_that_hangs_admits_nothing_after_a_while() {
    let stage = Stage::new().await;
    stage.clock.advance_ms(10_001);
    assert_eq!(
        stage.pipeline.begin(record(1)).expect_err("no"),
        NotCached::MatcherBehind
    );
}

#[tokio::test]
async fn c8_lost_changes_make_everything_stale_until_no_old_copy_is_left() {
    let stage = Stage::new().await;
    stage.read(record(1), 1, lives(10, 100), &[]).await;
    let before = stage.header().await.epoch;
    let ticket = stage.pipeline.begin(record(2)).expect("begins");
    stage.send(Err(SourceError::Gap("history lost".into())));
    stage
        .until("a new epoch begins", || {
            stage.pipeline.status().epoch > before.number
        })
        .await;
    assert_eq!(
        stage.pipeline.begin(record(2)).expect_err("no"),
        NotCached::SketchUnavailable
    );
    let header = stage.header().await;
    assert!(header.saturated && header.age_ms == u32::MAX && header.invalidation_ms == u32::MAX);
    stage.progress(50).await;
    assert_eq!(
        stage.settle(ticket, 60, lives(10, 0), &[]).await,
        Err(NotCached::EpochChanged)
    );
    let header = stage.header().await;
    assert!(header.saturated);
    assert_ne!(header.epoch.salt, before.salt);
    assert_eq!(
        header.invalidation_ms,
        u32::MAX,
        "the database is not purged yet"
    );
    assert_eq!(stage.tier.all.load(Ordering::SeqCst), 1);

    // Reads are cached anew, from positions that the feed covers.
    assert_eq!(
        stage.pipeline.begin(record(1)).expect("begins").from,
        Position(50)
    );
    stage.clock.advance_ms(2);
    stage
        .until("the database is purged", || {
            stage.cache.times(database_surrogate("d")) == 1
        })
        .await;
    stage.clock.advance_ms(2_000);
    stage
        .until("the purge is confirmed", || {
            stage.pipeline.status().purges_pending == 0
        })
        .await;
    stage
        .until("the delay is bounded", || {
            stage.pipeline.status().invalidation_ms < 10_000
        })
        .await;
    // p + max M, a tenth of max(S + M).
    stage.clock.advance_ms(59_000);
    stage.progress(51).await;
    assert!(stage.header().await.saturated);
    stage.clock.advance_ms(1_100);
    stage.progress(52).await;
    assert!(!stage.header().await.saturated);
}

/// Row C1 of the catalogue of change stream bugs: ten times a second, for ever.
#[tokio::test]
async fn c8_a_feed_that_loses_its_history_again_and_again_is_given_time() {
    let stage = Stage::new().await;
    let begun = SystemClock::new();
    for _ in 0..50 {
        stage.send(Ok(Batch::default()));
        stage.send(Err(SourceError::Gap("history lost".into())));
    }
    stage
        .until("all of them were noticed", || {
            stage.tier.all.load(Ordering::SeqCst) == 50
        })
        .await;
    // 5 and 10 ms, then 20 each; the last is not waited for.
    assert!(begun.now().0 >= 15 + 47 * 20, "{:?}", begun.now());
    stage.progress(2).await;
    assert!(stage.pipeline.begin(record(1)).is_ok(), "and it goes on");
}

#[tokio::test]
async fn c8_without_a_confirmed_purge_it_takes_the_longest_lifetime() {
    let stage = Stage::new().await;
    stage.cache.down.store(true, Ordering::SeqCst);
    stage.send(Err(SourceError::Gap("history lost".into())));
    stage.progress(50).await;
    stage.clock.advance_ms(659_000);
    stage.progress(51).await;
    assert!(stage.header().await.saturated);
    stage.clock.advance_ms(1_100);
    stage.progress(52).await;
    assert!(!stage.header().await.saturated);
}

#[tokio::test]
async fn c8_a_restart_without_state_is_saturated() {
    let stage = Stage::local(Start::Again);
    stage.progress(3).await;
    assert!(stage.header().await.saturated);
    stage.clock.advance_ms(2);
    stage
        .until("the database is purged", || {
            stage.cache.times(database_surrogate("d")) == 1
        })
        .await;
    let first = Stage::local(Start::First);
    first.progress(3).await;
    assert!(!first.header().await.saturated);
    assert_eq!(first.cache.purged.lock().len(), 0);
}

#[tokio::test]
async fn c11_a_dropped_collection_is_purged_as_a_whole() {
    let stage = Stage::new().await;
    stage.read(record(1), 1, lives(10, 10), &[]).await;
    stage.read(query(), 1, lives(10, 10), &[]).await;
    let dropped = ChangeEvent {
        namespace: namespace(),
        position: Position(5),
        change: Change::Collection,
    };
    stage.send(Ok(stage.batch(5, vec![dropped])));
    stage.reaches(5).await;
    assert!(stage.contains(&record(1)).await && stage.contains(&query()).await);
    assert_eq!(stage.tier.collections.load(Ordering::SeqCst), 1);
    stage.clock.advance_ms(2);
    stage
        .until("the purge is sent", || {
            stage.cache.times(collection_surrogate(&namespace())) == 1
        })
        .await;
}

#[tokio::test]
async fn c14_a_read_begun_before_a_collection_was_dropped_or_created_is_not_cached() {
    let stage = Stage::new().await;
    let shape = stage.pipeline.shape();
    let ticket = stage.pipeline.begin(query()).expect("begins");
    assert_eq!(ticket.shape, shape);
    let other = freshet_core::name::Namespace::new("d", "other").expect("valid");
    let created = ChangeEvent {
        namespace: other,
        position: Position(5),
        change: Change::Collection,
    };
    stage.send(Ok(stage.batch(5, vec![created])));
    stage.reaches(5).await;
    assert_eq!(
        stage.settle(ticket, 9, lives(10, 10), &[]).await,
        Err(NotCached::InvalidatedMeanwhile),
        "it may have read a view in the collection's place"
    );
    assert!(stage.pipeline.shape() > shape, "is to be looked at again");
}

#[tokio::test]
async fn c7_what_the_process_keeps_is_not_handed_out_again_when_changes_do_not_come_in() {
    let stage = Stage::new().await;
    let serves = |at_ms: u64| {
        stage
            .pipeline
            .serves(freshet_core::time::Moment(1_000_000 + at_ms))
    };
    assert!(serves(10_000));
    assert!(!serves(10_001), "the watermark is too old");
    stage.send(Err(SourceError::Unavailable("gone".to_owned())));
    stage.until("it hears of that", || !serves(0)).await;
}

#[tokio::test]
async fn c16_before_it_runs_nothing_is_cached_and_the_sketch_bounds_nothing() {
    let stage = Stage::local(Start::First);
    assert!(stage.pipeline.begin(record(1)).is_err());
    let header = stage.header().await;
    assert!(header.saturated);
    assert_eq!(
        (header.age_ms, header.invalidation_ms),
        (u32::MAX, u32::MAX)
    );
}

#[tokio::test]
async fn member_sets_stand_in_for_missing_images() {
    let stage = Stage::new().await;
    stage.pipeline.declare(&namespace(), Images::AfterOnly);
    stage
        .read(query(), 1, lives(10, 10), &[record(1).key])
        .await;
    let Image::Known(low) = state(2, 3) else {
        unreachable!()
    };
    stage
        .change(5, 2, Image::Unknown, Image::Later(Some(low.clone())))
        .await;
    assert!(
        !stage.contains(&query()).await,
        "2 is not in it and does not match"
    );
    stage
        .change(6, 1, Image::Unknown, Image::Later(Some(low)))
        .await;
    assert!(stage.contains(&query()).await, "1 left it");
}

#[tokio::test]
async fn lifetimes_follow_the_writes() {
    let stage = Stage::new().await;
    let ticket = stage.pipeline.begin(record(1)).expect("begins");
    assert_eq!(
        stage.pipeline.lifetimes(&ticket, &[]),
        lives(60, 600),
        "no write was ever seen"
    );
    for i in 0..3_000u64 {
        let event = Stage::event(10 + i, 1, state(1, 1), state(1, 2));
        stage.clock.advance_ms(100);
        stage.send(Ok(stage.batch(10 + i, vec![event])));
        if i % 100 == 99 {
            stage.reaches(10 + i).await;
        }
    }
    // Ten writes a second would be a lifetime below the floor.
    let hot = stage.pipeline.lifetimes(&ticket, &[]);
    assert!(hot.is_zero(), "{hot:?}");
    assert_eq!(
        stage.settle(ticket, 5_000, hot, &[]).await,
        Err(NotCached::ShortLived)
    );
}

#[tokio::test]
async fn metrics_are_registered_and_move() {
    let stage = Stage::new().await;
    let mut registry = prometheus_client::registry::Registry::default();
    stage.pipeline.register(&mut registry);
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    let _ = stage.pipeline.begin(record(1)).expect("begins");
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).expect("encodes");
    assert!(
        text.contains("freshet_invalidation_events_total 1"),
        "{text}"
    );
    assert!(text.contains("freshet_invalidation_live"), "{text}");
}
