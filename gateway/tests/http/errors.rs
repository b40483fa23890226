//! Every error of the protocol is reached, is a problem document, and is never cacheable (T11).

use crate::support::{Answer, Server, encode, filtered};

/// C15, T11: exactly these caching headers, none of the shared-cache ones, readable by any origin.
fn problem(answer: &Answer, status: u16, kind: &str) {
    let text = answer.text();
    assert_eq!(answer.status.as_u16(), status, "{text}");
    assert_eq!(
        answer.header("cache-control"),
        "private, no-store, max-age=0"
    );
    for absent in [
        "surrogate-key",
        "surrogate-control",
        "xkey",
        "cdn-cache-control",
        "etag",
    ] {
        assert!(!answer.headers.contains_key(absent), "{absent}");
    }
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("content-type"), "application/problem+json");
    let document = answer.json();
    assert_eq!(document["type"], format!("urn:freshet:problem:{kind}"));
    assert_eq!(document["status"], status);
    assert!(document["title"].is_string() && document["detail"].is_string());
    assert!(answer.body.len() < 1500, "never the input at length");
}

#[tokio::test]
async fn malformed_requests_are_400() {
    let server = Server::start(&[]);
    let long = format!(
        "/v1/db/c?filter={}",
        encode(&format!("{{\"a\":{}", "x".repeat(3000)))
    );
    for target in [
        "/v1/db/c?unknown=1",
        "/v1/db/c?limit=1&limit=2",
        "/v1/db/c?limit=0",
        "/v1/db/c?limit=1001",
        "/v1/db/c?limit=1.0",
        "/v1/db/c?limit=01",
        "/v1/db/c?skip=-1",
        "/v1/db/c?skip=10001",
        "/v1/db/c?view=all",
        "/v1/db/c?rep=x",
        "/v1/db/c?sort=",
        "/v1/db/c?",
        "/v1/db/c?filter",
        "/v1/db/c?filter=%zz",
        "/v1/db/c?filter=%ff",
        "/v1/db/c/x?filter=%7B%7D",
        "/v1/db/c/~%7B",
        "/v1/db/c/%ff",
        "/healthz?x=1",
        "/v1/db/c?after=nonsense",
        long.as_str(),
    ] {
        problem(&server.get(target).await, 400, "malformed");
    }
    problem(
        &server.send("GET", "/v1/db/c", &[], "body").await,
        400,
        "malformed",
    );
    let pointed = server.get(&filtered(r#"{"a":{"$and":1}}"#)).await;
    problem(&pointed, 400, "malformed");
    assert_eq!(pointed.json()["parameter"], "filter");
    assert!(
        pointed.json()["pointer"]
            .as_str()
            .is_some_and(|pointer| pointer.starts_with("/a"))
    );
    for body in [
        "",
        "{",
        "[]",
        "5",
        "{\"a\":1,\"a\":2}",
        "{\"a\":\"\\ud800\"}",
        "[1]",
    ] {
        problem(&server.post("/v1/db/c", body).await, 400, "malformed");
    }
    let wrong_id = server.put("/v1/db/c/x", r#"{"_id":"y"}"#).await;
    problem(&wrong_id, 400, "malformed");
    assert_eq!(wrong_id.json()["pointer"], "/_id");
    problem(
        &server
            .patch("/v1/db/c/x", "update", r#"{"$where":{"a":1}}"#)
            .await,
        400,
        "malformed",
    );
}

#[tokio::test]
async fn j9_a_filter_that_is_no_object_is_400() {
    let server = Server::start(&[]);
    for filter in ["[]", "5", "\"x\"", "null", "true", ""] {
        problem(&server.get(&filtered(filter)).await, 400, "malformed");
    }
}

#[tokio::test]
async fn x14_code_is_refused_at_any_depth() {
    let server = Server::start(&[]);
    for filter in [
        r#"{"$where":"1"}"#,
        r#"{"$and":[{"$where":"1"}]}"#,
        r#"{"a":{"$elemMatch":{"$where":"1"}}}"#,
        r#"{"$expr":{"$function":{"body":"f","args":[],"lang":"js"}}}"#,
        r#"{"$expr":{"$gt":[{"$accumulator":{}},1]}}"#,
        r#"{"$or":[{"a":{"$not":{"$where":"1"}}}]}"#,
    ] {
        problem(&server.get(&filtered(filter)).await, 400, "malformed");
    }
}

#[tokio::test]
async fn j6_deep_nesting_is_refused_and_crashes_nothing() {
    let server = Server::start(&[]);
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert_eq!(server.put("/v1/db/c/deep", &nested(99)).await.status, 201);
    assert_eq!(server.get("/v1/db/c/deep").await.status, 200);
    problem(
        &server.put("/v1/db/c/x", &nested(201)).await,
        400,
        "malformed",
    );
    problem(
        &server.post("/v1/db/c", &"[".repeat(10_000)).await,
        400,
        "malformed",
    );
    problem(&server.get(&filtered(&nested(40))).await, 400, "malformed");
}

#[tokio::test]
async fn paths_that_name_nothing_are_404() {
    let server = Server::start(&[]);
    for target in [
        "/v1",
        "/v1/db",
        "/v1/db/",
        "/v1/db/c/",
        "/v1/db/c/x/y",
        "/v1/db/c/a%2Fb",
        "/v1/db/_x",
        "/v1/db/c/_x",
        "/v1/db/system.x",
        "/nothing",
        "/v1/db/c/nobody",
    ] {
        problem(&server.get(target).await, 404, "not-found");
    }
    problem(
        &server.patch("/v1/db/c/nobody", "merge", "{}").await,
        404,
        "not-found",
    );
    problem(
        &server
            .patch("/v1/db/c/nobody", "update", r#"{"$set":{"a":1}}"#)
            .await,
        404,
        "not-found",
    );
}

#[tokio::test]
async fn methods_that_are_not_known_are_405_with_allow() {
    let server = Server::start(&[]);
    for (method, target, allow) in [
        ("DELETE", "/v1/db/c", "GET, HEAD, POST, QUERY, OPTIONS"),
        (
            "POST",
            "/v1/db/c/x",
            "GET, HEAD, PUT, PATCH, DELETE, OPTIONS",
        ),
        ("PUT", "/v1/db/c/_count", "GET, HEAD, OPTIONS"),
        ("GET", "/v1/db/c/_query", "POST, OPTIONS"),
        ("POST", "/v1/db/_sketch", "GET, HEAD, OPTIONS"),
        ("BREW", "/healthz", "GET, HEAD, OPTIONS"),
    ] {
        let answer = server.send(method, target, &[], "").await;
        problem(&answer, 405, "method-not-allowed");
        assert_eq!(answer.header("allow"), allow);
    }
}

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
    for (method, target) in [
        ("GET", "/v1/db/c/_live"),
        ("GET", "/v1/db/c/_aggregate?pipeline=%5B%5D"),
        ("GET", "/v1/db/c/_explain"),
        ("POST", "/v1/db/_transactions"),
        ("PUT", "/v1/db/_queries/0123456789abcdef0123456789abcdef"),
        ("GET", "/v1/db/c?qid=0123456789abcdef0123456789abcdef"),
    ] {
        problem(
            &server.send(method, target, &[], "").await,
            501,
            "not-implemented",
        );
    }
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
