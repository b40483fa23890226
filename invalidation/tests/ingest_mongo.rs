//! The change stream against a real replica set: what it delivers, how it resumes, when its watermark moves,
//! and that what is lost is called lost (rules C6, C8).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{Document, RawBson, RawDocumentBuf, Timestamp, doc, rawdoc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::{Clock, Moment, Position};
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::{Batch, Source, SourceError, Watermark};
use mongodb::options::ChangeStreamPreAndPostImages;
use mongodb::{Client, Collection};

/// How long a test waits for what must come.
const PATIENCE: Duration = Duration::from_secs(20);

struct RealClock(Instant);

#[allow(clippy::disallowed_methods)]
fn instant() -> Instant {
    Instant::now()
}

impl Clock for RealClock {
    fn now(&self) -> Moment {
        #[allow(clippy::cast_possible_truncation)]
        Moment(instant().duration_since(self.0).as_millis() as u64)
    }

    fn wall_ms(&self) -> u64 {
        0
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(RealClock(instant()))
}

struct Feed {
    source: MongoSource,
    db: String,
    last: Batch,
}

impl Feed {
    async fn open(
        client: &Client,
        clock: &Arc<dyn Clock>,
        db: &str,
        resume: Option<Vec<u8>>,
    ) -> Feed {
        let mut feed = Feed {
            source: MongoSource::new(client.clone(), clock.clone(), resume),
            db: db.to_owned(),
            last: Batch::default(),
        };
        feed.step().await;
        feed
    }

    /// The next batch's events of this test's database.
    async fn step(&mut self) -> Vec<ChangeEvent> {
        let batch = self.source.next().await.unwrap();
        assert!(
            batch.through >= self.last.through,
            "through never goes back"
        );
        self.last = batch;
        let db = &self.db;
        self.last
            .events
            .iter()
            .filter(|event| event.namespace.db() == db)
            .cloned()
            .collect()
    }

    async fn take(&mut self, count: usize) -> Vec<ChangeEvent> {
        let begun = instant();
        let mut events = Vec::new();
        while events.len() < count {
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {count} events came",
                events.len()
            );
            events.extend(self.step().await);
        }
        assert_eq!(events.len(), count);
        events
    }

    async fn watermark(&mut self, at_least: Position, as_of: Moment) -> Watermark {
        let begun = instant();
        loop {
            assert!(begun.elapsed() < PATIENCE, "no watermark");
            self.step().await;
            if let Some(mark) = self.last.watermark
                && mark.position >= at_least
                && mark.as_of >= as_of
            {
                return mark;
            }
        }
    }
}

async fn set_up() -> (Client, Arc<dyn Clock>, String) {
    let client = Parts::mongo().await.unwrap().client().await.unwrap();
    (client, clock(), fresh_database_name())
}

async fn with_images(client: &Client, db: &str, name: &str) -> Collection<RawDocumentBuf> {
    client
        .database(db)
        .create_collection(name)
        .change_stream_pre_and_post_images(
            ChangeStreamPreAndPostImages::builder()
                .enabled(true)
                .build(),
        )
        .await
        .unwrap();
    client.database(db).collection(name)
}

fn images(event: &ChangeEvent) -> (RawBson, Image, Image) {
    match &event.change {
        Change::Record { id, before, after } => (id.clone(), before.clone(), after.clone()),
        Change::Collection => panic!("not a record"),
    }
}

async fn operation_time(client: &Client) -> Position {
    let reply = client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await
        .unwrap();
    let Timestamp { time, increment } = reply.get_timestamp("operationTime").unwrap();
    Position::from_timestamp(time, increment)
}

#[tokio::test]
async fn every_write_comes_once_in_order_with_both_images() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things
        .insert_one(rawdoc! { "_id": 1, "a": 1 })
        .await
        .unwrap();
    things
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 2 } })
        .await
        .unwrap();
    things
        .replace_one(doc! { "_id": 1 }, rawdoc! { "a": 3 })
        .await
        .unwrap();
    things.delete_one(doc! { "_id": 1 }).await.unwrap();
    let events = feed.take(4).await;
    let known = |a: i32| Image::Known(rawdoc! { "_id": 1, "a": a });
    let expected = [
        (Image::Absent, known(1)),
        (known(1), known(2)),
        (known(2), known(3)),
        (known(3), Image::Absent),
    ];
    for (event, (before, after)) in events.iter().zip(expected) {
        assert_eq!(images(event), (RawBson::Int32(1), before, after));
    }
    assert!(
        events
            .windows(2)
            .all(|pair| pair[0].position < pair[1].position)
    );
}

#[tokio::test]
async fn without_images_the_record_is_looked_up_later() {
    let (client, clock, db) = set_up().await;
    let things: Collection<Document> = client.database(&db).collection("things");
    things
        .insert_many([doc! { "_id": 1, "a": 1 }, doc! { "_id": 2, "a": 1 }])
        .await
        .unwrap();
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things
        .update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 2 } })
        .await
        .unwrap();
    things
        .update_one(doc! { "_id": 2 }, doc! { "$set": { "a": 2 } })
        .await
        .unwrap();
    things.delete_one(doc! { "_id": 2 }).await.unwrap();
    let events = feed.take(3).await;
    let later = Image::Later(Some(rawdoc! { "_id": 1, "a": 2 }));
    assert_eq!(
        images(&events[0]),
        (RawBson::Int32(1), Image::Unknown, later)
    );
    // Gone by the time of the look-up: no error, no loop, and its deletion has an event of its own.
    assert_eq!(
        images(&events[1]),
        (RawBson::Int32(2), Image::Unknown, Image::Later(None))
    );
    assert_eq!(
        images(&events[2]),
        (RawBson::Int32(2), Image::Unknown, Image::Absent)
    );
}

#[tokio::test]
async fn a_transaction_shares_one_position_and_an_aborted_one_has_none() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    for (number, commit) in [(1, false), (2, true)] {
        let mut session = client.start_session().await.unwrap();
        session.start_transaction().await.unwrap();
        for part in 0..3 {
            let thing = rawdoc! { "_id": number * 10 + part };
            things
                .insert_one(thing)
                .session(&mut session)
                .await
                .unwrap();
        }
        if commit {
            session.commit_transaction().await.unwrap();
        } else {
            session.abort_transaction().await.unwrap();
        }
    }
    let events = feed.take(3).await;
    assert!(
        events
            .iter()
            .all(|event| event.position == events[0].position)
    );
    assert_eq!(images(&events[0]).0, RawBson::Int32(20));
}

#[tokio::test]
async fn collections_dropped_and_renamed_are_named() {
    let (client, clock, db) = set_up().await;
    for name in ["a", "b"] {
        client.database(&db).create_collection(name).await.unwrap();
    }
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let rename = doc! { "renameCollection": format!("{db}.a"), "to": format!("{db}.c") };
    client.database("admin").run_command(rename).await.unwrap();
    client.database(&db).drop().await.unwrap();
    let mut names: Vec<String> = feed
        .take(4)
        .await
        .iter()
        .map(|event| {
            assert_eq!(event.change, Change::Collection);
            event.namespace.collection().to_owned()
        })
        .collect();
    names[2..].sort();
    assert_eq!(names, ["a", "c", "b", "c"]);
}

#[tokio::test]
async fn resuming_misses_nothing() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    feed.take(1).await;
    let token = feed.last.resume.clone();
    assert!(token.is_some());
    drop(feed);
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    let mut feed = Feed::open(&client, &clock, &db, token).await;
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(2));
}

#[tokio::test]
async fn the_watermark_moves_on_an_idle_database() {
    let (client, clock, db) = set_up().await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    feed.watermark(Position::ZERO, Moment(0)).await;
    for _ in 0..5 {
        let asked = clock.now();
        let mark = feed.watermark(Position::ZERO, asked).await;
        assert!(mark.as_of >= asked && mark.as_of <= clock.now());
    }
}

#[tokio::test]
async fn the_watermark_covers_every_write_acknowledged_before_it() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let mut seen = 0;
    for number in 1..=10 {
        things.insert_one(rawdoc! { "_id": number }).await.unwrap();
        let (acknowledged, position) = (clock.now(), operation_time(&client).await);
        let begun = instant();
        loop {
            assert!(begun.elapsed() < PATIENCE);
            seen += feed.step().await.len();
            let Some(mark) = feed.last.watermark else {
                continue;
            };
            if mark.as_of >= acknowledged.after_ms(1) {
                assert!(mark.position >= position || seen == number as usize);
                break;
            }
        }
        assert_eq!(
            seen, number as usize,
            "a watermark ran ahead of an acknowledged write"
        );
    }
}

#[tokio::test]
async fn an_event_larger_than_a_reply_is_put_together() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let body = |letter: &str| letter.repeat(9 * 1024 * 1024);
    things
        .insert_one(rawdoc! { "_id": 1, "body": body("a") })
        .await
        .unwrap();
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things
        .replace_one(doc! { "_id": 1 }, rawdoc! { "body": body("b") })
        .await
        .unwrap();
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    let events = feed.take(2).await;
    let known = |letter: &str| Image::Known(rawdoc! { "_id": 1, "body": body(letter) });
    assert!(images(&events[0]) == (RawBson::Int32(1), known("a"), known("b")));
    assert_eq!(images(&events[1]).0, RawBson::Int32(2));
}

#[tokio::test]
async fn a_token_that_the_server_cannot_resume_is_a_gap_and_then_it_goes_on() {
    let (client, clock, db) = set_up().await;
    let things: Collection<Document> = client.database(&db).collection("things");
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
async fn history_lost_under_way_is_a_gap_and_a_lost_connection_is_not() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    fail_next_get_more(
        &client,
        doc! { "errorCode": 286, "errorLabels": ["NonResumableChangeStreamError"] },
    )
    .await;
    let lost = until_error(&mut feed.source).await;
    assert!(matches!(lost, SourceError::Gap(_)), "{lost:?}");
    feed.step().await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    feed.take(1).await;

    fail_next_get_more(&client, doc! { "closeConnection": true }).await;
    let lost = until_error(&mut feed.source).await;
    assert!(matches!(lost, SourceError::Unavailable(_)), "{lost:?}");
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(2));
}

async fn fail_next_get_more(client: &Client, how: Document) {
    let mut data = doc! { "failCommands": ["getMore"] };
    data.extend(how);
    let command =
        doc! { "configureFailPoint": "failCommand", "mode": { "times": 1 }, "data": data };
    client.database("admin").run_command(command).await.unwrap();
}

async fn until_error(source: &mut MongoSource) -> SourceError {
    let begun = instant();
    loop {
        assert!(begun.elapsed() < PATIENCE);
        if let Err(error) = source.next().await {
            return error;
        }
    }
}

#[tokio::test]
async fn nothing_is_missed_or_doubled_across_a_fail_over() {
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
    let mut killed = false;
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
            Err(SourceError::Unavailable(_)) => tokio::time::sleep(Duration::from_millis(50)).await,
            Err(SourceError::Gap(reason)) => panic!("nothing was lost: {reason}"),
        }
        if !killed && seen.len() > 50 {
            mongo.nodes[0].kill().await.unwrap();
            killed = true;
        }
    }
    let acknowledged = writer.await.unwrap();
    assert!(
        killed && acknowledged.len() > 200,
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
