//! Over MongoDB: of what the change feed does not tell exactly, nothing is cached (C14), and reading creates nothing.

use freshet_fixture::{Parts, fresh_database_name};
use mongodb::Database;
use mongodb::bson::{DateTime, Document, doc};
use serde_json::json;

use crate::support::{Answer, Server, encode};

const UNDECIDABLE: &str = "freshet; fwd=bypass; detail=undecidable";

/// A database of its own, and a gateway over it that caches.
async fn over_mongo() -> (Server, Database) {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let access = format!(
        "[{{collection = \"{db}.*\", read = \"public\", write = \"public\", database_only = \"allow\"}}]"
    );
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    let client = mongo.client().await.expect("a client");
    (server, client.database(&db))
}

async fn create(db: &Database, command: Document) {
    db.run_command(command).await.expect("created");
}

async fn insert(db: &Database, collection: &str, document: Document) {
    let collection = db.collection::<Document>(collection);
    collection.insert_one(document).await.expect("inserted");
}

/// Asks twice: what had been kept the first time would be a hit the second time.
async fn uncached(server: &Server, target: &str) -> Answer {
    server.get(target).await;
    let answer = server.get(target).await;
    assert_eq!(answer.status, 200, "{target}");
    assert_eq!(answer.header("cache-status"), UNDECIDABLE, "{target}");
    assert_eq!(
        answer.header("cache-control"),
        "private, no-store, max-age=0"
    );
    answer
}

async fn counts(server: &Server, target: &str, count: u32) {
    let counted = uncached(server, target).await;
    assert_eq!(counted.json(), json!({ "count": count }));
}

#[tokio::test]
async fn c14_what_cannot_be_decided_exactly_is_answered_uncached() {
    let (server, db) = over_mongo().await;
    insert(&db, "c", doc! { "_id": "a", "v": "foobar" }).await;
    let filter = encode(r#"{"v":{"$regex":"foo(?=bar)"}}"#);
    let target = format!("/v1/{}/c?filter={filter}", db.name());
    assert_eq!(
        uncached(&server, &target).await.json()["items"][0]["_id"],
        "a"
    );
}

#[tokio::test]
async fn c14_a_view_is_never_cached() {
    let (server, db) = over_mongo().await;
    insert(&db, "base", doc! { "_id": "a", "k": 1 }).await;
    let pipeline = vec![doc! { "$match": { "k": 1 } }];
    create(
        &db,
        doc! { "create": "seen", "viewOn": "base", "pipeline": pipeline },
    )
    .await;
    let seen = format!("/v1/{}/seen", db.name());
    for n in 1..4 {
        counts(&server, &format!("{seen}/_count"), n).await;
        let items = uncached(&server, &seen).await.json()["items"].clone();
        assert_eq!(items.as_array().map(Vec::len), Some(n as usize));
        uncached(&server, &format!("{seen}/a")).await;
        insert(&db, "base", doc! { "k": 1 }).await;
    }
}

#[tokio::test]
async fn c14_a_time_series_is_never_cached() {
    let (server, db) = over_mongo().await;
    create(
        &db,
        doc! { "create": "series", "timeseries": { "timeField": "at" } },
    )
    .await;
    let count = format!("/v1/{}/series/_count", db.name());
    for n in 0..3 {
        counts(&server, &count, n).await;
        insert(&db, "series", doc! { "at": DateTime::now(), "n": n }).await;
    }
}

#[tokio::test]
async fn c14_a_collection_with_a_collation_is_never_cached() {
    let (server, db) = over_mongo().await;
    let collation = doc! { "locale": "en", "strength": 2 };
    create(&db, doc! { "create": "names", "collation": collation }).await;
    insert(&db, "names", doc! { "_id": "a", "k": "X" }).await;
    let names = format!("/v1/{}/names", db.name());
    let filter = encode(r#"{"k":"x"}"#);
    uncached(&server, &format!("{names}/A")).await;
    for n in 1..4 {
        counts(&server, &format!("{names}/_count?filter={filter}"), n).await;
        let found = uncached(&server, &format!("{names}?filter={filter}")).await;
        let items = found.json()["items"].as_array().map(Vec::len);
        assert_eq!(items, Some(n as usize));
        insert(&db, "names", doc! { "k": "X" }).await;
    }
}

#[tokio::test]
async fn c14_a_collection_that_becomes_a_view_is_cached_no_more() {
    let (server, db) = over_mongo().await;
    insert(&db, "c", doc! { "k": 1 }).await;
    insert(&db, "base", doc! { "k": 1 }).await;
    let count = format!("/v1/{}/c/_count", db.name());
    server.until(&count, Answer::is_hit).await;
    let plain = db.collection::<Document>("c");
    plain.drop().await.expect("dropped");
    create(
        &db,
        doc! { "create": "c", "viewOn": "base", "pipeline": [] },
    )
    .await;
    server
        .until(&count, |answer| {
            answer.header("cache-status") == UNDECIDABLE && answer.json() == json!({ "count": 1 })
        })
        .await;
    insert(&db, "base", doc! { "k": 2 }).await;
    counts(&server, &count, 2).await;
}

#[tokio::test]
async fn reading_a_missing_collection_creates_nothing() {
    let (server, db) = over_mongo().await;
    let target = format!("/v1/{}/nothing", db.name());
    assert_eq!(uncached(&server, &target).await.json()["items"], json!([]));
    assert_eq!(server.get(&format!("{target}/x")).await.status, 404);
    counts(&server, &format!("{target}/_count"), 0).await;
    let names = db.list_collection_names().await.expect("listed");
    assert!(names.is_empty(), "{names:?}");
    assert_eq!(server.post(&target, r#"{"_id":"a"}"#).await.status, 201);
    server
        .until(&target, |answer| {
            answer.is_hit() && answer.json()["items"][0]["_id"] == "a"
        })
        .await;
}
