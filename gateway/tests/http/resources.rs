//! Every resource answers as the protocol says.

use serde_json::json;

use crate::support::{Server, encode, filtered};

async fn with_three(server: &Server) {
    let body = r#"[{"_id":"a","n":1,"t":{"x":1}},{"_id":"b","n":2},{"_id":"c","n":3}]"#;
    assert_eq!(server.post("/v1/db/c", body).await.status, 201);
}

#[tokio::test]
async fn a_query_filters_sorts_pages_and_projects() {
    let server = Server::start(&[]);
    with_three(&server).await;
    let all = server.get("/v1/db/c").await;
    assert_eq!(all.json()["items"].as_array().expect("items").len(), 3);
    assert!(all.json().get("next").is_none());
    let some = server.get(&filtered(r#"{"n":{"$gte":2}}"#)).await;
    assert_eq!(
        some.json(),
        json!({"items":[{"_id":"b","n":2},{"_id":"c","n":3}]})
    );
    let page = server.get("/v1/db/c?fields=n&limit=2&sort=-n").await.json();
    assert_eq!(page["items"], json!([{"_id":"c","n":3},{"_id":"b","n":2}]));
    let next = page["next"].as_str().expect("there is more");
    let rest = server
        .get(&format!(
            "/v1/db/c?after={}&fields=n&limit=2&sort=-n",
            encode(next)
        ))
        .await
        .json();
    assert_eq!(rest, json!({"items":[{"_id":"a","n":1}]}));
    let skipped = server.get("/v1/db/c?skip=2").await.json();
    assert_eq!(skipped["items"], json!([{"_id":"c","n":3}]));
    let ids = server.get("/v1/db/c?limit=1&view=ids").await.json();
    assert_eq!(ids["items"], json!([{"_ref":"/v1/db/c/a"}]));
}

#[tokio::test]
async fn pages_by_id_cover_everything_once() {
    let server = Server::start(&[]);
    let documents: Vec<_> = (0..25).map(|i| json!({"_id": i})).collect();
    server.post("/v1/db/c", &json!(documents).to_string()).await;
    let (mut seen, mut target) = (Vec::new(), "/v1/db/c?limit=7".to_owned());
    loop {
        let page = server.get(&target).await.json();
        seen.extend(
            page["items"]
                .as_array()
                .expect("items")
                .iter()
                .map(|item| item["_id"].as_i64().expect("a number")),
        );
        match page["next"].as_str() {
            Some(next) => target = format!("/v1/db/c?after={}&limit=7", encode(next)),
            None => break,
        }
    }
    assert_eq!(seen, (0..25).collect::<Vec<i64>>());
}

#[tokio::test]
async fn a_count_is_a_resource_of_its_own() {
    let server = Server::start(&[]);
    with_three(&server).await;
    assert_eq!(
        server.get("/v1/db/c/_count").await.json(),
        json!({"count":3})
    );
    let some = server
        .get(&format!(
            "/v1/db/c/_count?filter={}",
            encode(r#"{"n":{"$lt":3}}"#)
        ))
        .await;
    assert_eq!(some.json(), json!({"count":2}));
}

#[tokio::test]
async fn a_query_in_a_body_names_its_get_and_is_never_cached() {
    let server = Server::caching(&[]).await;
    with_three(&server).await;
    let body = r#"{"filter":{"n":{"$gt":1}},"limit":1,"sort":"n"}"#;
    for (method, target) in [("QUERY", "/v1/db/c"), ("POST", "/v1/db/c/_query")] {
        let answer = server
            .send(
                method,
                target,
                &[("content-type", "application/json")],
                body,
            )
            .await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            answer.header("cache-control"),
            "private, no-store, max-age=0"
        );
        let location = answer.header("location").to_owned();
        let get = server.get(&location).await;
        assert_eq!(get.body, answer.body);
        assert_eq!(
            get.header("content-location"),
            "",
            "the location is canonical"
        );
    }
}

#[tokio::test]
async fn t7_a_url_that_would_be_refused_is_not_named() {
    let server = Server::start(&[]);
    let member = "x".repeat(9000);
    let body = format!("{{\"filter\":{{\"a\":\"{member}\"}}}}");
    let json = [("content-type", "application/json")];
    let answer = server.send("QUERY", "/v1/db/c", &json, body).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("location"), "");
    // Short enough as spelled, too long once what needs it is percent-encoded.
    let target = format!("/v1/db/c?filter=%7B%22a%22:%22{}%22%7D", "{".repeat(4000));
    let answer = server.get(&target).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-location"), "");
}

#[tokio::test]
async fn a_record_is_created_read_replaced_patched_and_deleted() {
    let server = Server::start(&[]);
    let created = server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    assert_eq!(
        (created.status.as_u16(), created.header("location")),
        (201, "/v1/db/c/x")
    );
    let read = server.get("/v1/db/c/x").await;
    assert_eq!(read.json(), json!({"_id":"x","a":1}));
    assert_eq!(read.header("etag"), created.header("etag"));
    assert_eq!(
        server
            .put("/v1/db/c/x", r#"{"_id":"x","a":2,"b":1}"#)
            .await
            .status,
        200
    );
    let merged = server
        .patch("/v1/db/c/x", "merge", r#"{"b":null,"d":{"e":1}}"#)
        .await;
    assert_eq!(merged.json(), json!({"_id":"x","a":2,"d":{"e":1}}));
    let updated = server
        .patch(
            "/v1/db/c/x",
            "update",
            r#"{"$inc":{"a":5},"$push":{"l":1}}"#,
        )
        .await;
    assert_eq!(updated.json(), json!({"_id":"x","a":7,"d":{"e":1},"l":[1]}));
    assert_eq!(
        server.get("/v1/db/c/x?fields=a").await.json(),
        json!({"_id":"x","a":7})
    );
    let deleted = server.send("DELETE", "/v1/db/c/x", &[], "").await;
    assert_eq!((deleted.status.as_u16(), deleted.body.len()), (204, 0));
    assert_ne!(deleted.header("freshet-position"), "");
    let gone = server.get("/v1/db/c/x").await;
    assert_eq!(gone.status, 404);
    let position = |name: &str| name.parse::<u64>().expect("a position");
    assert!(
        position(gone.header("freshet-position")) >= position(deleted.header("freshet-position")),
        "a record is gone from the position of its removal on"
    );
    assert_eq!(gone.header("cache-control"), "private, no-store, max-age=0");
    assert_eq!(
        server.send("DELETE", "/v1/db/c/x", &[], "").await.status,
        404
    );
}

#[tokio::test]
async fn an_insert_without_an_id_gets_an_object_id() {
    let server = Server::start(&[]);
    let created = server.post("/v1/db/c", r#"{"a":1}"#).await;
    assert_eq!(created.status, 201);
    let id = created.json()["_id"]["$oid"]
        .as_str()
        .expect("an ObjectId")
        .to_owned();
    assert_eq!(created.header("location"), format!("/v1/db/c/{id}"));
    let read = server.get(created.header("location")).await;
    assert_eq!(read.body, created.body);
    let many = server.post("/v1/db/c", r#"[{"a":2},{"a":3}]"#).await;
    assert_eq!(many.json()["items"].as_array().expect("items").len(), 2);
}

#[tokio::test]
async fn many_are_inserted_all_or_none() {
    let server = Server::start(&[]);
    server.put("/v1/db/c/b", "{}").await;
    let refused = server
        .post("/v1/db/c", r#"[{"_id":"a"},{"_id":"b"}]"#)
        .await;
    assert_eq!(refused.status, 409);
    assert_eq!(server.get("/v1/db/c/a").await.status, 404);
}

#[tokio::test]
async fn the_sketch_has_its_wire_form() {
    let server = Server::caching(&[]).await;
    with_three(&server).await;
    for target in [
        "/v1/db/_sketch",
        "/v1/db/_sketch?collections=c",
        "/v1/db/_sketch?collections=c&since=1.2",
    ] {
        let sketch = server.get(target).await;
        assert_eq!(sketch.status, 200);
        assert_eq!(
            sketch.header("content-type"),
            "application/vnd.freshet.sketch"
        );
        assert_eq!(
            sketch.header("cache-control"),
            "private, no-store, max-age=0"
        );
        assert_eq!(&sketch.body[..5], b"FEBF\x01");
        let m = u32::from_le_bytes(sketch.body[8..12].try_into().expect("4 bytes")) as usize;
        let saturated = sketch.body[6] & 1 == 1;
        assert!(sketch.body.len() == if saturated { 56 } else { 56 + m.div_ceil(8) });
    }
    assert_eq!(
        server.get("/v1/db/_sketch?collections=_x").await.status,
        400
    );
    assert_eq!(server.get("/v1/db/_sketch?since=x").await.status, 400);
}

#[tokio::test]
async fn operations() {
    let server = Server::start(&[]);
    assert_eq!(server.get("/healthz").await.json(), json!({"status":"ok"}));
    assert_eq!(server.get("/readyz").await.json()["store"], true);
    server.get("/v1/db/c").await;
    let metrics = server.get("/metrics").await.text();
    assert!(metrics.contains("freshet_requests_total{"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"));
    let openapi = server.get("/openapi.json").await;
    assert_eq!(openapi.text(), include_str!("../../src/ops/openapi.json"));
    let paths = openapi.json()["paths"]
        .as_object()
        .expect("paths")
        .keys()
        .cloned()
        .collect::<Vec<_>>();
    for path in [
        "/v1/{db}/{collection}",
        "/v1/{db}/{collection}/{id}",
        "/v1/{db}/{collection}/_count",
        "/v1/{db}/{collection}/_aggregate",
        "/v1/{db}/{collection}/_query",
        "/v1/{db}/{collection}/_explain",
        "/v1/{db}/_queries/{hash}",
        "/v1/{db}/_sketch",
        "/healthz",
        "/readyz",
        "/metrics",
        "/openapi.json",
    ] {
        assert!(paths.iter().any(|known| known == path), "{path}");
    }
    assert_eq!(
        server.get("/").await.status,
        404,
        "the landing page belongs to freshet dev"
    );
}
