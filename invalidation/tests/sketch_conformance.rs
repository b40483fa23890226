//! One suite for both sketches: in process with a clock that is moved by hand, in Redis with the server's; and for Redis
//! as it is run: one server, over TLS with few rights, a cluster.

mod conformance;

use conformance::{Adapter, Bench, Kind, M1, holds, namespace};
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Position, Ttl};
use freshet_invalidation::sketch::port::{
    Earlier, Read, Report, Scope, Settled, SketchError, Start,
};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use rstest::rstest;

fn lives(m: u32, s: u32) -> Lifetimes {
    Lifetimes {
        m: Ttl(m),
        s: Ttl(s),
    }
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_write_before_any_read_is_not_stale(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    assert_eq!(bench.write("1", 5).await, Ok(false));
    assert!(!bench.contains("1").await);
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c3_stale_until_the_longest_horizon_and_then_gone(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    let start = bench.now();
    for (m, s) in [(1, 0), (2, 1), (0, 5), (0, 1)] {
        assert_eq!(bench.read("1", 1, lives(m, s)).await, Ok(Settled::Recorded));
    }
    assert!(!bench.contains("1").await, "nothing changed yet");
    assert_eq!(bench.write("1", 2).await, Ok(true));
    let gone = bench.gone_after("1", start).await;
    assert!((4_990..30_000).contains(&gone), "{gone}");
    assert_eq!(bench.snapshot().await.stale_keys, 0);
}

/// A client that asks for a whole database must hear of collections that the database no longer lists.
#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c8_a_whole_database_is_what_the_sketch_knows_of_it(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    let own = Scope::Database(namespace().db().into());
    let other = Scope::Database(format!("{}x", namespace().db()).into());
    bench.read("1", 1, lives(60, 0)).await.expect("recorded");
    bench.write("1", 2).await.expect("taken");
    let key = namespace().record_key("1");
    assert!(holds(&bench.snapshot_of(&own).await, &key));
    assert!(!holds(&bench.snapshot_of(&other).await, &key));
    bench
        .store
        .report_collection(bench.epoch, &namespace(), Position(3))
        .await
        .expect("taken");
    assert!(holds(&bench.snapshot_of(&own).await, &key));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c19_the_same_write_twice_is_one(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    bench.read("1", 1, lives(4, 0)).await.expect("recorded");
    assert_eq!(bench.write("1", 2).await, Ok(true));
    assert_eq!(bench.write("1", 2).await, Ok(false));
    assert_eq!(bench.snapshot().await.stale_keys, 1);
    // A copy read after the write is not made stale by hearing of the write again, or of an older one.
    assert_eq!(
        bench.read("1", 2, lives(60, 0)).await,
        Ok(Settled::Recorded)
    );
    assert_eq!(bench.write("1", 2).await, Ok(false));
    assert_eq!(bench.write("1", 1).await, Ok(false));
    bench.pass(4_100).await;
    assert!(!bench.contains("1").await);
    let snapshot = bench.snapshot().await;
    assert!(
        snapshot.bits.iter().all(|byte| *byte == 0),
        "counted in once, counted out once"
    );
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c2_a_read_before_the_last_change_is_refused(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    bench.write("1", 10).await.expect("taken");
    assert_eq!(
        bench.read("1", 9, M1).await,
        Ok(Settled::InvalidatedAt(Position(10)))
    );
    assert_eq!(bench.read("1", 10, M1).await, Ok(Settled::Recorded));
    assert_eq!(bench.read("1", 11, M1).await, Ok(Settled::Recorded));
    assert_eq!(
        bench.read("2", 9, M1).await,
        Ok(Settled::Recorded),
        "another key"
    );
    assert!(!bench.contains("1").await);
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c2_what_is_forgotten_refuses_older_reads_of_everything(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.retention_ms = 1_000).await;
    bench.write("1", 10).await.expect("taken");
    bench.pass(1_200).await;
    assert_eq!(
        bench.read("2", 9, M1).await,
        Ok(Settled::InvalidatedAt(Position(10)))
    );
    assert_eq!(bench.read("1", 10, M1).await, Ok(Settled::Recorded));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c2_more_changes_than_can_be_remembered_raise_the_floor(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.changes_max = 8).await;
    for i in 0..40u64 {
        bench.write(&i.to_string(), i + 1).await.expect("taken");
    }
    for i in 0..40u64 {
        let read = bench.read(&i.to_string(), i, M1).await.expect("answered");
        assert!(
            matches!(read, Settled::InvalidatedAt(p) if p > Position(i)),
            "{i}: {read:?}"
        );
    }
    assert_eq!(bench.read("0", 40, M1).await, Ok(Settled::Recorded));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c3_a_confirmed_purge_leaves_m(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    bench.read("1", 1, lives(1, 60)).await.expect("recorded");
    bench.write("1", 2).await.expect("taken");
    bench.pass(1_500).await;
    bench.confirm("1", 1).await;
    bench.pass(1_100).await;
    assert!(
        bench.contains("1").await,
        "that purge answered to an earlier change"
    );
    let confirmed = bench.now();
    bench.confirm("1", 2).await;
    let gone = bench.gone_after("1", confirmed).await;
    assert!((990..30_000).contains(&gone), "{gone}");
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c3_a_later_change_waits_for_its_own_purge(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    bench.read("1", 1, lives(1, 60)).await.expect("recorded");
    bench.write("1", 2).await.expect("taken");
    bench.read("1", 2, lives(1, 60)).await.expect("recorded");
    assert_eq!(bench.write("1", 3).await, Ok(true));
    bench.confirm("1", 2).await;
    bench.pass(1_300).await;
    assert!(
        bench.contains("1").await,
        "the second copy may still be handed out"
    );
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c4_purging_a_record_does_not_reach_copies_inside_results(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    let start = bench.now();
    bench
        .read_embedded("1", 1, lives(1, 4))
        .await
        .expect("recorded");
    assert_eq!(bench.write("1", 2).await, Ok(true));
    bench.confirm("1", 2).await;
    let gone = bench.gone_after("1", start).await;
    assert!((4_990..30_000).contains(&gone), "{gone}");
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn the_way_to_the_cache_is_added(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.transfer_ms = 1_000).await;
    let start = bench.now();
    bench.read("1", 1, lives(1, 1)).await.expect("recorded");
    bench.write("1", 2).await.expect("taken");
    let gone = bench.gone_after("1", start).await;
    assert!((2_990..30_000).contains(&gone), "{gone}");
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_dropped_collection_takes_all_its_copies_along(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    for id in ["1", "2", "3"] {
        bench.read(id, 1, lives(30, 30)).await.expect("recorded");
    }
    bench
        .store
        .report_collection(bench.epoch, &namespace(), Position(2))
        .await
        .expect("taken");
    for id in ["1", "2", "3"] {
        assert!(bench.contains(id).await);
    }
    assert_eq!(
        bench.read("4", 1, M1).await,
        Ok(Settled::InvalidatedAt(Position(2)))
    );
    assert_eq!(bench.read("1", 2, M1).await, Ok(Settled::Recorded));
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c8_a_new_epoch_is_saturated_refuses_the_old_and_ends(#[case] adapter: Adapter) {
    let mut bench = Bench::with(adapter, |limits| limits.caps = lives(3, 2)).await;
    let old = bench.epoch;
    bench.read("1", 1, lives(3, 2)).await.expect("recorded");
    let start = bench.now();
    let epoch = bench
        .store
        .saturate(old, Position(7))
        .await
        .expect("new epoch");
    assert!(epoch.number > old);
    let current = Err(SketchError::EpochChanged(epoch.number));
    assert_eq!(bench.read("1", 8, M1).await, current);
    assert!(bench.write("1", 9).await.is_err());
    assert!(bench.contains("anything").await);
    assert!(bench.snapshot().await.bits.is_empty());
    // Another process that noticed the same does not begin a third.
    assert_eq!(bench.store.saturate(old, Position(7)).await, Ok(epoch));
    bench.epoch = epoch.number;
    assert_eq!(
        bench.read("1", 6, M1).await,
        Ok(Settled::InvalidatedAt(Position(7)))
    );
    assert_eq!(bench.read("1", 7, lives(3, 2)).await, Ok(Settled::Recorded));
    assert_eq!(bench.write("1", 9).await, Ok(true));
    let whole = bench.gone_after("anything", start).await;
    assert!((4_990..30_000).contains(&whole), "{whole}");
    let gone = bench.gone_after("1", start).await;
    assert!(gone >= whole, "its copy was issued after the epoch began");
    assert_eq!(bench.snapshot().await.epoch, epoch);
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c8_a_confirmed_purge_of_everything_leaves_m(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.caps = lives(1, 60)).await;
    let start = bench.now();
    let epoch = bench
        .store
        .saturate(bench.epoch, Position(7))
        .await
        .expect("new epoch");
    bench
        .store
        .confirm_saturation(epoch.number)
        .await
        .expect("taken");
    let gone = bench.gone_after("anything", start).await;
    assert!((990..30_000).contains(&gone), "{gone}");
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn a_full_sketch_refuses(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.keys_max = 2).await;
    bench.read("1", 1, lives(60, 0)).await.expect("recorded");
    bench.read("2", 1, lives(5, 0)).await.expect("recorded");
    assert_eq!(bench.read("3", 1, M1).await, Err(SketchError::Full));
    assert_eq!(bench.read("1", 1, M1).await, Ok(Settled::Recorded));
    assert_eq!(bench.write("2", 2).await, Ok(true), "what is in stays in");
    bench.pass(5_200).await;
    assert_eq!(
        bench.read("3", 2, M1).await,
        Ok(Settled::Recorded),
        "room again"
    );
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c6_ages_go_on_from_the_report(#[case] adapter: Adapter) {
    let bench = Bench::new(adapter).await;
    assert_eq!(bench.snapshot().await.report, None);
    let report = Report {
        watermark: Position::from_timestamp(1_800_000_000, 3),
        age_ms: 40,
        invalidation_ms: 2_250,
    };
    // Redis learns the server's time with the first report.
    for _ in 0..2 {
        bench
            .store
            .report(bench.epoch, report, None)
            .await
            .expect("taken");
    }
    bench.pass(1_000).await;
    let stated = bench.snapshot().await.report.expect("reported");
    assert_eq!(stated.watermark, report.watermark);
    assert_eq!(stated.invalidation_ms, 2_250);
    assert!((1_040..20_000).contains(&stated.age_ms), "{stated:?}");
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn many_stale_keys_grow_the_filter(#[case] adapter: Adapter) {
    let bench = Bench::with(adapter, |limits| limits.changes_max = 100_000).await;
    let keys: Vec<Key> = (0..21_000)
        .map(|i| namespace().record_key(&i.to_string()))
        .collect();
    for chunk in keys.chunks(1_000) {
        bench.read_all(chunk, 1, lives(60, 0)).await;
        bench.write_all(chunk, 2).await;
    }
    let snapshot = bench.snapshot().await;
    assert_eq!((snapshot.stale_keys, snapshot.m), (21_000, 116_800 * 2));
    for key in keys.iter().step_by(97) {
        assert!(conformance::holds(&snapshot, key));
    }
    let wrong = (0..2_000).filter(|i| conformance::holds(&snapshot, &Key::from(format!("no{i}"))));
    assert!(wrong.count() < 40, "half full: far below 6 %");
}

/// 10⁵ random operations against the naive model: what is stale and usable is in the sketch, always.
#[rstest]
#[case(Adapter::Local, 100_000)]
#[case(Adapter::Redis(Kind::Plain), 20_000)]
#[case(Adapter::Redis(Kind::Guarded), 4_000)]
#[case(Adapter::Redis(Kind::Cluster), 4_000)]
#[tokio::test]
async fn no_false_negatives_ever(#[case] adapter: Adapter, #[case] operations: usize) {
    let bench = Bench::new(adapter).await;
    let mut random = SmallRng::seed_from_u64(11);
    // Every copy issued lives longer than the test; per key: least position of fresh copies, whether stale.
    let mut fresh = [None::<u64>; 200];
    let mut stale = [false; 200];
    let mut changed = [0u64; 200];
    let mut position = 1;
    for step in 0..operations {
        let i = random.random_range(0..200);
        let id = i.to_string();
        if random.random_bool(0.6) {
            let at = position - random.random_range(0..position.min(3));
            match bench
                .read(&id, at, lives(200, 400))
                .await
                .expect("answered")
            {
                Settled::Recorded => {
                    assert!(changed[i] <= at, "C2");
                    fresh[i] = Some(fresh[i].unwrap_or(at).min(at));
                }
                Settled::InvalidatedAt(_) => assert!(changed[i] > at, "nothing else refuses"),
            }
        } else {
            position += 1;
            let hit = bench.write(&id, position).await.expect("taken");
            assert_eq!(hit, fresh[i].is_some());
            changed[i] = position;
            stale[i] |= fresh[i].take().is_some();
        }
        if step % 500 == 0 {
            let snapshot = bench.snapshot().await;
            for (i, stale) in stale.iter().enumerate() {
                let key = namespace().record_key(&i.to_string());
                assert!(
                    !stale || conformance::holds(&snapshot, &key),
                    "step {step}: {key}"
                );
            }
            assert_eq!(snapshot.stale_keys, stale.iter().filter(|s| **s).count());
        }
    }
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn c8_a_start_that_is_not_the_first_is_saturated(#[case] adapter: Adapter) {
    let bench = Bench::unopened(adapter).await;
    let opened = bench.store.open(Start::Again).await.expect("opened");
    assert_eq!(opened.earlier, Earlier::Lost);
    assert!(bench.snapshot().await.saturated);
}

#[rstest]
#[case(Adapter::Local)]
#[case(Adapter::Redis(Kind::Plain))]
#[case(Adapter::Redis(Kind::Guarded))]
#[case(Adapter::Redis(Kind::Cluster))]
#[tokio::test]
async fn collections_that_nothing_is_left_of_make_room_and_leave_their_floor(
    #[case] adapter: Adapter,
) {
    let bench = Bench::with(adapter, |limits| {
        limits.collections_max = 1;
        limits.retention_ms = 500;
    })
    .await;
    bench.read("1", 1, M1).await.expect("recorded");
    bench.write("1", 5).await.expect("taken");
    let other = Namespace::new("d", "other").expect("valid");
    let key = other.record_key("1");
    let read = Read {
        key: &key,
        position: Position(4),
        lifetimes: M1,
        embedded: false,
    };
    let settle = async |position| {
        let read = Read {
            position: Position(position),
            ..read
        };
        bench.store.settle(bench.epoch, &other, &[read]).await
    };
    assert_eq!(settle(4).await, Err(SketchError::Full));
    bench.pass(1_600).await;
    let report = Report {
        watermark: Position(5),
        age_ms: 0,
        invalidation_ms: 0,
    };
    for _ in 0..2 {
        bench
            .store
            .report(bench.epoch, report, None)
            .await
            .expect("taken");
    }
    assert_eq!(
        settle(4).await,
        Ok(vec![Settled::InvalidatedAt(Position(5))])
    );
    assert_eq!(settle(5).await, Ok(vec![Settled::Recorded]));
}
