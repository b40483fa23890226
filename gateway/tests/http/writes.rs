//! Conditions, idempotency, operators.

use serde_json::json;

use crate::support::Server;

#[tokio::test]
async fn e3_conditions_hold_for_whoever_wrote_the_record() {
    let server = Server::start(&[]);
    let created = server.post("/v1/db/c", r#"{"_id":"x","n":1}"#).await;
    let put = |tag: String, body: &'static str| {
        let server = &server;
        async move {
            server
                .send(
                    "PUT",
                    "/v1/db/c/x",
                    &[("content-type", "application/json"), ("if-match", &tag)],
                    body,
                )
                .await
        }
    };
    let tag = created.header("etag").to_owned();
    let first = put(tag.clone(), r#"{"n":2}"#).await;
    assert_eq!(first.status, 200);
    assert_eq!(put(tag, r#"{"n":3}"#).await.status, 412, "a lost update");
    let strong = first.header("etag").trim_start_matches("W/").to_owned();
    assert_eq!(put(strong, r#"{"n":4}"#).await.status, 200);
    let canonical = server
        .get("/v1/db/c/x?rep=canonical")
        .await
        .header("etag")
        .to_owned();
    assert_eq!(
        put(canonical, r#"{"n":5}"#).await.status,
        200,
        "either representation's tag names the record"
    );
    assert_eq!(put("*".into(), r#"{"n":6}"#).await.status, 200);
    assert_eq!(
        put("nonsense".into(), r#"{"n":7}"#).await.status,
        400,
        "never taken as met"
    );
    let create_only = [("content-type", "application/json"), ("if-none-match", "*")];
    assert_eq!(
        server
            .send("PUT", "/v1/db/c/x", &create_only, "{}")
            .await
            .status,
        412
    );
    assert_eq!(
        server
            .send("PUT", "/v1/db/c/new", &create_only, "{}")
            .await
            .status,
        201
    );
    let missing = [("content-type", "application/json"), ("if-match", "*")];
    assert_eq!(
        server
            .send("PUT", "/v1/db/c/none", &missing, "{}")
            .await
            .status,
        412
    );
}

#[tokio::test]
async fn concurrent_conditional_writes_let_one_through() {
    let server = std::sync::Arc::new(Server::start(&[]));
    let tag = server
        .put("/v1/db/c/x", r#"{"n":0}"#)
        .await
        .header("etag")
        .to_owned();
    let writing: Vec<_> = (0..16)
        .map(|i| {
            let (server, tag) = (std::sync::Arc::clone(&server), tag.clone());
            tokio::spawn(async move {
                let headers = [
                    ("content-type", "application/json"),
                    ("if-match", tag.as_str()),
                ];
                server
                    .send(
                        "PUT",
                        "/v1/db/c/x",
                        &headers,
                        format!("{{\"n\":{}}}", i + 1),
                    )
                    .await
                    .status
                    .as_u16()
            })
        })
        .collect();
    let mut statuses = Vec::new();
    for one in writing {
        statuses.push(one.await.expect("no panic"));
    }
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert!(
        statuses[1..].iter().all(|status| *status == 412),
        "{statuses:?}"
    );
}

#[tokio::test]
async fn concurrent_increments_lose_nothing() {
    let server = std::sync::Arc::new(Server::start(&[]));
    server.put("/v1/db/c/x", r#"{"n":0}"#).await;
    let writing: Vec<_> = (0..40)
        .map(|_| {
            let server = std::sync::Arc::clone(&server);
            tokio::spawn(async move {
                server
                    .patch("/v1/db/c/x", "update", r#"{"$inc":{"n":1}}"#)
                    .await
                    .status
            })
        })
        .collect();
    for one in writing {
        assert_eq!(one.await.expect("no panic"), 200);
    }
    assert_eq!(server.get("/v1/db/c/x").await.json()["n"], 40);
}

#[tokio::test]
async fn an_idempotent_write_happens_once() {
    let server = Server::start(&[]);
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", "k1"),
    ];
    let first = server
        .send("POST", "/v1/db/c", &headers, r#"{"n":1}"#)
        .await;
    assert_eq!(first.status, 201);
    for _ in 0..2 {
        let again = server
            .send("POST", "/v1/db/c", &headers, r#"{"n":1}"#)
            .await;
        assert_eq!((again.status, &again.body), (first.status, &first.body));
        for name in ["etag", "location"] {
            assert_eq!(again.header(name), first.header(name), "{name}");
        }
    }
    assert_eq!(
        server.get("/v1/db/c/_count").await.json(),
        json!({"count":1})
    );
    let other = server
        .send("POST", "/v1/db/c", &headers, r#"{"n":2}"#)
        .await;
    assert_eq!(other.status, 422);
    assert_eq!(
        other.json()["type"],
        "urn:freshet:problem:idempotency-mismatch"
    );
    let elsewhere = server
        .send("POST", "/v1/db/d", &headers, r#"{"n":1}"#)
        .await;
    assert_eq!(elsewhere.status, 422, "another target is another request");
    let empty = [
        ("content-type", "application/json"),
        ("idempotency-key", ""),
    ];
    assert_eq!(
        server.send("POST", "/v1/db/c", &empty, "{}").await.status,
        400
    );
}

#[tokio::test]
async fn idempotent_changes_answer_alike_too() {
    let server = Server::start(&[]);
    server.put("/v1/db/c/x", r#"{"n":1}"#).await;
    let headers = [
        ("content-type", "application/vnd.freshet.update+json"),
        ("idempotency-key", "inc"),
    ];
    let first = server
        .send("PATCH", "/v1/db/c/x", &headers, r#"{"$inc":{"n":1}}"#)
        .await;
    assert_eq!(first.json()["n"], 2);
    server
        .patch("/v1/db/c/x", "update", r#"{"$inc":{"n":10}}"#)
        .await;
    let again = server
        .send("PATCH", "/v1/db/c/x", &headers, r#"{"$inc":{"n":1}}"#)
        .await;
    assert_eq!(again.body, first.body, "the first answer");
    assert_eq!(
        server.get("/v1/db/c/x").await.json()["n"],
        12,
        "no second effect"
    );
    let headers = [("idempotency-key", "del")];
    assert_eq!(
        server
            .send("DELETE", "/v1/db/c/x", &headers, "")
            .await
            .status,
        204
    );
    assert_eq!(
        server
            .send("DELETE", "/v1/db/c/x", &headers, "")
            .await
            .status,
        204
    );
}

#[tokio::test]
async fn concurrent_repeats_have_one_effect() {
    let server = std::sync::Arc::new(Server::start(&[]));
    let writing: Vec<_> = (0..16)
        .map(|_| {
            let server = std::sync::Arc::clone(&server);
            tokio::spawn(async move {
                let headers = [
                    ("content-type", "application/json"),
                    ("idempotency-key", "same"),
                ];
                server
                    .send("POST", "/v1/db/c", &headers, r#"{"n":1}"#)
                    .await
            })
        })
        .collect();
    let mut bodies = Vec::new();
    for one in writing {
        let answer = one.await.expect("no panic");
        assert_eq!(answer.status, 201);
        bodies.push(answer.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]));
    assert_eq!(
        server.get("/v1/db/c/_count").await.json(),
        json!({"count":1})
    );
}
