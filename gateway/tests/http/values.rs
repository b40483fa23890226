//! Values keep their type through every door: rows J and K of what goes wrong elsewhere.

use serde_json::json;

use crate::support::{Server, encode, filtered};

#[tokio::test]
async fn j1_a_long_keeps_its_digits_and_its_type() {
    let server = Server::start(&[]);
    let body = r#"{"n":{"$numberLong":"1631764775259480064"},"m":{"$numberLong":"5"},"i":5}"#;
    server.put("/v1/db/c/x", body).await;
    let read = server.get("/v1/db/c/x").await;
    assert_eq!(
        read.json()["n"],
        json!({"$numberLong":"1631764775259480064"})
    );
    assert_eq!(read.json()["m"], 5);
    let canonical = server.get("/v1/db/c/x?rep=canonical").await.json();
    assert_eq!(canonical["m"], json!({"$numberLong":"5"}));
    assert_eq!(canonical["i"], json!({"$numberInt":"5"}));
    server.patch("/v1/db/c/x", "merge", r#"{"other":1}"#).await;
    let after = server.get("/v1/db/c/x?rep=canonical").await.json();
    assert_eq!(
        (&after["n"], &after["m"]),
        (&canonical["n"], &canonical["m"]),
        "untouched by a change beside them"
    );
    let found = server
        .get(&filtered(r#"{"n":{"$numberLong":"1631764775259480064"}}"#))
        .await;
    assert_eq!(found.json()["items"].as_array().expect("items").len(), 1);
}

#[tokio::test]
async fn j5_a_nested_date_looks_alike_everywhere() {
    let server = Server::start(&[]);
    let date = json!({"a":{"b":[{"$date":"2020-01-01T00:00:00Z"}]}});
    let written = server.put("/v1/db/c/x", &date.to_string()).await.json();
    let read = server.get("/v1/db/c/x").await.json();
    let patched = server
        .patch("/v1/db/c/x", "merge", r#"{"z":1}"#)
        .await
        .json();
    let queried = server.get("/v1/db/c").await.json()["items"][0].clone();
    for seen in [&written, &read, &patched, &queried] {
        assert_eq!(seen["a"], date["a"]);
    }
}

#[tokio::test]
async fn j8_what_json_cannot_carry_is_wrapped() {
    let server = Server::start(&[]);
    let body = r#"{"a":{"$numberDouble":"NaN"},"b":{"$numberDouble":"-Infinity"},"c":{"$numberDecimal":"1.10"}}"#;
    server.put("/v1/db/c/x", body).await;
    let read = server.get("/v1/db/c/x").await.json();
    assert_eq!(read["a"], json!({"$numberDouble":"NaN"}));
    assert_eq!(read["b"], json!({"$numberDouble":"-Infinity"}));
    assert_eq!(read["c"], json!({"$numberDecimal":"1.10"}));
    for bad in [r#"{"a":NaN}"#, r#"{"a":Infinity}"#, r#"{"a":01}"#] {
        assert_eq!(server.put("/v1/db/c/y", bad).await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn k10_a_string_is_never_taken_for_an_object_id() {
    let server = Server::start(&[]);
    let hex = "656e6f7267616e69736d2e2e";
    let body = format!(r#"[{{"_id":1,"u":{{"$oid":"{hex}"}}}},{{"_id":2,"u":"{hex}"}}]"#);
    server.post("/v1/db/c", &body).await;
    let ids = |filter: String| {
        let server = &server;
        async move {
            server
                .get(&format!("/v1/db/c?fields=_id&filter={}", encode(&filter)))
                .await
                .json()["items"]
                .clone()
        }
    };
    assert_eq!(ids(format!(r#"{{"u":"{hex}"}}"#)).await, json!([{"_id":2}]));
    assert_eq!(
        ids(format!(r#"{{"u":{{"$oid":"{hex}"}}}}"#)).await,
        json!([{"_id":1}])
    );
}

#[tokio::test]
async fn ids_of_every_type_have_their_own_segment() {
    let server = Server::start(&[]);
    let hex = "656e6f7267616e69736d2e2e";
    let targets = [
        format!("/v1/db/c/{hex}"),
        format!("/v1/db/c/~{}", encode(&format!("\"{hex}\""))),
        "/v1/db/c/plain".into(),
        "/v1/db/c/~5".into(),
        format!("/v1/db/c/~{}", encode("\"~x\"")),
        format!("/v1/db/c/~{}", encode("\"_reserved\"")),
        format!("/v1/db/c/~{}", encode(r#""a\u002fb""#)),
        format!("/v1/db/c/~{}", encode(r#"{"a":1}"#)),
    ];
    for (index, target) in targets.iter().enumerate() {
        let created = server.put(target, &format!("{{\"n\":{index}}}")).await;
        assert_eq!(created.status, 201, "{target}: {}", created.text());
        let canonical = server.get(created.header("location")).await;
        assert_eq!(canonical.json()["n"], index, "{target}");
        assert_eq!(
            canonical.header("content-location"),
            "",
            "a location is canonical"
        );
    }
    assert_eq!(
        server.get("/v1/db/c/_count").await.json(),
        json!({"count": targets.len()})
    );
    let same = server
        .get(&format!("/v1/db/c/~{}", encode(r#"{"$numberLong":"5"}"#)))
        .await;
    assert_eq!(same.json()["n"], 3, "equal numbers are one id");
    assert_eq!(same.header("content-location"), "/v1/db/c/~5");
}

#[tokio::test]
async fn k11_dates_are_exactly_extended_json() {
    let server = Server::start(&[]);
    let body = r#"{"_id":1,"d":{"$date":{"$numberLong":"1444394707664"}}}"#;
    server.post("/v1/db/c", body).await;
    assert_eq!(
        server
            .get(&filtered(r#"{"d":{"$date":"1444394707664"}}"#))
            .await
            .status,
        400
    );
    for (filter, count) in [
        (r#"{"d":{"$date":{"$numberLong":"1444394707664"}}}"#, 1),
        (r#"{"d":{"$date":"2015-10-09T12:45:07.664Z"}}"#, 1),
        (r#"{"d":{"$numberLong":"1444394707664"}}"#, 0),
        (r#"{"d":"2015-10-09T12:45:07.664Z"}"#, 0),
    ] {
        let found = server.get(&filtered(filter)).await.json();
        assert_eq!(
            found["items"].as_array().expect("items").len(),
            count,
            "{filter}"
        );
    }
}

#[tokio::test]
async fn x11_names_that_are_magic_elsewhere_are_plain_names() {
    let server = Server::start(&[]);
    let body = r#"{"_id":"x","__proto__":{"a":1},"constructor":{"prototype":{"b":2}},"_bsontype":"ObjectID"}"#;
    assert_eq!(server.post("/v1/db/c", body).await.status, 201);
    let text = server.get("/v1/db/c/x").await.text();
    assert_eq!(text, body);
}
