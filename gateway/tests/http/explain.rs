//! `_explain` on both stores: what it says is what a read does, and asking changes nothing.

use freshet_fixture::{Parts, fresh_database_name};
use serde_json::{Value, json};

use crate::support::{Answer, Server, encode};

/// A caching server over each store, and a database of its own there.
async fn servers(settings: &[(&str, &str)]) -> Vec<(Server, String)> {
    let mongo = Parts::mongo().await.expect("a replica set");
    let mut over_mongo = vec![("store", mongo.as_str())];
    over_mongo.extend_from_slice(settings);
    vec![
        (Server::caching(&over_mongo).await, fresh_database_name()),
        (Server::caching(settings).await, fresh_database_name()),
    ]
}

/// The reason that an answer's `Cache-Status` gives.
fn reason(read: &Answer) -> Option<String> {
    let (_, word) = read.header("cache-status").split_once("detail=")?;
    Some(word.to_owned())
}

/// M and S of an answer.
fn lifetimes(read: &Answer) -> (Option<u64>, Option<u64>) {
    let mut seconds = read
        .header("cache-control")
        .split(", ")
        .filter_map(|directive| {
            let (_, seconds) = directive.split_once('=')?;
            seconds.parse().ok()
        });
    (seconds.next(), seconds.next())
}

#[tokio::test]
async fn a_query_is_explained_as_it_is_answered() {
    for (server, db) in servers(&[]).await {
        let path = format!("/v1/{db}/c");
        let documents = r#"[{"_id":"a","k":1,"p":3},{"_id":"b","k":1,"p":2},{"_id":"c","k":2}]"#;
        server.caught_up(&server.post(&path, documents).await).await;
        let filter = encode(r#"{"p":{"$gt":1},"k":{"$eq":1}}"#);
        let spelled = format!("sort=-p,_id&filter={filter}&fields=p,_id&limit=1&view=auto");
        let explain = format!("{path}/_explain?{spelled}");
        let before = server.get(&explain).await;
        assert_eq!(before.status, 200, "{}", before.text());
        assert_eq!(
            before.header("cache-control"),
            "private, no-store, max-age=0"
        );
        let before = before.json();
        let key = before["key"].as_str().expect("a key").to_owned();
        let query = json!({
            "filter": {"k": 1, "p": {"$gt": 1}}, "sort": "-p", "skip": 0, "limit": 1, "fields": "p",
            "view": "auto", "rep": "relaxed",
        });
        assert_eq!(before["query"], query);
        assert_eq!(before["matcher"]["active"], false);
        assert_eq!(
            before["matcher"]["indexed_by"],
            json!([{"path": "k", "kind": "equality"}])
        );
        assert_eq!(before["result"]["items"], 1);
        assert_eq!(before["result"]["more"], true);
        assert_eq!(before["representation"]["asked"], "auto");
        assert_eq!(before["representation"]["given"], "objects");
        assert_eq!(
            (&before["cacheable"], &before["reason"]),
            (&json!(true), &Value::Null)
        );

        // The first look at a collection may change it (images are switched on), and with it what was read meanwhile.
        let read = server
            .until(&format!("{path}?{spelled}"), |read| {
                lifetimes(read).1.is_some()
            })
            .await;
        assert_eq!(read.header("content-location"), key);
        assert_eq!(before["result"]["bytes"], read.body.len());
        let tags: Vec<&str> = read.header("surrogate-key").split(' ').collect();
        assert_eq!(before["surrogate_keys"], json!(tags));
        let hash = before["hash"].as_str().expect("a hash");
        assert!(tags.contains(&&*format!("q-{hash}")), "{tags:?}");

        let after = server.get(&format!("{explain}&rep=relaxed")).await.json();
        assert_eq!(after["matcher"]["active"], true);
        assert_eq!(after["key"], *key);
        // Without writes the estimate only grows. What is sent counts down from it at once, in whole seconds.
        let max_age = |explained: &Value| explained["lifetimes"]["max_age"].as_u64();
        let (least, most) = (max_age(&before).expect("M"), max_age(&after).expect("M"));
        let (m, s) = lifetimes(&read);
        assert!(least > 1 && m == s, "{least} {m:?} {s:?}");
        assert!(
            m >= Some(least - 1) && m <= Some(most),
            "{least} {m:?} {most}"
        );
        let head = server.send("HEAD", &explain, &[], "").await;
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
    }
}

#[tokio::test]
async fn the_reason_is_the_one_that_a_read_gives() {
    let access = r#"[{collection = "*.keyed", read = "token", write = "token", token = "t0ken"},
        {collection = "*", read = "public", write = "public", database_only = "allow"}]"#;
    for (server, db) in servers(&[("access", access)]).await {
        let path = format!("/v1/{db}/c");
        server
            .caught_up(&server.put(&format!("{path}/a"), r#"{"k":1}"#).await)
            .await;
        let token = [
            ("authorization", "Bearer t0ken"),
            ("content-type", "application/json"),
        ];
        let keyed = format!("/v1/{db}/keyed");
        server.send("POST", &keyed, &token, r#"{"k":1}"#).await;
        let expr = encode(r#"{"$expr":{"$gt":["$k",0]}}"#);
        let look_ahead = encode(r#"{"k":{"$regex":"a(?=b)"}}"#);
        let cases = [
            ("keyed", String::new(), Some("private")),
            ("c", format!("?filter={expr}"), Some("database-only")),
            ("c", format!("?filter={look_ahead}"), Some("undecidable")),
            ("c", "?filter=%7B%22k%22:1%7D".to_owned(), None),
        ];
        for (collection, query, expected) in cases {
            let path = format!("/v1/{db}/{collection}");
            let read = server
                .send("GET", &format!("{path}{query}"), &token[..1], "")
                .await;
            let target = format!("{path}/_explain{query}");
            let explained = server.send("GET", &target, &token[..1], "").await;
            assert_eq!(read.status, explained.status, "{query}: {}", read.text());
            if read.status != 200 {
                // The embedded store refuses what it cannot decide exactly.
                assert_eq!(explained.body, read.body);
                continue;
            }
            assert_eq!(reason(&read).as_deref(), expected, "{query}");
            let explained = explained.json();
            assert_eq!(explained["reason"].as_str(), expected, "{query}");
            assert_eq!(explained["cacheable"], expected.is_none());
            assert_eq!(explained["advice"].is_string(), expected.is_some());
        }
        let pipeline = encode(r#"[{"$unwind":"$k"},{"$sort":{"k":1}}]"#);
        let read = server
            .get(&format!("{path}/_aggregate?pipeline={pipeline}"))
            .await;
        let explained = server
            .get(&format!("{path}/_explain?pipeline={pipeline}"))
            .await;
        let explained = explained.json();
        assert_eq!(reason(&read).as_deref(), Some("order"));
        assert_eq!(explained["reason"], "order");
        assert_eq!(
            explained["query"]["pipeline"][1],
            json!({"$sort": {"k": 1}})
        );
    }
}

#[tokio::test]
async fn asking_is_no_request_and_tells_no_more_than_the_answer() {
    let server = Server::caching(&[("admission.doorkeeper", "true")]).await;
    let documents = r#"[{"_id":"secretid","k":1,"s":"secretvalue"}]"#;
    server
        .caught_up(&server.post("/v1/db/c", documents).await)
        .await;
    let query = "fields=-_id,-s&filter=%7B%22k%22:1%7D";
    let explain = format!("/v1/db/c/_explain?{query}");
    for _ in 0..3 {
        let explained = server.get(&explain).await;
        assert_eq!(explained.json()["reason"], "first-request");
        assert_eq!(explained.json()["matcher"]["active"], false);
        assert!(!explained.text().contains("secret"), "{}", explained.text());
    }
    let target = format!("/v1/db/c?{query}");
    assert_eq!(
        reason(&server.get(&target).await).as_deref(),
        Some("first-request")
    );
    assert_eq!(server.get(&explain).await.json()["cacheable"], true);
    assert_eq!(reason(&server.get(&target).await), None);
}

#[tokio::test]
async fn its_errors_are_those_of_the_query() {
    let access = r#"[{collection = "db.keyed", read = "token", token = "t0ken"}, {collection = "db.c", read = "public", limit_max = 10}]"#;
    let server = Server::start(&[("access", access)]);
    for (collection, query) in [
        ("c", "?limit=10&filter=%7B%22a%22:%7B%22%24what%22:1%7D%7D"),
        ("c", "?limit=10&what=1"),
        ("c", "?limit=10&limit=10"),
        ("c", "?limit=11"),
        ("c", "?limit=10&after=nonsense"),
        ("c", "?qid=0123456789abcdef0123456789abcdef"),
        ("keyed", ""),
        ("other", ""),
    ] {
        let read = server.get(&format!("/v1/db/{collection}{query}")).await;
        let explained = server
            .get(&format!("/v1/db/{collection}/_explain{query}"))
            .await;
        assert!(read.status.is_client_error(), "{query}");
        assert_eq!(explained.status, read.status, "{query}");
        assert_eq!(explained.body, read.body, "{query}");
    }
    let posted = server.post("/v1/db/c/_explain", "{}").await;
    assert_eq!(posted.status, 405);
    assert_eq!(posted.header("allow"), "GET, HEAD, OPTIONS");
}

#[tokio::test]
async fn observed_lifetimes_take_over_from_write_rates() {
    let server = Server::caching(&[("policy.alpha", "0.5")]).await;
    let target = "/v1/db/c?filter=%7B%22k%22:1%7D";
    let explain = "/v1/db/c/_explain?filter=%7B%22k%22:1%7D";
    let before = server.get(explain).await.json();
    let life = &before["lifetimes"];
    assert_eq!(life["basis"], "no-writes-seen");
    assert_eq!(life["estimated_seconds"], Value::Null, "no bound");
    assert_eq!(
        (&life["max_age"], &life["max_age_cap_seconds"]),
        (&json!(600), &json!(600))
    );
    assert_eq!(
        (&life["quantile"], &life["alpha"]),
        (&json!(0.8), &json!(0.5))
    );
    server.until(target, Answer::is_hit).await;
    let written = server.put("/v1/db/c/a", r#"{"k":1}"#).await;
    server.caught_up(&written).await;
    let explained = server
        .until(explain, |answer| {
            answer.json()["lifetimes"]["observed_last_seconds"].is_number()
        })
        .await;
    let explained = explained.json();
    let life = &explained["lifetimes"];
    assert_eq!(life["basis"], "observed-lifetimes");
    assert_eq!(life["observed_average_seconds"], life["estimated_seconds"]);
    assert!(life["records_per_second"].as_f64() > Some(0.0), "{life}");
    assert!(
        life["result_changes_per_second"].as_f64() > Some(0.0),
        "{life}"
    );
    let parts = ["records_per_second", "result_changes_per_second"];
    let sum: f64 = parts.iter().filter_map(|part| life[*part].as_f64()).sum();
    let lambda = life["lambda_per_second"].as_f64().expect("a number");
    assert!((lambda / sum - 1.0).abs() < 1e-9, "{lambda} {sum}");
}

#[tokio::test]
async fn hinted_collections_are_cached_where_others_find_no_room() {
    let access = r#"[{collection = "db.h", read = "public", hinted = true}, {collection = "*", read = "public"}]"#;
    let settings = [("access", access), ("policy.active_max", "1")];
    let server = Server::caching(&settings).await;
    server.until("/v1/db/a", Answer::is_hit).await;
    let full = server.get("/v1/db/b").await;
    assert_eq!(reason(&full).as_deref(), Some("capacity"));
    let explained = server.get("/v1/db/b/_explain").await.json();
    assert_eq!(explained["reason"], "capacity");
    assert_eq!(
        server.get("/v1/db/h/_explain").await.json()["cacheable"],
        true
    );
    server.until("/v1/db/h", Answer::is_hit).await;

    let settings = [("policy.database_active_max", "1")];
    let server = Server::caching(&settings).await;
    server.until("/v1/db/a", Answer::is_hit).await;
    let full = server.get("/v1/db/b").await;
    assert_eq!(reason(&full).as_deref(), Some("database-quota"));
    let explained = server.get("/v1/db/b/_explain").await.json();
    assert_eq!(explained["reason"], "database-quota");
    server.until("/v1/other/a", Answer::is_hit).await;
}
