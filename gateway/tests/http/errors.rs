//! Every error of the protocol is reached, is a problem document, and is never cacheable (T11).

use crate::support::{Answer, Server, encode, filtered};

/// C15, T11: exactly these caching headers, none of the shared-cache ones, readable by any origin.
pub(crate) fn problem(answer: &Answer, status: u16, kind: &str) {
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
