//! Headers, to the letter: cacheable answers, 304, CORS, canonical spellings, HEAD.

use crate::support::{Server, encode, filtered};

const EXPOSED: &str = "ETag, Age, Allow, Cache-Status, Content-Location, Date, Freshet-Position, Location, Retry-After";

#[tokio::test]
async fn a_cacheable_answer_has_exactly_its_headers() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    for target in ["/v1/db/c/x", "/v1/db/c", "/v1/db/c/_count"] {
        let answer = server.get(target).await;
        let mut names: Vec<&str> = answer
            .headers
            .keys()
            .map(http::HeaderName::as_str)
            .collect();
        names.sort_unstable();
        assert_eq!(
            names,
            [
                "access-control-allow-origin",
                "access-control-expose-headers",
                "cache-control",
                "cache-status",
                "content-length",
                "content-type",
                "date",
                "etag",
                "freshet-position",
                "surrogate-key",
                "timing-allow-origin",
                "x-content-type-options"
            ],
            "{target}"
        );
        let control = answer.header("cache-control");
        let (m, s) = control
            .strip_prefix("public, max-age=")
            .and_then(|rest| rest.split_once(", s-maxage="))
            .expect(control);
        assert!(m.parse::<u32>().expect("whole") > 0 && s.parse::<u32>().expect("whole") > 0);
        assert!(answer.header("etag").starts_with("W/\"") && answer.header("etag").len() == 36);
        assert!(
            answer
                .header("freshet-position")
                .parse::<u64>()
                .expect("decimal")
                > 0
        );
        let tags: Vec<&str> = answer.header("surrogate-key").split(' ').collect();
        assert!(
            tags.len() <= 4 && tags.iter().all(|tag| tag.len() <= 40),
            "{tags:?}"
        );
        let letter = if target == "/v1/db/c/x" { "r-" } else { "q-" };
        assert!(
            tags[0].starts_with(letter) && tags[1].starts_with("c-") && tags[2].starts_with("a-")
        );
        assert_eq!(answer.header("access-control-expose-headers"), EXPOSED);
        assert_eq!(answer.header("timing-allow-origin"), "*");
        assert_eq!(answer.header("content-type"), "application/json");
    }
}

#[tokio::test]
async fn e1_a_304_has_the_same_headers() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    for target in ["/v1/db/c/x", "/v1/db/c"] {
        let full = server.get(target).await;
        let strong = full.header("etag").trim_start_matches("W/").to_owned();
        for tags in [
            full.header("etag").to_owned(),
            strong.clone(),
            "*".to_owned(),
            format!("\"other\", {strong}"),
        ] {
            let same = server.get_with(target, "if-none-match", &tags).await;
            assert_eq!((same.status.as_u16(), same.body.len()), (304, 0), "{tags}");
            for name in [
                "etag",
                "surrogate-key",
                "freshet-position",
                "access-control-allow-origin",
                "access-control-expose-headers",
                "timing-allow-origin",
            ] {
                assert_eq!(same.header(name), full.header(name), "{name}");
            }
            assert!(same.header("cache-control").starts_with("public, max-age="));
        }
        assert_eq!(
            server
                .get_with(target, "if-none-match", "\"other\"")
                .await
                .status,
            200
        );
        assert_eq!(
            server
                .get_with(target, "if-none-match", "nonsense")
                .await
                .status,
            200
        );
    }
}

#[tokio::test]
async fn e4_equal_content_has_an_equal_tag_and_shape_enters_it() {
    let server = Server::start(&[]);
    server
        .put("/v1/db/c/x", r#"{"a":1,"b":{"$numberLong":"5"}}"#)
        .await;
    server
        .put("/v1/other/c/x", r#"{"a":1,"b":{"$numberLong":"5"}}"#)
        .await;
    let tag = |target: &'static str| {
        let server = &server;
        async move { server.get(target).await.header("etag").to_owned() }
    };
    let whole = tag("/v1/db/c/x").await;
    assert_eq!(whole, tag("/v1/other/c/x").await);
    assert_ne!(whole, tag("/v1/db/c/x?fields=a").await);
    assert_ne!(whole, tag("/v1/db/c/x?rep=canonical").await);
}

#[tokio::test]
async fn k4_another_spelling_has_the_same_key_and_names_the_canonical_url() {
    let server = Server::caching(&[]).await;
    let written = server
        .post(
            "/v1/db/c",
            r#"[{"_id":"a&b+c#d","v":"a&b+c#d\u0000"},{"_id":"2","v":"other"}]"#,
        )
        .await;
    server.caught_up(&written).await;
    let filter = r#"{"v":"a&b+c#d\u0000"}"#;
    let first = server
        .get(&format!("/v1/db/c?limit=5&filter={}", encode(filter)))
        .await;
    assert_eq!(first.json()["items"].as_array().expect("items").len(), 1);
    let canonical = first.header("content-location").to_owned();
    assert!(
        canonical.starts_with("/v1/db/c?filter=%7B%22v%22:%22a%26b%2Bc%23d"),
        "{canonical}"
    );
    let second = server.get(&canonical).await;
    assert!(second.is_hit());
    assert_eq!(second.header("content-location"), "");
    assert_eq!(
        (second.header("surrogate-key"), second.header("etag")),
        (first.header("surrogate-key"), first.header("etag"))
    );
    let spaced = server
        .get(&format!(
            "/v1/db/c?filter={}&limit=5",
            encode(r#"{ "v" : {"$eq": "a&b+c#d\u0000"} }"#)
        ))
        .await;
    assert!(spaced.is_hit() && spaced.header("content-location") == canonical);
    let record = server.get("/v1/db/c/a%26b%2Bc%23d").await;
    assert_eq!(record.header("content-location"), "/v1/db/c/a&b+c%23d");
}

#[tokio::test]
async fn x6_who_asks_does_not_matter_on_a_public_collection() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    let anonymous = server.get("/v1/db/c/x").await;
    let named = server
        .get_with("/v1/db/c/x", "authorization", "Bearer somebody")
        .await;
    let cookie = server.get_with("/v1/db/c/x", "cookie", "a=b").await;
    assert!(anonymous.body == named.body && anonymous.body == cookie.body);
    assert!(!named.headers.contains_key("vary") && !named.headers.contains_key("set-cookie"));
}

#[tokio::test]
async fn head_answers_as_get_without_the_body() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    for target in [
        "/v1/db/c/x",
        "/v1/db/c",
        "/v1/db/c/_count",
        "/v1/db/c/nobody",
        "/healthz",
        "/v1/db/_sketch",
    ] {
        let get = server.get(target).await;
        let head = server.send("HEAD", target, &[], "").await;
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{target}");
        for name in ["etag", "content-type", "surrogate-key"] {
            assert_eq!(head.header(name), get.header(name), "{target} {name}");
        }
        assert_eq!(
            head.header("content-length"),
            get.body.len().to_string(),
            "{target}"
        );
    }
}

#[tokio::test]
async fn preflights_are_answered_for_two_hours() {
    let server = Server::start(&[]);
    let headers = [
        ("origin", "https://example.org"),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "content-type,if-match"),
    ];
    for (target, methods) in [
        ("/v1/db/c/x", "GET, HEAD, PUT, PATCH, DELETE, OPTIONS"),
        ("/v1/db/c", "GET, HEAD, POST, QUERY, OPTIONS"),
    ] {
        let answer = server.send("OPTIONS", target, &headers, "").await;
        assert_eq!((answer.status.as_u16(), answer.body.len()), (204, 0));
        assert_eq!(answer.header("access-control-allow-origin"), "*");
        assert_eq!(answer.header("access-control-max-age"), "7200");
        assert_eq!(answer.header("access-control-allow-methods"), methods);
        let allowed = answer.header("access-control-allow-headers").to_lowercase();
        for header in [
            "authorization",
            "content-type",
            "if-match",
            "idempotency-key",
        ] {
            assert!(allowed.contains(header), "{header}");
        }
    }
    let simple = server
        .get_with(&filtered("{}"), "origin", "https://example.org")
        .await;
    assert_eq!(
        simple.header("access-control-allow-origin"),
        "*",
        "no preflight for reads"
    );
}

#[tokio::test]
async fn a_write_answers_with_tag_and_position_and_is_not_cacheable() {
    let server = Server::start(&[]);
    for answer in [
        server.post("/v1/db/c", r#"{"_id":"x"}"#).await,
        server.put("/v1/db/c/x", r#"{"a":1}"#).await,
        server.patch("/v1/db/c/x", "merge", r#"{"a":2}"#).await,
    ] {
        assert_eq!(
            answer.header("cache-control"),
            "private, no-store, max-age=0"
        );
        assert!(answer.header("etag").starts_with("W/\""));
        assert!(answer.header("freshet-position").parse::<u64>().is_ok());
        assert!(!answer.headers.contains_key("surrogate-key"));
        assert_eq!(answer.header("access-control-allow-origin"), "*");
    }
}
