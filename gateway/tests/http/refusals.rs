//! Refusals that depend on rules, records, limits and on the database: each a problem document, none cacheable.

use crate::errors::problem;
use crate::support::{Server, filtered};

#[tokio::test]
async fn access_is_denied_where_no_rule_opens() {
    let access = r#"[{collection = "db.open", read = "public"}, {collection = "db.keyed", read = "token", write = "token", token = "t0ken"}]"#;
    let server = Server::start(&[("access", access)]);
    assert_eq!(server.get("/v1/db/open").await.status, 200);
    for target in [
        "/v1/db/closed",
        "/v1/admin/open",
        "/v1/db/closed/x",
        "/v1/db/closed/_count",
        "/v1/db/freshet.idempotency",
        "/v1/db/_sketch?collections=closed",
    ] {
        problem(&server.get(target).await, 403, "forbidden");
    }
    problem(&server.put("/v1/db/open/x", "{}").await, 403, "forbidden");
    let refused = server.get("/v1/db/keyed").await;
    problem(&refused, 401, "unauthorized");
    assert_eq!(refused.header("www-authenticate"), "Bearer");
    problem(
        &server
            .get_with("/v1/db/keyed", "authorization", "Bearer wrong")
            .await,
        401,
        "unauthorized",
    );
    let allowed = server
        .get_with("/v1/db/keyed", "authorization", "Bearer t0ken")
        .await;
    assert_eq!(allowed.status, 200);
    assert_eq!(
        allowed.header("cache-control"),
        "private, no-store, max-age=0"
    );
    assert!(!allowed.headers.contains_key("surrogate-key"));
}

#[tokio::test]
async fn an_id_twice_is_409() {
    let server = Server::start(&[]);
    assert_eq!(server.post("/v1/db/c", r#"{"_id":1}"#).await.status, 201);
    problem(
        &server
            .post("/v1/db/c", r#"{"_id":{"$numberLong":"1"}}"#)
            .await,
        409,
        "duplicate-id",
    );
}

#[tokio::test]
async fn sizes_are_limited() {
    let server = Server::start(&[
        ("limits.body_bytes_max", "1KiB"),
        ("limits.insert_documents_max", "2"),
    ]);
    problem(
        &server
            .put("/v1/db/c/x", &format!("{{\"a\":\"{}\"}}", "x".repeat(2000)))
            .await,
        413,
        "too-large",
    );
    problem(
        &server.post("/v1/db/c", "[{},{},{}]").await,
        413,
        "too-large",
    );
    problem(
        &server.get(&format!("/v1/db/c/{}", "x".repeat(9000))).await,
        414,
        "uri-too-long",
    );
    assert_eq!(server.get("/v1/db/c").await.status, 200);
}

#[tokio::test]
async fn media_types_are_checked() {
    let server = Server::start(&[]);
    problem(
        &server
            .send("POST", "/v1/db/c", &[("content-type", "text/plain")], "{}")
            .await,
        415,
        "unsupported-media-type",
    );
    let coded = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
    ];
    problem(
        &server.send("PUT", "/v1/db/c/x", &coded, "{}").await,
        415,
        "unsupported-media-type",
    );
    problem(
        &server.send("PUT", "/v1/db/c/x", &[], "{}").await,
        415,
        "unsupported-media-type",
    );
    problem(
        &server
            .send(
                "PATCH",
                "/v1/db/c/x",
                &[("content-type", "application/json")],
                "{}",
            )
            .await,
        415,
        "unsupported-media-type",
    );
    problem(
        &server
            .send("QUERY", "/v1/db/c", &[("content-type", "text/plain")], "{}")
            .await,
        415,
        "unsupported-media-type",
    );
}

#[tokio::test]
async fn a_change_that_does_not_fit_is_422() {
    let server = Server::start(&[]);
    server.put("/v1/db/c/x", r#"{"a":"text"}"#).await;
    let etag = server.get("/v1/db/c/x").await.header("etag").to_owned();
    let headers = [
        ("content-type", "application/vnd.freshet.update+json"),
        ("if-match", &etag),
    ];
    problem(
        &server
            .send("PATCH", "/v1/db/c/x", &headers, r#"{"$inc":{"a":1}}"#)
            .await,
        422,
        "rejected",
    );
    problem(
        &server
            .patch("/v1/db/c/x", "update", r#"{"$inc":{"a":1}}"#)
            .await,
        422,
        "rejected",
    );
}

#[tokio::test]
async fn conditions_are_demanded_and_checked() {
    let access =
        r#"[{collection = "*", read = "public", write = "public", require_if_match = true}]"#;
    let server = Server::start(&[("access", access)]);
    let created = server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    assert_eq!(created.status, 201, "creating needs no condition");
    problem(
        &server.put("/v1/db/c/x", r#"{"a":2}"#).await,
        428,
        "precondition-required",
    );
    problem(
        &server.send("DELETE", "/v1/db/c/x", &[], "").await,
        428,
        "precondition-required",
    );
    problem(
        &server
            .send("DELETE", "/v1/db/c/x", &[("if-match", "\"0\"")], "")
            .await,
        412,
        "precondition-failed",
    );
    problem(
        &server
            .send("DELETE", "/v1/db/c/x", &[("if-none-match", "\"0\"")], "")
            .await,
        428,
        "precondition-required",
    );
    let etag = created.header("etag").to_owned();
    assert_eq!(
        server
            .send("DELETE", "/v1/db/c/x", &[("if-match", &etag)], "")
            .await
            .status,
        204
    );
    problem(
        &server
            .send("GET", "/v1/db/c", &[("if-match", "\"0\"")], "")
            .await,
        412,
        "precondition-failed",
    );
}

#[tokio::test]
async fn too_much_at_once_is_429_or_503_with_retry_after() {
    let server = Server::start(&[
        ("limits.writes_in_flight_max", "0"),
        ("limits.reads_in_flight_max", "0"),
    ]);
    let write = server.put("/v1/db/c/x", "{}").await;
    problem(&write, 429, "too-many-requests");
    assert_eq!(write.header("retry-after"), "1");
    let read = server.get("/v1/db/c").await;
    problem(&read, 503, "unavailable");
    assert_eq!(read.header("retry-after"), "1");
}

#[tokio::test]
async fn c16_a_database_that_is_down_is_503() {
    let server = Server::start(&[(
        "store",
        "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=200&connectTimeoutMS=200",
    )]);
    for answer in [
        server.get("/v1/db/c").await,
        server.put("/v1/db/c/x", "{}").await,
    ] {
        problem(&answer, 503, "unavailable");
        assert_eq!(answer.header("retry-after"), "1");
    }
    assert_eq!(server.get("/readyz").await.status, 503);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn what_is_not_answered_yet_is_501() {
    let server = Server::start(&[]);
    let answer = server.send("POST", "/v1/db/_transactions", &[], "").await;
    problem(&answer, 501, "not-implemented");
}

#[tokio::test]
async fn database_only_queries_are_answered_uncached_or_refused() {
    let expr = filtered(r#"{"$expr":{"$gt":["$a",1]}}"#);
    let access = r#"[{collection = "*", read = "public"}]"#;
    let strict = Server::start(&[("access", access)]);
    problem(&strict.get(&expr).await, 400, "malformed");
    let limited = Server::start(&[(
        "access",
        r#"[{collection = "*", read = "public", limit_max = 10, skip_max = 10}]"#,
    )]);
    problem(&limited.get("/v1/db/c").await, 400, "malformed");
    problem(&limited.get("/v1/db/c?limit=11").await, 400, "malformed");
    problem(
        &limited.get("/v1/db/c?limit=10&skip=11").await,
        400,
        "malformed",
    );
    assert_eq!(limited.get("/v1/db/c?limit=10").await.status, 200);
}
