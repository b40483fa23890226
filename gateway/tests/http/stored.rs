//! Stored queries on both stores, and collections on which nothing else is answered.

use freshet_fixture::{Parts, fresh_database_name};
use serde_json::{Value, json};

use crate::support::{Answer, Server, encode};

async fn servers(settings: &[(&str, &str)]) -> Vec<(Server, String)> {
    let mongo = Parts::mongo().await.expect("a replica set");
    let mut over_mongo = vec![("store", mongo.as_str())];
    over_mongo.extend_from_slice(settings);
    vec![
        (Server::caching(&over_mongo).await, fresh_database_name()),
        (Server::caching(settings).await, fresh_database_name()),
    ]
}

/// The hash that a query has: a wrong one is answered with the right one.
async fn hash_of(server: &Server, db: &str, query: &Value) -> String {
    let wrong = format!("/v1/{db}/_queries/{}", "0".repeat(32));
    let answer = server.put(&wrong, &query.to_string()).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert_eq!(answer.header("content-type"), "application/problem+json");
    answer.json()["hash"].as_str().expect("a hash").to_owned()
}

/// Stores a query; answers its hash.
async fn stored(server: &Server, db: &str, query: &Value) -> String {
    let hash = hash_of(server, db, query).await;
    let target = format!("/v1/{db}/_queries/{hash}");
    let answer = server.put(&target, &query.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.text());
    hash
}

fn problem(answer: &Answer, status: u16) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(
        answer.header("cache-control"),
        "private, no-store, max-age=0"
    );
    assert_eq!(answer.json()["status"], status);
}

#[tokio::test]
async fn a_stored_query_is_answered_as_its_url_is() {
    for (server, db) in servers(&[]).await {
        let path = format!("/v1/{db}/c");
        let documents = r#"[{"_id":"a","k":1,"p":3},{"_id":"b","k":1,"p":2},{"_id":"c","k":2}]"#;
        server.caught_up(&server.post(&path, documents).await).await;
        let query = json!({
            "collection": "c", "filter": {"k": {"$eq": 1}}, "sort": "-p", "fields": "p", "limit": 1,
        });
        let hash = stored(&server, &db, &query).await;
        let canonical = format!("{path}?fields=p&filter=%7B%22k%22:1%7D&limit=1&sort=-p");
        let target = format!("/v1/{db}/_queries/{hash}");
        let again = server.put(&target, &query.to_string()).await;
        assert_eq!(again.status, 200);
        assert_eq!(
            again.json(),
            json!({"hash": hash, "key": canonical, "url": format!("{path}?qid={hash}")})
        );
        assert!(!again.header("freshet-position").is_empty());

        let by_hash = format!("{path}?qid={hash}");
        let first = server
            .until(&by_hash, |read| {
                read.header("cache-control").starts_with("public, ")
            })
            .await;
        assert_eq!(first.json()["items"], json!([{"_id": "a", "p": 3}]));
        assert_eq!(first.header("content-location"), canonical);
        server.until(&by_hash, Answer::is_hit).await;
        let by_url = server.get(&canonical).await;
        assert!(by_url.is_hit(), "one key, one copy");
        for name in ["etag", "surrogate-key", "xkey", "freshet-position"] {
            assert_eq!(by_url.header(name), first.header(name), "{name}");
        }
        assert!(first.header("surrogate-key").contains(&format!("q-{hash}")));
        assert_eq!(by_url.body, first.body);
        assert_eq!(server.send("HEAD", &by_hash, &[], "").await.status, 200);
        let tag = first.header("etag");
        assert_eq!(
            server.get_with(&by_hash, "if-none-match", tag).await.status,
            304
        );

        let next = first.json()["next"].as_str().expect("more").to_owned();
        let page = server.get(&format!("{by_hash}&after={next}")).await;
        assert_eq!(page.json()["items"], json!([{"_id": "b", "p": 2}]));
        let other = server
            .get(&format!("{by_hash}&rep=canonical&view=ids"))
            .await;
        assert_eq!(
            other.json()["items"],
            json!([{"_ref": format!("{path}/a")}])
        );
        let count = server.get(&format!("{path}/_count?qid={hash}")).await;
        assert_eq!(count.json(), json!({"count": 2}));
        let explained = server.get(&format!("{path}/_explain?qid={hash}")).await;
        assert_eq!(explained.json()["key"], canonical);

        let written = server
            .patch(&format!("{path}/b"), "merge", r#"{"p":9}"#)
            .await;
        assert_eq!(written.status, 200);
        server
            .until(&by_hash, |answer| answer.json()["items"][0]["p"] == 9)
            .await;
    }
}

#[tokio::test]
async fn what_is_not_stored_is_404_and_what_is_no_query_400() {
    for (server, db) in servers(&[]).await {
        let path = format!("/v1/{db}/c");
        server.put(&format!("{path}/a"), "{}").await;
        let query = json!({"collection": "c", "filter": {"k": 1}});
        let hash = hash_of(&server, &db, &query).await;
        let missing = server.get(&format!("{path}?qid={hash}")).await;
        problem(&missing, 404);
        let detail = missing.json()["detail"].as_str().map(str::to_owned);
        assert!(detail.is_some_and(|detail| detail.contains("PUT")));
        stored(&server, &db, &query).await;
        assert_eq!(server.get(&format!("{path}?qid={hash}")).await.status, 200);
        problem(&server.get(&format!("/v1/{db}/d?qid={hash}")).await, 404);
        for query in [
            "qid=x",
            &*format!("qid={hash}&limit=5"),
            &*format!("qid={hash}&filter={{}}"),
        ] {
            problem(&server.get(&format!("{path}?{query}")).await, 400);
        }
        problem(&server.get(&format!("{path}/a?qid={hash}")).await, 400);
        problem(
            &server
                .get(&format!("{path}/_count?qid={hash}&rep=canonical"))
                .await,
            400,
        );

        let target = format!("/v1/{db}/_queries/{hash}");
        for (body, pointer) in [
            ("{}", Some("/collection")),
            (r#"{"collection":5}"#, None),
            (r#"{"collection":"_c"}"#, Some("/collection")),
            (
                r#"{"collection":"c","filter":{"k":{"$what":1}}}"#,
                Some("/k/$what"),
            ),
            (r#"{"collection":"c","what":1}"#, None),
            (r#"{"collection":"c","pipeline":[]}"#, None),
            ("[]", None),
        ] {
            let answer = server.put(&target, body).await;
            problem(&answer, 400);
            if let Some(pointer) = pointer {
                assert_eq!(answer.json()["pointer"], pointer, "{body}");
            }
        }
        let plain = server
            .send("PUT", &target, &[("content-type", "text/plain")], "{}")
            .await;
        problem(&plain, 415);
        problem(&server.get(&target).await, 405);
        problem(
            &server.put(&format!("{target}?rep=relaxed"), "{}").await,
            400,
        );

        assert_eq!(server.send("DELETE", &target, &[], "").await.status, 204);
        problem(&server.send("DELETE", &target, &[], "").await, 404);
        problem(&server.get(&format!("{path}?qid={hash}")).await, 404);
        problem(&server.get(&format!("/v1/{db}/freshet.queries")).await, 403);
    }
}

#[tokio::test]
async fn another_gateway_answers_what_this_one_stored() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let settings = [("store", mongo.as_str())];
    let (one, other) = (Server::start(&settings), Server::start(&settings));
    let db = fresh_database_name();
    one.put(&format!("/v1/{db}/c/a"), r#"{"k":1}"#).await;
    let hash = stored(&one, &db, &json!({"collection": "c", "filter": {"k": 1}})).await;
    let answer = other.get(&format!("/v1/{db}/c?qid={hash}")).await;
    assert_eq!(answer.json()["items"], json!([{"_id": "a", "k": 1}]));
}

#[tokio::test]
async fn a_filter_too_long_for_a_url_is_cached_and_invalidated() {
    for (server, db) in servers(&[]).await {
        let path = format!("/v1/{db}/c");
        let written = server
            .put(&format!("{path}/a"), r#"{"k":"value number 0007"}"#)
            .await;
        server.caught_up(&written).await;
        let values: Vec<String> = (0..900).map(|i| format!("value number {i:04}")).collect();
        let query = json!({"collection": "c", "filter": {"k": {"$in": values}}});
        let hash = stored(&server, &db, &query).await;
        let by_hash = format!("{path}?qid={hash}");
        let hit = server.until(&by_hash, Answer::is_hit).await;
        assert_eq!(
            hit.header("content-location"),
            "",
            "no URL that would be 414"
        );
        assert_eq!(hit.json()["items"][0]["_id"], "a");
        server
            .put(&format!("{path}/b"), r#"{"k":"value number 0899"}"#)
            .await;
        server
            .until(&by_hash, |answer| answer.json()["items"][1]["_id"] == "b")
            .await;
    }
}

#[tokio::test]
async fn how_many_and_how_long_is_limited() {
    let settings = [
        ("limits.stored_queries_max", "2"),
        ("limits.stored_query_bytes_max", "300B"),
    ];
    let server = Server::start(&settings);
    let query = |k: &str| json!({"collection": "c", "filter": {"k": k}});
    stored(&server, "db", &query("1")).await;
    let second = stored(&server, "db", &query("2")).await;
    let hash = hash_of(&server, "db", &query("3")).await;
    let third = format!("/v1/db/_queries/{hash}");
    problem(&server.put(&third, &query("3").to_string()).await, 429);
    let again = format!("/v1/db/_queries/{second}");
    assert_eq!(
        server.put(&again, &query("2").to_string()).await.status,
        200
    );
    stored(&server, "other", &query("3")).await;
    assert_eq!(server.send("DELETE", &again, &[], "").await.status, 204);
    assert_eq!(
        server.put(&third, &query("3").to_string()).await.status,
        201
    );
    let long = query(&"x".repeat(300)).to_string();
    problem(&server.put(&third, &long).await, 413);
}

#[tokio::test]
async fn storing_needs_its_own_right_or_that_to_write() {
    let access = r#"[
        {collection = "db.open", read = "public", write = "public"},
        {collection = "db.kept", read = "public", store_queries = "token", token = "t0ken"},
        {collection = "db.closed", read = "public"}]"#;
    let server = Server::start(&[("access", access)]);
    stored(&server, "db", &json!({"collection": "open"})).await;
    let target = format!("/v1/db/_queries/{}", "0".repeat(32));
    problem(
        &server.put(&target, r#"{"collection":"closed"}"#).await,
        403,
    );
    problem(&server.put(&target, r#"{"collection":"kept"}"#).await, 401);
    let token = [
        ("authorization", "Bearer t0ken"),
        ("content-type", "application/json"),
    ];
    let body = r#"{"collection":"kept"}"#;
    let wrong = server.send("PUT", &target, &token, body).await;
    let hash = wrong.json()["hash"].as_str().expect("a hash").to_owned();
    let target = format!("/v1/db/_queries/{hash}");
    assert_eq!(server.send("PUT", &target, &token, body).await.status, 201);
    problem(&server.send("DELETE", &target, &[], "").await, 401);
    assert_eq!(
        server.get(&format!("/v1/db/kept?qid={hash}")).await.status,
        200
    );
    assert_eq!(server.send("DELETE", &target, &token, "").await.status, 204);
}

#[tokio::test]
async fn where_only_stored_queries_are_answered_nothing_else_is() {
    let access = r#"[
        {collection = "*.listed", read = "public", write = "token", token = "t0ken", queries = "stored"},
        {collection = "*", read = "public"}]"#;
    for (server, db) in servers(&[("access", access)]).await {
        let path = format!("/v1/{db}/listed");
        let token = [
            ("authorization", "Bearer t0ken"),
            ("content-type", "application/json"),
        ];
        let written = server
            .send(
                "POST",
                &path,
                &token,
                r#"[{"_id":"a","k":1},{"_id":"b","k":2}]"#,
            )
            .await;
        server.caught_up(&written).await;
        let filter = encode(r#"{"k":1}"#);
        let pipeline = encode(r#"[{"$limit":1}]"#);
        let join = json!([{"$lookup": {"from": "listed", "localField": "k", "foreignField": "k", "as": "j"}}]);
        let join = encode(&join.to_string());
        let refused = [
            path.clone(),
            format!("{path}?filter={filter}"),
            format!("{path}?sort=-k"),
            format!("{path}/_count"),
            format!("{path}/_aggregate?pipeline={pipeline}"),
            format!("{path}/_explain?filter={filter}"),
            format!("/v1/{db}/free/_aggregate?pipeline={join}"),
        ];
        for target in &refused {
            problem(&server.get(target).await, 403);
        }
        problem(
            &server
                .post(&format!("{path}/_query"), r#"{"limit":5}"#)
                .await,
            403,
        );
        assert_eq!(server.get(&format!("{path}/a")).await.status, 200);

        let body = r#"{"collection":"listed","filter":{"k":1}}"#;
        let wrong = format!("/v1/{db}/_queries/{}", "0".repeat(32));
        problem(&server.put(&wrong, body).await, 401);
        let answer = server.send("PUT", &wrong, &token, body).await;
        let hash = answer.json()["hash"].as_str().expect("a hash").to_owned();
        let target = format!("/v1/{db}/_queries/{hash}");
        assert_eq!(server.send("PUT", &target, &token, body).await.status, 201);
        let by_hash = format!("{path}?qid={hash}");
        let hit = server.until(&by_hash, Answer::is_hit).await;
        assert_eq!(hit.json()["items"], json!([{"_id": "a", "k": 1}]));
        // The copy that the gateway keeps is under the canonical URL.
        let canonical = hit.header("content-location").to_owned();
        problem(&server.get(&canonical).await, 403);
        assert!(server.get(&by_hash).await.is_hit());
        let count = server.get(&format!("{path}/_count?qid={hash}")).await;
        assert_eq!(count.json(), json!({"count": 1}));
        let explained = server.get(&format!("{path}/_explain?qid={hash}")).await;
        assert_eq!(explained.json()["cacheable"], true);
    }
}
