//! What is lost is called lost; what is not, is not lost.

use std::time::Duration;

use bson::{Document, RawBson, doc, rawdoc};
use freshet_core::time::Position;
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::{Batch, Source, SourceError};
use mongodb::{Client, Collection};
use rstest::rstest;

use super::harness::{Feed, PATIENCE, clock, images, instant, set_up, with_images};

#[tokio::test]
async fn a_token_that_the_server_cannot_resume_is_a_gap_and_then_it_goes_on() {
    let (client, clock, db) = set_up().await;
    let things: Collection<Document> = client.database(&db).collection("things");
    // There before the first source: its creation would be a change too.
    let created = client.database(&db).create_collection("things").await;
    created.unwrap();
    // Damaged, another thing altogether, and no document at all.
    let damaged = rawdoc! { "_data": "zz" };
    let other = rawdoc! { "sequence": 5_i64 };
    for token in [damaged.into_bytes(), other.into_bytes(), b"no".to_vec()] {
        let mut source = MongoSource::new(client.clone(), clock.clone(), Some(token));
        let refused = until_error(&mut source).await;
        assert!(matches!(refused, SourceError::Gap(_)), "{refused:?}");
        let mut feed = Feed {
            source,
            db: db.clone(),
            last: Batch::default(),
        };
        feed.step().await;
        assert!(
            feed.last.through > Position::ZERO,
            "it says from where it goes on"
        );
        things.insert_one(doc! {}).await.unwrap();
        feed.take(1).await;
    }
}

#[tokio::test]
async fn a_lost_connection_is_no_gap() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    fail_next(&client, "getMore", doc! { "closeConnection": true }).await;
    let lost = until_error(&mut feed.source).await;
    assert!(matches!(lost, SourceError::Unavailable(_)), "{lost:?}");
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(2));
}

pub(crate) async fn fail_next(client: &Client, command: &str, how: Document) {
    let mut data = doc! { "failCommands": [command] };
    data.extend(how);
    let command =
        doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    client.database("admin").run_command(command).await.unwrap();
}

pub(crate) async fn until_error(source: &mut MongoSource) -> SourceError {
    let begun = instant();
    loop {
        assert!(begun.elapsed() < PATIENCE);
        if let Err(error) = source.next().await {
            return error;
        }
    }
}

/// Once, and (row C18 of the catalogue) again while the feed resumes after the first.
#[rstest]
#[tokio::test]
async fn nothing_is_missed_or_doubled_across_fail_overs(#[values(1, 2)] fail_overs: u32) {
    let mongo = Parts::mongo3().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let majority = mongodb::options::WriteConcern::majority();
    let writer = tokio::spawn(async move {
        let mut acknowledged = Vec::new();
        for number in 0..300 {
            let thing = rawdoc! { "_id": number };
            if things
                .insert_one(thing)
                .write_concern(majority.clone())
                .await
                .is_ok()
            {
                acknowledged.push(number);
            }
        }
        acknowledged
    });
    let mut seen: Vec<i32> = Vec::new();
    let mut failed = 0;
    let begun = instant();
    while !writer.is_finished() || feed.last.watermark.is_none() || seen.len() < 300 {
        if begun.elapsed() > Duration::from_secs(40) {
            break;
        }
        match feed.source.next().await {
            Ok(batch) => {
                seen.extend(
                    batch
                        .events
                        .iter()
                        .filter_map(|event| match images(event).0 {
                            RawBson::Int32(number) if event.namespace.db() == db => Some(number),
                            _ => None,
                        }),
                );
                feed.last = batch;
            }
            Err(SourceError::Unavailable(_)) => {
                if failed < fail_overs {
                    step_down_the_next(&client).await;
                    failed += 1;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(SourceError::Gap(reason) | SourceError::Missed(reason)) => {
                panic!("nothing was lost: {reason}")
            }
        }
        if failed == 0 && seen.len() > 50 {
            mongo.nodes[0].kill().await.unwrap();
            failed = 1;
        }
    }
    let acknowledged = writer.await.unwrap();
    assert!(
        failed == fail_overs && acknowledged.len() > 200,
        "{} acknowledged",
        acknowledged.len()
    );
    let mut once = seen.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "an event came twice");
    assert!(seen.is_sorted(), "events came out of order");
    let missing: Vec<_> = acknowledged
        .iter()
        .filter(|number| !seen.contains(number))
        .collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
}

/// As soon as there is a primary, it is none any more.
async fn step_down_the_next(client: &Client) {
    let down = doc! { "replSetStepDown": 2, "secondaryCatchUpPeriodSecs": 1, "force": true };
    let begun = instant();
    while let Err(error) = client.database("admin").run_command(down.clone()).await {
        assert!(begun.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
