//! Known bugs of change streams, against a real server. Each test is named after its row in the catalogue of such bugs,
//! not after a rule of the contract.

use std::sync::Arc;

use bson::{Document, RawBson, RawDocumentBuf, doc, rawdoc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::{Clock, ManualClock, Position};
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::{Batch, Source, SourceError};
use mongodb::error::{Error, ErrorKind};
use mongodb::{Client, Collection};
use rstest::rstest;

use super::failure::{fail_next, until_error};
use super::harness::{Feed, PATIENCE, clock, images, instant, operation_time, set_up, with_images};

fn body(letter: &str) -> String {
    letter.repeat(9 << 20)
}

/// The cluster time in a resume token (its `_data`: a type byte, seconds, increment).
fn time_of(token: &[u8]) -> Position {
    let token = RawDocumentBuf::from_bytes(token.to_vec()).unwrap();
    let digits = token.get_str("_data").unwrap()[2..18].to_owned();
    Position(u64::from_str_radix(&digits, 16).unwrap())
}

/// A code that is known, and a label without one.
#[rstest]
#[case::history_lost(doc! { "errorCode": 286 })]
#[case::token_invalid(doc! { "errorCode": 280 })]
#[case::history_lost_before_4_2(doc! { "errorCode": 40576 })]
#[case::by_label(doc! { "errorCode": 8000, "errorLabels": ["NonResumableChangeStreamError"] })]
#[tokio::test]
async fn c1_c3_what_cannot_be_resumed_is_lost_and_its_token_is_not_used_again(
    #[case] how: Document,
) {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    feed.take(1).await;
    // Under way, and when it is resumed.
    for (command, fails_first) in [("getMore", true), ("aggregate", false)] {
        if !fails_first {
            let token = feed.last.resume.clone();
            feed.source = MongoSource::new(client.clone(), clock.clone(), token);
        }
        fail_next(&client, command, how.clone()).await;
        let lost = until_error(&mut feed.source).await;
        assert!(matches!(lost, SourceError::Gap(_)), "{command}: {lost:?}");
        feed.step().await;
        assert!(feed.last.through > Position::ZERO, "from where it goes on");
        assert!(feed.last.resume.is_none(), "the dead token is forgotten");
        things.insert_one(rawdoc! {}).await.unwrap();
        feed.take(1).await;
    }
}

/// The server's own refusal: a token from before all that its oplog has.
#[tokio::test]
async fn c3_a_token_older_than_the_oplog_is_a_gap_and_the_feed_begins() {
    let (client, clock, db) = set_up().await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let other: Collection<Document> = client.database(&db).collection("other");
    other.insert_one(doc! {}).await.unwrap();
    feed.take(2).await;
    let old = feed.last.resume.clone().unwrap();
    // The next server's oplog begins in a later second.
    let second = |position: Position| position.to_timestamp().0;
    while second(operation_time(&client).await) <= second(time_of(&old)) {
        other.insert_one(doc! {}).await.unwrap();
    }

    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let things = with_images(&client, &db, "things").await;
    let mut source = MongoSource::new(client.clone(), clock.clone(), Some(old));
    let lost = until_error(&mut source).await;
    assert!(matches!(lost, SourceError::Gap(_)), "{lost:?}");
    let mut feed = Feed {
        source,
        db,
        last: Batch::default(),
    };
    feed.step().await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(1));
}

/// What a server says that cannot split events: the very error of this one, asked without the stage.
async fn refusal_of_a_large_event(client: &Client, things: &Collection<RawDocumentBuf>) -> Error {
    let stage = doc! {
        "allChangesForCluster": true,
        "fullDocument": "whenAvailable",
        "fullDocumentBeforeChange": "whenAvailable",
    };
    let admin = client.database("admin");
    let stages = [doc! { "$changeStream": stage }];
    let mut plain = admin.aggregate(stages).await.unwrap();
    let large = rawdoc! { "body": body("b") };
    things.replace_one(doc! { "_id": 1 }, large).await.unwrap();
    loop {
        if let Err(error) = plain.advance().await {
            return error;
        }
    }
}

#[tokio::test]
async fn c4_an_event_that_fits_no_reply_is_a_gap_and_the_feed_goes_on_after_it() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let first = rawdoc! { "_id": 1, "body": body("a") };
    things.insert_one(first).await.unwrap();
    let refused = refusal_of_a_large_event(&client, &things).await;
    let ErrorKind::Command(command) = &*refused.kind else {
        panic!("{refused}");
    };
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    fail_next(&client, "getMore", doc! { "errorCode": command.code }).await;
    let lost = until_error(&mut feed.source).await;
    assert!(matches!(lost, SourceError::Gap(_)), "{lost:?}");
    feed.step().await;
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(2));
}

/// Rows C5 and C6: what happened in between is not seen, and what is seen is said to be later.
#[tokio::test]
async fn c5_c6_a_look_up_finds_a_later_state_or_none_and_says_so() {
    let (client, clock, db) = set_up().await;
    let things: Collection<Document> = client.database(&db).collection("things");
    let records = [doc! { "_id": 1, "x": 0 }, doc! { "_id": 2, "x": 0 }];
    things.insert_many(records).await.unwrap();
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    for (id, x) in [(1, 1), (1, 2), (2, 1)] {
        let set = doc! { "$set": { "x": x } };
        things.update_one(doc! { "_id": id }, set).await.unwrap();
    }
    things.delete_one(doc! { "_id": 2 }).await.unwrap();
    let events = feed.take(4).await;
    let later = |x: Option<i32>| Image::Later(x.map(|x| rawdoc! { "_id": 1, "x": x }));
    for (event, after) in
        events
            .iter()
            .zip([later(Some(2)), later(Some(2)), later(None), Image::Absent])
    {
        let (_, before, found) = images(event);
        assert_eq!((before, found), (Image::Unknown, after));
    }
}

/// Writes that the feed does not deliver, and no write at all: the token moves on with them.
#[tokio::test]
async fn c10_on_a_quiet_database_the_token_moves_on() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let elsewhere: Collection<Document> = client.database("admin").collection("elsewhere");
    for _ in 0..100 {
        let many = (0..1_000).map(|_| doc! {});
        elsewhere.insert_many(many).await.unwrap();
    }
    let written = operation_time(&client).await;
    let begun = instant();
    while feed.last.resume.as_deref().map(time_of) < Some(written) {
        assert!(begun.elapsed() < PATIENCE, "the token stays behind");
        assert_eq!(feed.step().await, [], "none of it is for us");
    }
    let token = feed.last.resume.clone();
    let mut feed = Feed::open(&client, &clock, &db, token).await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(1));
}

/// A stream over the whole deployment is ended by none of them, and can be resumed before and after each.
#[tokio::test]
async fn c11_drops_and_renames_end_no_stream_and_can_be_resumed_past() {
    let (client, clock, db) = set_up().await;
    let database = client.database(&db);
    for name in ["a", "b", "c"] {
        database.create_collection(name).await.unwrap();
    }
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let rename =
        doc! { "renameCollection": format!("{db}.a"), "to": format!("{db}.b"), "dropTarget": true };
    let (mut all, mut marks) = (Vec::new(), Vec::new());
    for (command, names) in [
        (rename, &["a", "b"][..]),
        (doc! { "drop": "c" }, &["c"]),
        (doc! { "dropDatabase": 1 }, &["b"]),
        (doc! { "create": "b" }, &["b"]),
    ] {
        let place = match command.contains_key("renameCollection") {
            true => client.database("admin"),
            false => database.clone(),
        };
        place.run_command(command).await.unwrap();
        let events = feed.take(names.len()).await;
        let of = |event: &ChangeEvent| event.namespace.collection().to_owned();
        assert_eq!(events.iter().map(of).collect::<Vec<_>>(), names);
        assert!(
            events
                .iter()
                .all(|event| event.change == Change::Collection)
        );
        all.extend(events);
        marks.push((feed.last.resume.clone(), all.len()));
    }
    let things: Collection<RawDocumentBuf> = database.collection("b");
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    all.extend(feed.take(1).await);
    for (token, done) in marks {
        let mut again = Feed::open(&client, &clock, &db, token).await;
        assert_eq!(again.take(all.len() - done).await, all[done..]);
    }
}

#[tokio::test]
async fn c14_a_transaction_larger_than_a_reply_is_whole_before_its_position_is_reached() {
    const EVENTS: usize = 1_300;
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let mut session = client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let records = (0..EVENTS).map(|number| rawdoc! { "_id": number as i32 });
    let inserting = things.insert_many(records).session(&mut session);
    inserting.await.unwrap();
    session.commit_transaction().await.unwrap();
    let (mut seen, mut steps, begun) = (Vec::new(), 0, instant());
    while seen.len() < EVENTS {
        assert!(begun.elapsed() < PATIENCE, "{} events came", seen.len());
        let events = feed.step().await;
        steps += usize::from(!events.is_empty());
        seen.extend(events);
        let position = seen.first().map(|event: &ChangeEvent| event.position);
        let reached = position.is_some_and(|position| feed.last.through >= position);
        assert!(!reached || seen.len() == EVENTS, "{} events", seen.len());
    }
    assert!(steps > 1, "it came in parts");
    assert!(seen.iter().all(|event| event.position == seen[0].position));
}

/// Off, expired, and known again: what is not there is unknown, never an error.
#[tokio::test]
async fn c16_images_that_are_missing_or_have_expired_are_unknown() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let (clock, db) = (clock(), fresh_database_name());
    let things = with_images(&client, &db, "things").await;
    things
        .insert_one(rawdoc! { "_id": 1, "x": 0 })
        .await
        .unwrap();
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let before = loop {
        feed.step().await;
        if let Some(token) = feed.last.resume.clone() {
            break token;
        }
    };
    let set = async |x: i32| {
        let set = doc! { "$set": { "x": x } };
        things.update_one(doc! { "_id": 1 }, set).await.unwrap();
    };
    set(1).await;
    let images_of: Collection<Document> = client.database("config").collection("system.preimages");
    let expired = images_of.delete_many(doc! {}).await.unwrap();
    assert_eq!(expired.deleted_count, 1);
    set(2).await;
    let mut feed = Feed::open(&client, &clock, &db, Some(before)).await;
    let events = feed.take(2).await;
    let known = |x: i32| Image::Known(rawdoc! { "_id": 1, "x": x });
    let later = Image::Later(Some(rawdoc! { "_id": 1, "x": 2 }));
    assert_eq!(
        images(&events[0]),
        (RawBson::Int32(1), Image::Unknown, later)
    );
    assert_eq!(images(&events[1]), (RawBson::Int32(1), known(1), known(2)));
}

/// What was delivered and not yet carried out comes again; what was, does not.
#[tokio::test]
async fn c17_c19_a_feed_resumes_right_after_the_token_that_it_is_given() {
    let (client, clock, db) = set_up().await;
    let things = with_images(&client, &db, "things").await;
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    let (mut all, mut marks) = (Vec::new(), Vec::new());
    for id in 1..=4 {
        things.insert_one(rawdoc! { "_id": id }).await.unwrap();
        all.extend(feed.take(1).await);
        marks.push((feed.last.resume.clone(), all.len()));
    }
    things.insert_one(rawdoc! { "_id": 5 }).await.unwrap();
    all.extend(feed.take(1).await);
    for (token, done) in marks {
        let mut again = Feed::open(&client, &clock, &db, token).await;
        assert_eq!(again.take(all.len() - done).await, all[done..]);
    }
}

/// The server hangs with the connection open. Half a minute passes, by the clock that the source is given.
#[tokio::test]
async fn c18_a_stream_that_falls_silent_is_taken_to_be_dead_and_goes_on_where_it_was() {
    let mongo = Parts::own_mongo().await.unwrap();
    let client = mongo.uri.client().await.unwrap();
    let db = fresh_database_name();
    let things = with_images(&client, &db, "things").await;
    let moved = Arc::new(ManualClock::at(1_000));
    let clock: Arc<dyn Clock> = moved.clone();
    let mut feed = Feed::open(&client, &clock, &db, None).await;
    things.insert_one(rawdoc! { "_id": 1 }).await.unwrap();
    feed.take(1).await;
    mongo.nodes[0].pause();
    let dead = async {
        loop {
            moved.advance_ms(10_000);
            if let Err(error) = feed.source.next().await {
                return error;
            }
        }
    };
    let dead = tokio::time::timeout(PATIENCE, dead).await;
    let dead = dead.expect("it is noticed");
    assert!(
        matches!(&dead, SourceError::Unavailable(why) if why.contains("silent")),
        "{dead:?}"
    );
    mongo.nodes[0].resume();
    things.insert_one(rawdoc! { "_id": 2 }).await.unwrap();
    assert_eq!(images(&feed.take(1).await[0]).0, RawBson::Int32(2));
}
