//! The same over MongoDB, where others write too, and over Redis, which can go away.

use freshet_fixture::{Parts, fresh_database_name};
use mongodb::bson::{DateTime, Document, doc};
use serde_json::json;

use crate::support::{Answer, PATIENCE, Server, encode};

#[tokio::test]
async fn e3_records_and_results_that_other_programs_write_are_fresh_and_have_tags() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let access = format!(
        "[{{collection = \"{db}.*\", read = \"public\", write = \"public\", database_only = \"allow\"}}]"
    );
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    let client = mongo.client().await.expect("a client");
    let collection = client
        .database(&db)
        .collection::<mongodb::bson::Document>("c");
    collection
        .insert_one(doc! { "_id": "x", "k": 1, "n": 0 })
        .await
        .expect("inserted");

    let (record, query) = (
        format!("/v1/{db}/c/x"),
        format!("/v1/{db}/c?filter=%7B%22k%22:1%7D"),
    );
    let count = format!("/v1/{db}/c/_count");
    for target in [&record, &query, &count] {
        server
            .until(target, |answer| answer.status == 200 && answer.is_hit())
            .await;
    }
    let set = doc! { "$set": { "n": 1 } };
    collection
        .update_one(doc! { "_id": "x" }, set)
        .await
        .expect("updated");
    let read = server
        .until(&record, |answer| answer.json()["n"] == 1)
        .await;
    server
        .until(&query, |answer| answer.json()["items"][0]["n"] == 1)
        .await;

    let tag = read.header("etag").to_owned();
    let put = |body: &'static str| {
        let (server, record, tag) = (&server, &record, &tag);
        async move {
            let headers = [
                ("content-type", "application/json"),
                ("if-match", tag.as_str()),
            ];
            server.send("PUT", record, &headers, body).await
        }
    };
    assert_eq!(put(r#"{"k":1,"n":2}"#).await.status, 200);
    assert_eq!(put(r#"{"k":1,"n":3}"#).await.status, 412);
    assert_eq!(server.get(&record).await.json()["n"], 2);

    let position =
        |answer: &Answer| -> u64 { answer.header("freshet-position").parse().expect("decimal") };
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "once"),
    ];
    let collection_target = format!("/v1/{db}/c");
    let first = server
        .send("POST", &collection_target, &headers, r#"{"k":1}"#)
        .await;
    let again = server
        .send("POST", &collection_target, &headers, r#"{"k":1}"#)
        .await;
    assert_eq!((first.status, &first.body), (again.status, &again.body));
    let counted = server
        .until(&count, |answer| answer.json() == json!({"count":2}))
        .await;
    assert!(position(&counted) > 0);
    client.database(&db).drop().await.expect("dropped");
    server.until(&record, |answer| answer.status == 404).await;
}

/// Settings of a gateway over this database alone.
fn access(db: &str) -> String {
    format!(
        "[{{collection = \"{db}.*\", read = \"public\", write = \"public\", database_only = \"allow\"}}]"
    )
}

#[tokio::test]
async fn c14_views_time_series_and_collations_are_answered_and_never_cached() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let name = fresh_database_name();
    let access = access(&name);
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    let db = mongo.client().await.expect("a client").database(&name);
    let commands = [
        doc! { "create": "view", "viewOn": "base", "pipeline": [] },
        doc! { "create": "series", "timeseries": { "timeField": "at" } },
        doc! { "create": "folded", "collation": { "locale": "en", "strength": 2 } },
    ];
    for command in commands {
        db.run_command(command).await.expect("created");
    }
    let insert = async |collection: &str, document: Document| {
        let collection = db.collection::<Document>(collection);
        collection.insert_one(document).await.expect("inserted");
    };
    insert("base", doc! { "_id": "x", "s": "Foo" }).await;
    insert("series", doc! { "at": DateTime::from_millis(0) }).await;
    insert("folded", doc! { "_id": "X", "s": "Foo" }).await;

    let folded = format!("/v1/{name}/folded?filter={}", encode("{\"s\":\"foo\"}"));
    let targets = [
        format!("/v1/{name}/view"),
        format!("/v1/{name}/view/x"),
        format!("/v1/{name}/view/_count"),
        format!("/v1/{name}/series"),
        format!("/v1/{name}/folded/x"),
        folded.clone(),
    ];
    for target in targets {
        for _ in 0..2 {
            let answer = server.get(&target).await;
            assert_eq!(answer.status, 200, "{target}");
            assert_eq!(
                answer.header("cache-control"),
                "private, no-store, max-age=0"
            );
            assert!(
                answer.header("cache-status").contains("undecidable"),
                "{target}: {answer:?}"
            );
        }
    }
    let set = doc! { "$set": { "s": "Bar" } };
    let collection = db.collection::<Document>("folded");
    let changed = collection.update_one(doc! { "_id": "X" }, set).await;
    assert_eq!(changed.expect("updated").matched_count, 1);
    assert_eq!(server.get(&folded).await.json(), json!({ "items": [] }));

    // A collection whose place a view takes.
    let base = format!("/v1/{name}/base");
    server.until(&base, Answer::is_hit).await;
    let collection = db.collection::<Document>("base");
    collection.drop().await.expect("dropped");
    insert("other", doc! { "_id": "y" }).await;
    let view = doc! { "create": "base", "viewOn": "other", "pipeline": [] };
    db.run_command(view).await.expect("created");
    let seen = json!({ "items": [{ "_id": "y" }] });
    server.until(&base, |answer| answer.json() == seen).await;
    insert("other", doc! { "_id": "z" }).await;
    let answer = server.get(&base).await;
    assert_eq!(answer.json()["items"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn c16_a_gateway_that_cannot_reach_the_sketch_hands_out_none_of_its_copies() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let redis = Parts::own_redis().await.expect("Redis");
    let name = fresh_database_name();
    let access = access(&name);
    let settings = [
        ("store", mongo.as_str()),
        ("redis", redis.url.as_str()),
        ("access", access.as_str()),
    ];
    let server = Server::caching(&settings).await;
    let client = mongo.client().await.expect("a client");
    let collection = client.database(&name).collection::<Document>("c");
    let record = doc! { "_id": "x", "n": 0 };
    collection.insert_one(record).await.expect("inserted");
    let target = format!("/v1/{name}/c/x");
    server
        .until(&target, |answer| answer.status == 200 && answer.is_hit())
        .await;
    redis.node.pause();
    let set = doc! { "$set": { "n": 1 } };
    let changed = collection.update_one(doc! { "_id": "x" }, set).await;
    changed.expect("updated");
    let new = server.until(&target, |answer| answer.json()["n"] == 1);
    let new = tokio::time::timeout(PATIENCE / 2, new).await.expect("soon");
    assert_eq!(new.header("cache-control"), "private, no-store, max-age=0");
    redis.node.resume();
    server
        .until(&target, |answer| answer.is_hit() && answer.json()["n"] == 1)
        .await;
}

#[tokio::test]
async fn c2_a_count_is_of_one_moment() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let name = fresh_database_name();
    let access = access(&name);
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    let client = mongo.client().await.expect("a client");
    let collection = client.database(&name).collection::<Document>("c");
    let records = (0..8_000).map(|i| doc! { "_id": i, "a": i + 1 });
    collection.insert_many(records).await.expect("inserted");
    let index = doc! { "createIndexes": "c", "indexes": [{ "key": { "a": 1 }, "name": "a" }] };
    let indexed = client.database(&name).run_command(index).await;
    indexed.expect("indexed");
    // Each update moves a record in the index, and none changes how many there are.
    let moving = tokio::spawn(async move {
        for i in 0_i32.. {
            let set = doc! { "$set": { "a": 1 + (i * 7_919) % 8_000 } };
            let one = doc! { "_id": (i * 31) % 8_000 };
            let moved = collection.update_one(one, set).await;
            moved.expect("updated");
        }
    });
    let target = format!(
        "/v1/{name}/c/_count?filter={}",
        encode("{\"a\":{\"$gt\":0}}")
    );
    for _ in 0..100 {
        let headers = [("cache-control", "no-cache")];
        let answer = server.send("GET", &target, &headers, "").await;
        assert_eq!(answer.json(), json!({ "count": 8_000 }));
    }
    moving.abort();
}

#[tokio::test]
async fn what_the_databases_own_rules_and_locks_refuse_is_said() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let settings = [("store", mongo.as_str()), ("access", OPEN)];
    let server = Server::start(&settings);
    let client = mongo.client().await.expect("a client");
    let database = client.database(&db);
    database
        .create_collection("c")
        .validator(doc! { "n": { "$type": "number" } })
        .await
        .expect("created");
    let record = format!("/v1/{db}/c/x");
    let valid = server.put(&record, r#"{"n":1}"#).await;
    assert_eq!(valid.status, 201, "{}", valid.text());
    let answers = [
        server.put(&record, r#"{"n":"one"}"#).await,
        server.patch(&record, "merge", r#"{"n":"one"}"#).await,
        server.post(&format!("/v1/{db}/c"), r#"{"n":"one"}"#).await,
    ];
    for answer in answers {
        assert_eq!(answer.status, 422, "{}", answer.text());
        assert_eq!(answer.json()["status"], 422);
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
    assert_eq!(
        server.get(&record).await.json()["n"],
        1,
        "nothing was written"
    );

    // Another program holds the record in a transaction that does not end.
    let mut session = client.start_session().await.expect("a session");
    session.start_transaction().await.expect("begun");
    database
        .collection::<Document>("c")
        .update_one(doc! { "_id": "x" }, doc! { "$inc": { "n": 1 } })
        .session(&mut session)
        .await
        .expect("held");
    let tag = server.get(&record).await.header("etag").to_owned();
    let headers = [
        ("content-type", "application/merge-patch+json"),
        ("if-match", tag.as_str()),
    ];
    let answer = server.send("PATCH", &record, &headers, r#"{"n":5}"#).await;
    assert_eq!(answer.status, 409, "{}", answer.text());
    session.abort_transaction().await.expect("let go");
    let answer = server.send("PATCH", &record, &headers, r#"{"n":5}"#).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[tokio::test]
async fn what_becomes_of_a_joined_collection_as_a_whole_is_seen() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let settings = [("store", mongo.as_str()), ("access", OPEN)];
    let server = Server::caching(&settings).await;
    let client = mongo.client().await.expect("a client");
    let database = client.database(&db);
    let [own, other] = ["o", "f"].map(|name| database.collection::<Document>(name));
    own.insert_one(doc! { "_id": 1, "v": 1 })
        .await
        .expect("inserted");
    other
        .insert_one(doc! { "_id": 1, "v": 1 })
        .await
        .expect("inserted");
    let pipeline =
        json!([{"$lookup": {"from": "f", "localField": "v", "foreignField": "v", "as": "j"}}]);
    let target = format!(
        "/v1/{db}/o/_aggregate?pipeline={}",
        encode(&pipeline.to_string())
    );
    let joined = |answer: &Answer| answer.json()["items"][0]["j"].as_array().map(Vec::len);
    let found = server.until(&target, Answer::is_hit).await;
    assert_eq!(joined(&found), Some(1));
    other.drop().await.expect("dropped");
    server
        .until(&target, |answer| joined(answer) == Some(0))
        .await;
}

const OPEN: &str =
    r#"[{collection = "*", read = "public", write = "public", database_only = "allow"}]"#;
