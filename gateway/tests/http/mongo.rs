//! The same over MongoDB, where others write too.

use freshet_fixture::{Parts, fresh_database_name};
use mongodb::bson::doc;
use serde_json::json;

use crate::support::{Answer, Server};

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
