//! The feed of changes: what was written, in order, with both images, and where it stands to positions.

use std::time::Duration;

use bson::{RawBson, rawdoc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::Position;
use freshet_gateway::store::{EmbeddedOptions, EmbeddedStore, Store};
use freshet_invalidation::ingest::port::{Batch, Source, SourceError};
use rstest::rstest;

use super::harness::{Home, Kind, clock, id, instant, open};

const PATIENCE: Duration = Duration::from_secs(20);

/// Reads until `count` changes of this collection have come.
async fn take(source: &mut dyn Source, home: &Home, count: usize) -> (Vec<ChangeEvent>, Batch) {
    let begun = instant();
    let mut events = Vec::new();
    loop {
        assert!(
            begun.elapsed() < PATIENCE,
            "{} of {count} came",
            events.len()
        );
        let batch = source.next().await.unwrap();
        let ours = batch
            .events
            .iter()
            .filter(|event| event.namespace == home.namespace);
        events.extend(ours.cloned());
        if events.len() >= count {
            assert_eq!(events.len(), count);
            return (events, batch);
        }
    }
}

/// A source that delivers from now on.
async fn watch(home: &Home) -> Box<dyn Source> {
    let mut source = home.store.source(None);
    source.next().await.unwrap();
    source
}

fn record(event: &ChangeEvent) -> (RawBson, Image, Image) {
    match &event.change {
        Change::Record { id, before, after } => (id.clone(), before.clone(), after.clone()),
        Change::Collection => panic!("not a record"),
    }
}

#[rstest]
#[tokio::test]
async fn every_write_has_its_change(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = open(kind).await;
    let mut source = watch(&home).await;
    let (one, ns) = (RawBson::Int32(1), &home.namespace);
    let mut acknowledged = vec![home.insert(&[rawdoc! { "_id": 1, "a": 1 }]).await];
    let updated = home
        .store
        .update(ns, id(&one), &rawdoc! { "$set": { "a": 2 } })
        .await
        .unwrap();
    acknowledged.push(updated.unwrap().position);
    let put = home
        .store
        .put(ns, id(&one), &rawdoc! { "a": 3 })
        .await
        .unwrap();
    acknowledged.push(put.position);
    // Changes nothing, so it is no change.
    let same = rawdoc! { "$set": { "a": 3 } };
    home.store.update(ns, id(&one), &same).await.unwrap();
    acknowledged.push(home.store.delete(ns, id(&one)).await.unwrap().unwrap());
    let (events, _) = take(&mut *source, &home, 4).await;
    let known = |a: i32| Image::Known(rawdoc! { "_id": 1, "a": a });
    let expected = [
        (one.clone(), Image::Absent, known(1)),
        (one.clone(), known(1), known(2)),
        (one.clone(), known(2), known(3)),
        (one, known(3), Image::Absent),
    ];
    for ((event, acknowledged), expected) in events.iter().zip(acknowledged).zip(expected) {
        assert_eq!(record(event), expected);
        assert!(
            event.position <= acknowledged,
            "a change is not after its acknowledgement"
        );
    }
    assert!(
        events
            .windows(2)
            .all(|pair| pair[0].position < pair[1].position)
    );
}

#[rstest]
#[tokio::test]
async fn what_is_inserted_together_shares_a_position(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    let mut source = watch(&home).await;
    let many: Vec<_> = (0..20).map(|number| rawdoc! { "_id": number }).collect();
    home.insert(&many).await;
    let (events, _) = take(&mut *source, &home, 20).await;
    assert!(
        events
            .iter()
            .all(|event| event.position == events[0].position)
    );
    let ids: Vec<RawBson> = events.iter().map(|event| record(event).0).collect();
    assert_eq!(ids, (0..20).map(RawBson::Int32).collect::<Vec<_>>());
}

#[rstest]
#[tokio::test]
async fn the_watermark_reaches_every_acknowledged_write(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    let mut source = watch(&home).await;
    let written = home.insert(&[rawdoc! { "_id": 1 }]).await;
    let begun = instant();
    loop {
        assert!(begun.elapsed() < PATIENCE);
        let batch = source.next().await.unwrap();
        if batch.watermark.is_some_and(|mark| mark.position >= written) {
            break;
        }
    }
}

#[rstest]
#[tokio::test]
async fn a_source_goes_on_where_another_stopped(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = open(kind).await;
    let mut source = watch(&home).await;
    home.insert(&[rawdoc! { "_id": 1 }]).await;
    let (_, batch) = take(&mut *source, &home, 1).await;
    drop(source);
    home.insert(&[rawdoc! { "_id": 2 }]).await;
    let mut source = home.store.source(batch.resume);
    let (events, _) = take(&mut *source, &home, 1).await;
    assert_eq!(record(&events[0]).0, RawBson::Int32(2));
}

#[tokio::test]
async fn a_log_that_was_let_go_is_a_gap_and_no_transaction_is_cut_in_two() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        changes_max: 10,
        ..EmbeddedOptions::new(directory.path())
    };
    let store = EmbeddedStore::open(options, clock()).unwrap();
    let namespace = freshet_core::name::Namespace::new("shop", "things").unwrap();
    let mut source = store.source(None);
    let begin = source.next().await.unwrap().resume;
    for round in 0..6 {
        let three: Vec<_> = (0..3)
            .map(|part| rawdoc! { "_id": round * 10 + part })
            .collect();
        store.insert(&namespace, &three).await.unwrap();
    }
    let lost = store.source(begin).next().await;
    assert!(matches!(lost, Err(SourceError::Gap(_))), "{lost:?}");
    // Whoever is within what is kept goes on, and gets whole transactions only.
    let token = |sequence: u64| {
        let birth = 1_700_000_000_000_u64.to_be_bytes();
        Some([birth, sequence.to_be_bytes()].concat())
    };
    let batch = store.source(token(3)).next().await.unwrap();
    assert_eq!(batch.events.len(), 9);
    assert_eq!(batch.through, Position(6));
    assert!(store.source(token(2)).next().await.is_err());
    // A token of another store, one from the future, and what is no token at all.
    let foreign = Some([7_u64.to_be_bytes(), 5_u64.to_be_bytes()].concat());
    for bad in [foreign, token(7), Some(b"what".to_vec())] {
        let mut source = store.source(bad);
        assert!(matches!(source.next().await, Err(SourceError::Gap(_))));
        assert_eq!(
            source.next().await.unwrap().through,
            Position(6),
            "then it goes on from now"
        );
    }
}
