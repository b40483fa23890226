//! What is delivered, and how far the watermark says it is complete.

use bson::{Document, RawBson, doc, rawdoc};
use freshet_core::change::{Change, Image};
use freshet_core::time::{Moment, Position};
use mongodb::Collection;

use super::harness::{Feed, PATIENCE, images, instant, operation_time, set_up, with_images};

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
