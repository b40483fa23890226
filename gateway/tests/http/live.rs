//! Live queries: what a follower has at each position is what the query answers there.

use std::collections::BTreeMap;
use std::time::Duration;

use freshet_fixture::{Parts, fresh_database_name};
use mongodb::bson::{Document, doc};
use serde_json::{Value, json};

use crate::errors::problem;
use crate::stream::{Copy, Event, Stream};
use crate::support::{Answer, PATIENCE, Server, encode};

/// A small generator of numbers, the same ones each time (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

fn position(answer: &Answer) -> u64 {
    answer.header("freshet-position").parse().expect("decimal")
}

fn live(target: &str) -> String {
    match target.split_once('?') {
        Some((path, query)) => format!("{path}/_live?{query}"),
        None => format!("{target}/_live"),
    }
}

/// The queries that are followed: windows, orders with ties, what is skipped, shown, hidden, named only.
fn queries(collection: &str) -> Vec<String> {
    let of = |query: &str| format!("{collection}?{query}");
    vec![
        collection.to_owned(),
        of(&format!("filter={}&sort=n", encode(r#"{"n":{"$gte":3}}"#))),
        of("sort=-n,k&limit=4"),
        of("sort=k&limit=3&skip=2"),
        of("sort=n&limit=3&fields=k"),
        of("sort=k&limit=5&view=ids"),
        of(&format!("filter={}&limit=2", encode(r#"{"tags":"a"}"#))),
        of("fields=-n&limit=6&rep=canonical"),
    ]
}

fn computed(collection: &str) -> Vec<String> {
    let of = |pipeline: &str| format!("{collection}/_aggregate?pipeline={}", encode(pipeline));
    vec![
        format!("{collection}/_count"),
        format!(
            "{collection}/_count?filter={}",
            encode(r#"{"n":{"$lt":4}}"#)
        ),
        of(
            r#"[{"$match":{"n":{"$gt":1}}},{"$group":{"_id":null,"sum":{"$sum":"$n"},"most":{"$max":"$k"}}}]"#,
        ),
        of(r#"[{"$group":{"_id":"$k","n":{"$sum":1}}},{"$sort":{"_id":1}}]"#),
    ]
}

fn body(numbers: &mut Numbers) -> Value {
    let mut document = json!({"k": numbers.below(3), "n": numbers.below(7)});
    if numbers.below(2) == 0 {
        document["tags"] = json!(["a", "b"][..usize::try_from(numbers.below(3)).expect("small")]);
    }
    document
}

async fn write_something(server: &Server, collection: &str, numbers: &mut Numbers) -> Option<u64> {
    let record = format!("{collection}/~{}", numbers.below(12));
    let answer = match numbers.below(4) {
        0 => server.send("DELETE", &record, &[], "").await,
        1 => {
            server
                .patch(&record, "merge", &body(numbers).to_string())
                .await
        }
        _ => server.put(&record, &body(numbers).to_string()).await,
    };
    answer.status.is_success().then(|| position(&answer))
}

/// Follows everything, writes, and compares what each follower had after each write with what the query answered then.
async fn compare(server: &Server, collection: &str, seed: u64, writes: usize, exact: bool) {
    let mut numbers = Numbers(seed);
    for _ in 0..8 {
        write_something(server, collection, &mut numbers).await;
    }
    let targets: Vec<String> = queries(collection)
        .into_iter()
        .chain(computed(collection))
        .collect();
    let mut streams: Vec<Stream> = Vec::new();
    for target in &targets {
        streams.push(server.follow(&live(target), None).await);
    }
    let mut expected: Vec<BTreeMap<u64, Value>> = vec![BTreeMap::new(); targets.len()];
    let mut last = 0;
    for _ in 0..writes {
        let Some(at) = write_something(server, collection, &mut numbers).await else {
            continue;
        };
        last = at;
        for (target, expected) in targets.iter().zip(&mut expected) {
            // Past every cache: over a change stream, what is cached is fresh a moment later.
            let answer = server.get_with(target, "cache-control", "no-cache").await;
            let mut answer = answer.json();
            if let Some(answer) = answer.as_object_mut() {
                answer.remove("next"); // pages are no part of what is live
            }
            expected.insert(at, answer);
        }
    }
    assert!(expected[0].len() > writes / 2);
    let end = server
        .put(&format!("{collection}/end"), r#"{"n":5,"k":1}"#)
        .await;
    let end = position(&end).max(last + 1);
    for ((target, stream), expected) in targets.iter().zip(&mut streams).zip(&expected) {
        let events = collect(server, target, stream, end).await;
        hold_against(target, &events, expected, exact);
    }
}

/// All events up to a write that everybody hears of, or up to the last one that a query was touched by.
async fn collect(server: &Server, target: &str, stream: &mut Stream, end: u64) -> Vec<Event> {
    let mut events = vec![stream.next().await.expect("an answer to begin with")];
    assert_eq!(events[0].name, "result", "{target}");
    let current = server
        .follow(&live(target), None)
        .await
        .next()
        .await
        .expect("the answer now");
    let is_current = |events: &[Event]| match current.data.get("items") {
        Some(items) if !target.contains("_aggregate") => {
            let mut copy = Copy::default();
            events.iter().for_each(|event| copy.apply(event));
            json!(copy.0) == *items
        }
        _ => events.last().is_some_and(|last| last.data == current.data),
    };
    while !is_current(&events)
        || events
            .last()
            .is_some_and(|last| last.id < current.id.min(end))
    {
        match stream.soon().await {
            Some(event) => events.push(event),
            None if is_current(&events) => break,
            None => panic!("{target}: no more events, and it is not what is there now"),
        }
    }
    events
}

/// After the events of each position a follower has what the query answered after the last write at or before it. `exact`:
/// a write's answer names its own position; else it may name a later one, and the first at or after it counts as well.
fn hold_against(target: &str, events: &[Event], expected: &BTreeMap<u64, Value>, exact: bool) {
    let (mut copy, mut whole) = (Copy::default(), Value::Null);
    let lists = !target.contains("/_");
    let mut compared = 0;
    for (at, event) in events.iter().enumerate() {
        match lists {
            true => copy.apply(event),
            false => whole = event.data.clone(),
        }
        if events.get(at + 1).is_some_and(|next| next.id == event.id) {
            continue;
        }
        let now = match lists {
            true => json!({"items": copy.0}),
            false => whole.clone(),
        };
        // Before the first write that was compared, or after the last.
        let (Some(before), Some(after)) = (
            expected.range(..=event.id).next_back(),
            expected.range(event.id..).next(),
        ) else {
            continue;
        };
        let mut answers = [before].into_iter().chain((!exact).then_some(after));
        compared += 1;
        assert!(
            answers.any(|(_, answer)| *answer == now),
            "{target} at {}: {now}, not {before:?}",
            event.id
        );
    }
    assert!(compared > expected.len() / 10, "{target}: {compared}");
}

#[tokio::test]
async fn a_follower_has_what_the_query_answers_at_each_position() {
    let server = Server::caching(&[]).await;
    for seed in [1, 2] {
        compare(&server, &format!("/v1/db/c{seed}"), seed, 60, true).await;
    }
}

#[tokio::test]
async fn over_mongodb_too_also_without_images() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let access = format!("[{{collection = \"{db}.*\", read = \"public\", write = \"public\"}}]");
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    compare(&server, &format!("/v1/{db}/c"), 3, 40, false).await;

    // Another program inserts many in one transaction: one position.
    let client = mongo.client().await.expect("a client");
    let collection = client.database(&db).collection::<Document>("many");
    collection
        .insert_one(doc! {"_id": 0})
        .await
        .expect("inserted");
    let mut stream = server
        .follow(&format!("/v1/{db}/many/_live?sort=-_id&limit=3"), None)
        .await;
    let mut copy = Copy::default();
    copy.apply(&stream.next().await.expect("the answer"));
    let mut session = client.start_session().await.expect("a session");
    session.start_transaction().await.expect("begun");
    for id in 1..6 {
        let inserting = collection
            .insert_one(doc! {"_id": id})
            .session(&mut session);
        inserting.await.expect("inserted");
    }
    session.commit_transaction().await.expect("committed");
    let mut ids = Vec::new();
    while copy.0 != [json!({"_id": 5}), json!({"_id": 4}), json!({"_id": 3})] {
        let event = stream.next().await.expect("an event");
        ids.push(event.id);
        copy.apply(&event);
    }
    assert!(
        ids.windows(2).all(|two| two[0] == two[1]),
        "one position: {ids:?}"
    );

    let dropped = collection.drop();
    dropped.await.expect("dropped");
    while !copy.0.is_empty() {
        copy.apply(&stream.next().await.expect("an event"));
    }
}

#[tokio::test]
async fn c14_a_collection_that_comes_back_with_a_collation_is_not_followed_any_more() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let db = fresh_database_name();
    let access = format!("[{{collection = \"{db}.*\", read = \"public\", write = \"public\"}}]");
    let settings = [("store", mongo.as_str()), ("access", access.as_str())];
    let server = Server::caching(&settings).await;
    let database = mongo.client().await.expect("a client").database(&db);
    let collection = database.collection::<Document>("c");
    collection
        .insert_one(doc! {"_id": 1})
        .await
        .expect("inserted");
    let target = format!("/v1/{db}/c/_live");
    let mut stream = server.follow(&target, None).await;
    assert_eq!(
        stream.next().await.map(|event| event.name).as_deref(),
        Some("result")
    );
    collection.drop().await.expect("dropped");
    let folded = doc! { "create": "c", "collation": { "locale": "en", "strength": 2 } };
    database.run_command(folded).await.expect("created");
    collection
        .insert_one(doc! {"_id": "X"})
        .await
        .expect("inserted");
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    let last = last.expect("an event");
    assert_eq!(
        (last.name.as_str(), &last.data),
        ("resync", &json!({"reason": "refused"}))
    );
    let refused = server.try_follow(&target, None).await;
    problem(&refused.err().expect("refused"), 400, "malformed");
}

#[tokio::test]
async fn who_comes_back_gets_what_was_missed() {
    let server = Server::caching(&[]).await;
    let target = "/v1/db/c/_live?sort=n";
    let mut stream = server.follow(target, None).await;
    let first = stream.next().await.expect("the answer");
    assert_eq!(
        (first.name.as_str(), &first.data),
        ("result", &json!({"items": []}))
    );
    server.put("/v1/db/c/a", r#"{"n":1}"#).await;
    let added = stream.next().await.expect("an event");
    let data = json!({"id": "a", "index": 0, "document": {"_id": "a", "n": 1}});
    assert_eq!((added.name.as_str(), &added.data), ("add", &data));
    drop(stream);

    let written = server.put("/v1/db/c/b", r#"{"n":0}"#).await;
    server.caught_up(&written).await;
    let mut again = server.follow(target, Some(added.id)).await;
    let missed = again.next().await.expect("what was missed");
    assert_eq!(missed.name, "add");
    assert_eq!(missed.data["id"], "b");
    server.put("/v1/db/c/a", r#"{"n":-1}"#).await;
    let moved = again.next().await.expect("an event");
    let data = json!({"id": "a", "index": 0, "from": 1, "document": {"_id": "a", "n": -1}});
    assert_eq!((moved.name.as_str(), &moved.data), ("move", &data));

    for unknown in [0, u64::MAX] {
        let mut other = server.follow(target, Some(unknown)).await;
        let whole = other.next().await.expect("the answer");
        assert_eq!(whole.name, "result");
        assert_eq!(whole.data["items"].as_array().map(Vec::len), Some(2));
    }
}

#[tokio::test]
async fn equal_queries_share_one_and_cost_one_evaluation() {
    let server = Server::caching(&[]).await;
    let mut streams = Vec::new();
    for spelling in ["limit=7&sort=n", "sort=n&limit=7"]
        .iter()
        .cycle()
        .take(100)
    {
        streams.push(
            server
                .follow(&format!("/v1/db/c/_live?{spelling}"), None)
                .await,
        );
    }
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.contains("freshet_live_queries 1\n"), "{metrics}");
    assert!(
        metrics.contains("freshet_live_followers 100\n"),
        "{metrics}"
    );
    server.put("/v1/db/c/a", r#"{"n":1}"#).await;
    for stream in &mut streams {
        assert_eq!(
            stream.next().await.map(|event| event.name).as_deref(),
            Some("result")
        );
        assert_eq!(
            stream.next().await.map(|event| event.name).as_deref(),
            Some("add")
        );
    }
    drop(streams);
    // Who is gone is noticed when something is sent.
    for n in 2.. {
        server.put("/v1/db/c/a", &json!({"n": n}).to_string()).await;
        let metrics = server.get("/metrics").await.text();
        if metrics.contains("freshet_live_followers 0\n") {
            break;
        }
        assert!(n < 1_000, "{metrics}");
    }
}

#[tokio::test]
async fn c15_a_stream_is_nobody_elses_and_not_to_be_kept() {
    let access = r#"[{collection = "open.*", read = "public"}, {collection = "db.*", read = "token", token = "t0ken"}]"#;
    let server = Server::caching(&[("access", access)]).await;
    let stream = server.follow("/v1/open/c/_live", None).await;
    let header = |name: &str| {
        stream
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    assert_eq!(header("content-type"), Some("text/event-stream"));
    assert_eq!(
        header("cache-control"),
        Some("private, no-store, max-age=0")
    );
    assert_eq!(header("surrogate-key"), None);
    problem(&server.get("/v1/db/c/_live").await, 401, "unauthorized");
}

#[tokio::test]
async fn what_cannot_be_live_says_why() {
    let settings = [
        ("live.queries_max", "1"),
        ("live.followers_max", "2"),
        ("log.level", "info,freshet_gateway=debug"),
    ];
    let server = Server::caching(&settings).await;
    let refused = |answer: Answer, detail: &str| {
        problem(&answer, 400, "malformed");
        assert!(answer.text().contains(detail), "{}", answer.text());
    };
    let expr = format!(
        "/v1/db/c/_live?filter={}",
        encode(r#"{"$expr":{"$gt":["$a",1]}}"#)
    );
    refused(server.get(&expr).await, "cannot be live");
    let look_ahead = format!(
        "/v1/db/c/_live?filter={}",
        encode(r#"{"a":{"$regex":"a(?=b)"}}"#)
    );
    refused(server.get(&look_ahead).await, "cannot be live");
    refused(server.get("/v1/db/c/_live?limit=0").await, "limit");
    let head = server.send("HEAD", "/v1/db/c/_live", &[], "").await;
    assert_eq!(head.status, 405);
    problem(&server.get("/v1/db/c/x/_live").await, 404, "not-found");

    let _first = server.follow("/v1/db/c/_live", None).await;
    let other = server
        .try_follow("/v1/db/c/_live?limit=3", None)
        .await
        .err()
        .expect("refused");
    problem(&other, 503, "unavailable");
    let _second = server.follow("/v1/db/c/_live", None).await;
    let third = server
        .try_follow("/v1/db/c/_live", None)
        .await
        .err()
        .expect("refused");
    problem(&third, 503, "unavailable");
    assert_eq!(third.header("retry-after"), "1");
    let metrics = server.get("/metrics").await.text();
    for limit in ["live.queries_max", "live.followers_max"] {
        let line = format!("freshet_limit_refusals_total{{limit=\"{limit}\"}} 1\n");
        assert!(metrics.contains(&line), "{line} in {metrics}");
    }
    let both_are_logged = async {
        let refused = |line: &&String| line.contains("a request was refused");
        let of = |line: &&String| line.contains("followers_max") || line.contains("queries_max");
        while server.log().iter().filter(refused).filter(of).count() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, both_are_logged)
        .await
        .expect("logged for those who look closely");
}

/// Relaxed Extended JSON shows 1 of whatever type as 1.
#[tokio::test]
async fn a_change_that_is_not_to_be_seen_is_not_told() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    let mut relaxed = server.follow("/v1/db/c/_live", None).await;
    let mut canonical = server.follow("/v1/db/c/_live?rep=canonical", None).await;
    for stream in [&mut relaxed, &mut canonical] {
        assert_eq!(stream.next().await.expect("an event").name, "result");
    }
    server
        .put("/v1/db/c/x", r#"{"a":{"$numberLong":"1"}}"#)
        .await;
    server.put("/v1/db/c/x", r#"{"a":2}"#).await;
    let seen = canonical.next().await.expect("an event");
    assert_eq!(seen.name, "change");
    assert_eq!(seen.data["document"]["a"], json!({"$numberLong": "1"}));
    let seen = relaxed.next().await.expect("an event");
    assert_eq!(
        (seen.name.as_str(), &seen.data["document"]["a"]),
        ("change", &json!(2))
    );
}

#[tokio::test]
async fn who_is_too_slow_is_told_to_begin_again() {
    let server = Server::caching(&[]).await;
    let mut slow = server.follow("/v1/db/c/_live?limit=1000", None).await;
    let text = "x".repeat(25_000);
    let many: Vec<Value> = (0..60).map(|_| json!({"text": text})).collect();
    let body = serde_json::to_string(&many).expect("JSON");
    for _ in 0..16 {
        assert_eq!(server.post("/v1/db/c", &body).await.status, 201);
    }
    let mut last = None;
    while let Some(event) = slow.next().await {
        last = Some(event);
    }
    let last = last.expect("events");
    assert_eq!(
        (last.name.as_str(), last.id),
        ("resync", 0),
        "{}",
        last.data["reason"]
    );
    let mut again = server
        .follow("/v1/db/c/_live?limit=1000", Some(last.id))
        .await;
    let whole = again.next().await.expect("the answer");
    assert_eq!(whole.name, "result");
    assert_eq!(whole.data["items"].as_array().map(Vec::len), Some(960));
}

#[tokio::test]
async fn a_query_that_fails_as_the_data_is_now_ends_and_says_why() {
    let server = Server::caching(&[]).await;
    let target = "/v1/db/c/_live?sort=a,b";
    let mut stream = server.follow(target, None).await;
    assert_eq!(
        stream.next().await.map(|event| event.name).as_deref(),
        Some("result")
    );
    server.put("/v1/db/c/x", r#"{"a":[1,2],"b":1}"#).await;
    assert_eq!(
        stream.next().await.map(|event| event.name).as_deref(),
        Some("add")
    );
    server.put("/v1/db/c/x", r#"{"a":[1,2],"b":[1,2]}"#).await;
    let last = stream.next().await.expect("an event");
    assert_eq!(
        (last.name.as_str(), &last.data),
        ("resync", &json!({"reason": "refused"}))
    );
    assert_eq!(stream.next().await, None);
    let refused = server.try_follow(target, Some(last.id)).await;
    problem(&refused.err().expect("refused"), 400, "malformed");
    server.put("/v1/db/c/x", r#"{"a":1,"b":1}"#).await;
    let mut again = server.follow(target, Some(last.id)).await;
    assert_eq!(
        again.next().await.map(|event| event.name).as_deref(),
        Some("result")
    );
}

#[tokio::test]
async fn streams_end_when_the_server_stops() {
    let mut server = Server::caching(&[]).await;
    let mut stream = server.follow("/v1/db/c/_live", None).await;
    assert!(stream.next().await.is_some());
    server.terminate();
    assert_eq!(stream.next().await, None);
    assert!(server.ended().await);
}
