//! Aggregations over HTTP, on both stores: answers, tags, refusals, access.

use freshet_fixture::{Parts, fresh_database_name};
use serde_json::{Value, json};

use crate::support::{Answer, Server, encode};

/// A server over each store, and a database of its own there.
async fn servers(access: &str) -> Vec<(Server, String)> {
    let mongo = Parts::mongo().await.expect("a replica set");
    let settings = [("store", mongo.as_str()), ("access", access)];
    vec![
        (Server::start(&settings), fresh_database_name()),
        (Server::start(&[("access", access)]), fresh_database_name()),
    ]
}

const OPEN: &str =
    r#"[{collection = "*", read = "public", write = "public", database_only = "allow"}]"#;

fn target(db: &str, pipeline: &Value) -> String {
    format!(
        "/v1/{db}/sales/_aggregate?pipeline={}",
        encode(&pipeline.to_string())
    )
}

async fn filled(server: &Server, db: &str) {
    let sales = json!([
        {"_id": 1, "item": "tea", "price": 3, "tags": ["hot", "leaf"], "buyer": "ann"},
        {"_id": 2, "item": "tea", "price": 4, "tags": ["cold"], "buyer": "bob"},
        {"_id": 3, "item": "jam", "price": 0.5, "tags": [], "buyer": "ann"},
        {"_id": 4, "item": "bun", "price": 2, "buyer": "eve"},
    ]);
    let buyers = json!([{"_id": "bob", "age": 30}, {"_id": "ann", "age": 40}]);
    for (collection, documents) in [("sales", sales), ("buyers", buyers)] {
        let answer = server
            .post(&format!("/v1/{db}/{collection}"), &documents.to_string())
            .await;
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
}

fn items(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["items"].clone()
}

#[tokio::test]
async fn pipelines_are_answered() {
    for (server, db) in servers(OPEN).await {
        filled(&server, &db).await;
        let answered = async |pipeline: Value| items(&server.get(&target(&db, &pipeline)).await);
        assert_eq!(
            answered(json!([{"$group": {"_id": "$item", "n": {"$count": {}}, "sum": {"$sum": "$price"}}}])).await,
            json!([
                {"_id": "bun", "n": 1, "sum": 2},
                {"_id": "jam", "n": 1, "sum": 0.5},
                {"_id": "tea", "n": 2, "sum": 7},
            ])
        );
        assert_eq!(
            answered(json!([{"$unwind": "$tags"}, {"$sortByCount": "$tags"}, {"$limit": 2}])).await,
            json!([{"_id": "cold", "count": 1}, {"_id": "hot", "count": 1}])
        );
        assert_eq!(
            answered(json!([
                {"$match": {"price": {"$gte": 3}}},
                {"$lookup": {"from": "buyers", "localField": "buyer", "foreignField": "_id", "as": "who"}},
                {"$project": {"_id": 0, "item": 1, "age": {"$arrayElemAt": ["$who.age", 0]}}},
            ]))
            .await,
            json!([{"item": "tea", "age": 40}, {"item": "tea", "age": 30}])
        );
        assert_eq!(
            answered(json!([{"$facet": {"n": [{"$count": "n"}], "top": [{"$sort": {"price": -1}}, {"$limit": 1}, {"$project": {"price": 1}}]}}])).await,
            json!([{"n": [{"n": 4}], "top": [{"_id": 2, "price": 4}]}])
        );
        assert_eq!(
            answered(json!([{"$group": {"_id": null, "items": {"$addToSet": "$item"}, "all": {"$push": "$_id"}}}])).await,
            json!([{"_id": null, "items": ["bun", "jam", "tea"], "all": [1, 2, 3, 4]}])
        );
        assert_eq!(
            answered(json!([{"$match": {"item": "none"}}, {"$count": "n"}])).await,
            json!([])
        );
        let all = answered(json!([])).await;
        assert_eq!(all.as_array().expect("an array").len(), 4);
    }
}

#[tokio::test]
async fn answers_have_tags_and_one_key() {
    for (server, db) in servers(OPEN).await {
        filled(&server, &db).await;
        let canonical =
            format!("/v1/{db}/sales/_aggregate?pipeline=%5B%7B%22$count%22:%22n%22%7D%5D");
        let answer = server.get(&canonical).await;
        assert_eq!(answer.text(), r#"{"items":[{"n":4}]}"#);
        assert_eq!(answer.header("content-location"), "");
        assert_eq!(answer.header("content-type"), "application/json");
        let position: u64 = answer.header("freshet-position").parse().expect("decimal");
        assert!(position > 0);

        let spelled = server.get(&target(&db, &json!([{"$count": "n"}]))).await;
        assert_eq!(spelled.header("content-location"), canonical);
        let tag = answer.header("etag");
        assert_eq!(spelled.header("etag"), tag);
        let unchanged = server.get_with(&canonical, "if-none-match", tag).await;
        assert_eq!(unchanged.status, 304);
        let head = server.send("HEAD", &canonical, &[], "").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(head.header("etag"), tag);

        let canonical = server.get(&format!("{canonical}&rep=canonical")).await;
        assert_eq!(canonical.text(), r#"{"items":[{"n":{"$numberInt":"4"}}]}"#);
    }
}

#[tokio::test]
async fn an_order_that_nothing_defines_is_the_reason_then() {
    let server = Server::start(&[]);
    filled(&server, "db").await;
    let pipeline = json!([{"$unwind": "$tags"}, {"$sort": {"price": 1}}]);
    let answer = server.get(&target("db", &pipeline)).await;
    assert_eq!(items(&answer).as_array().map(Vec::len), Some(3));
    let status = answer.header("cache-status");
    assert!(status.contains("order"), "{status}");
}

fn refused(answer: &Answer, pointer: &Value) {
    assert_eq!(answer.status, 400, "{}", answer.text());
    let problem = answer.json();
    assert_eq!(&problem["pointer"], pointer, "{problem}");
    assert_eq!(problem["parameter"], "pipeline", "{problem}");
    assert_eq!(
        answer.header("cache-control"),
        "private, no-store, max-age=0"
    );
}

#[tokio::test]
async fn what_is_wrong_is_refused_with_its_place() {
    for (server, db) in servers(OPEN).await {
        for (pipeline, pointer) in [
            (json!([{"$out": "x"}]), json!("/0/$out")),
            (
                json!([{"$match": {}}, {"$sample": {"size": 1}}]),
                json!("/1/$sample"),
            ),
            (
                json!([{"$match": {"a": {"$where": "1"}}}]),
                json!("/0/$match/a/$where"),
            ),
            (
                json!([{"$project": {"x": {"$rand": {}}}}]),
                json!("/0/$project/x/$rand"),
            ),
            (json!({"$count": "n"}), Value::Null),
        ] {
            refused(&server.get(&target(&db, &pipeline)).await, &pointer);
        }
        let bare = format!("/v1/{db}/sales/_aggregate");
        refused(&server.get(&bare).await, &Value::Null);
        assert_eq!(server.post(&bare, "[]").await.status, 405);
        let twice = format!("{}&limit=5", target(&db, &json!([])));
        assert_eq!(server.get(&twice).await.status, 400);
    }
}

#[tokio::test]
async fn more_documents_than_an_answer_has_are_refused() {
    for (server, db) in servers(OPEN).await {
        let many: Vec<Value> = (0..1001).map(|n| json!({"_id": n})).collect();
        let sales = format!("/v1/{db}/sales");
        let inserted = server.post(&sales, &json!(many[..1000]).to_string()).await;
        assert_eq!(inserted.status, 201);
        let all = target(&db, &json!([{"$match": {"_id": {"$gte": 0}}}]));
        assert_eq!(
            items(&server.get(&all).await).as_array().map(Vec::len),
            Some(1000)
        );
        let inserted = server.post(&sales, &many[1000].to_string()).await;
        assert_eq!(inserted.status, 201);
        // The copy of the thousand may be answered until the change came in.
        let full = server.until(&all, |answer| answer.status != 200).await;
        refused(&full, &Value::Null);
        let limited = server.get(&target(&db, &json!([{"$limit": 1000}]))).await;
        assert_eq!(items(&limited).as_array().map(Vec::len), Some(1000));
    }
}

#[tokio::test]
async fn what_is_joined_has_to_be_readable_too() {
    let access = r#"[{collection = "*.buyers", read = "token", token = "sesame", write = "public"}, {collection = "*.secret", read = "deny"}, {collection = "*", read = "public", write = "public"}]"#;
    for (server, db) in servers(access).await {
        filled(&server, &db).await;
        let join = |from: &str| {
            let stage =
                json!({"from": from, "localField": "buyer", "foreignField": "_id", "as": "who"});
            [
                json!([{"$lookup": stage}]),
                json!([{"$facet": {"x": [{"$lookup": stage}]}}]),
            ]
        };
        for pipeline in join("secret") {
            assert_eq!(server.get(&target(&db, &pipeline)).await.status, 403);
        }
        for pipeline in join("buyers") {
            let target = target(&db, &pipeline);
            assert_eq!(server.get(&target).await.status, 401);
            let answer = server
                .get_with(&target, "authorization", "Bearer sesame")
                .await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(answer.header("cache-status").contains("private"));
        }
        // Where only the database decides, the rule has the last word.
        let pipeline = json!([{"$match": {"$expr": {"$gt": ["$price", 1]}}}]);
        refused(&server.get(&target(&db, &pipeline)).await, &Value::Null);
    }
    let access = r#"[{collection = "*", read = "public", limit_max = 10}]"#;
    let limited = Server::start(&[("access", access)]);
    refused(&limited.get(&target("db", &json!([]))).await, &Value::Null);
    for pipeline in [json!([{"$limit": 10}]), json!([{"$count": "n"}])] {
        assert_eq!(limited.get(&target("db", &pipeline)).await.status, 200);
    }
}

/// A server over each store on which answers get cached.
async fn caching() -> Vec<(Server, String)> {
    let mongo = Parts::mongo().await.expect("a replica set");
    let over_mongo = [("store", mongo.as_str()), ("access", OPEN)];
    vec![
        (Server::caching(&over_mongo).await, fresh_database_name()),
        (
            Server::caching(&[("access", OPEN)]).await,
            fresh_database_name(),
        ),
    ]
}

#[tokio::test]
async fn an_aggregate_is_a_hit_until_something_changes_that_it_depends_on() {
    for (server, db) in caching().await {
        filled(&server, &db).await;
        let by_item = target(
            &db,
            &json!([{"$match": {"price": {"$gte": 1}}}, {"$group": {"_id": "$item", "n": {"$count": {}}}}]),
        );
        server.until(&by_item, Answer::is_hit).await;
        let record = |id: u32| format!("/v1/{db}/sales/~{id}");
        // The price is looked at only as far as the filter goes; the buyer not at all.
        let written = server
            .patch(&record(1), "merge", r#"{"price":9,"buyer":"zoe"}"#)
            .await;
        server.caught_up(&written).await;
        assert!(server.get(&by_item).await.is_hit());
        server.patch(&record(3), "merge", r#"{"price":1}"#).await;
        server
            .until(&by_item, |answer| {
                answer.json()["items"].as_array().map(Vec::len) == Some(3)
            })
            .await;
        server.patch(&record(4), "merge", r#"{"item":"jam"}"#).await;
        let jam = json!([{"_id": "jam", "n": 2}, {"_id": "tea", "n": 2}]);
        server
            .until(&by_item, |answer| answer.json()["items"] == jam)
            .await;
    }
}

#[tokio::test]
async fn a_join_is_a_hit_until_either_side_changes() {
    for (server, db) in caching().await {
        filled(&server, &db).await;
        let joined = target(
            &db,
            &json!([
                {"$match": {"item": "tea"}},
                {"$lookup": {"from": "buyers", "localField": "buyer", "foreignField": "_id", "as": "who"}},
                {"$project": {"_id": 0, "buyer": 1, "who.age": 1}},
            ]),
        );
        server.until(&joined, Answer::is_hit).await;
        let other = server
            .put(&format!("/v1/{db}/buyers/eve"), r#"{"age":20}"#)
            .await;
        server.caught_up(&other).await;
        assert!(server.get(&joined).await.is_hit(), "nobody looked for eve");
        let bob = format!("/v1/{db}/buyers/bob");
        server.patch(&bob, "merge", r#"{"age":31}"#).await;
        let shown = |ann: u32, bob: u32| {
            json!([
                {"buyer": "ann", "who": [{"age": ann}]},
                {"buyer": "bob", "who": [{"age": bob}]},
            ])
        };
        server
            .until(&joined, |answer| answer.json()["items"] == shown(40, 31))
            .await;
        server.until(&joined, Answer::is_hit).await;
        // The local side looks for another one, and is then touched by that one.
        let sale = format!("/v1/{db}/sales/~2");
        server.patch(&sale, "merge", r#"{"buyer":"eve"}"#).await;
        let with_eve = |age: u32| {
            json!([
                {"buyer": "ann", "who": [{"age": 40}]},
                {"buyer": "eve", "who": [{"age": age}]},
            ])
        };
        server
            .until(&joined, |answer| answer.json()["items"] == with_eve(20))
            .await;
        server.until(&joined, Answer::is_hit).await;
        let eve = format!("/v1/{db}/buyers/eve");
        server.patch(&eve, "merge", r#"{"age":21}"#).await;
        server
            .until(&joined, |answer| answer.json()["items"] == with_eve(21))
            .await;
    }
}

#[tokio::test]
async fn the_embedded_store_ends_a_pipeline_that_takes_too_long() {
    let server = Server::start(&[("limits.read_timeout", "20s")]);
    // A large document takes a step for each KiB: the limit is met soon, also on a slow machine.
    let large = json!({"text": "x".repeat(50_000)}).to_string();
    server.put("/v1/db/sales/a", &large).await;
    let mut stages = vec![json!({"$set": {"t": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}})];
    for level in 0..9 {
        let field = format!("u{level}");
        stages.push(json!({"$set": {&field: "$t"}}));
        stages.push(json!({"$unwind": format!("${field}")}));
    }
    stages.push(json!({"$count": "n"}));
    let answer = server.get(&target("db", &json!(stages))).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    let detail = answer.json()["detail"].to_string();
    assert!(detail.contains("steps"), "{detail}");
}

#[tokio::test]
async fn a_join_keeps_browsers_from_keeping_where_the_joined_collection_does() {
    let access = r#"[{collection = "*.buyers", read = "public", write = "public", clients = "revalidate"}, {collection = "*", read = "public", write = "public"}]"#;
    let server = Server::caching(&[("access", access)]).await;
    filled(&server, "db").await;
    let stage =
        json!({"from": "buyers", "localField": "buyer", "foreignField": "_id", "as": "who"});
    let joined = target("db", &json!([{"$lookup": stage}]));
    let answer = server.until(&joined, Answer::is_hit).await;
    let control = answer.header("cache-control");
    assert!(
        control.starts_with("public, max-age=0, s-maxage="),
        "{control}"
    );
    let alone = target("db", &json!([{"$count": "n"}]));
    let answer = server.until(&alone, Answer::is_hit).await;
    let control = answer.header("cache-control");
    assert!(!control.contains("max-age=0,"), "{control}");
}
