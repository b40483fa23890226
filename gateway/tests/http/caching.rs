//! What the tier answers, what a write makes stale, what is never cached.

use serde_json::json;

use crate::support::{Server, encode, filtered};

#[tokio::test]
async fn c2_a_record_is_a_hit_until_it_is_written_and_then_new_at_once() {
    let server = Server::caching(&[]).await;
    let written = server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    server.caught_up(&written).await;
    let first = server
        .until("/v1/db/c/x", |answer| {
            answer.header("cache-status").ends_with("stored")
        })
        .await;
    let second = server.get("/v1/db/c/x").await;
    assert!(second.is_hit(), "{}", second.header("cache-status"));
    assert_eq!(
        (second.body.clone(), second.header("etag")),
        (first.body.clone(), first.header("etag"))
    );
    for value in 2..12 {
        let written = server
            .put("/v1/db/c/x", &format!("{{\"a\":{value}}}"))
            .await;
        let read = server.get("/v1/db/c/x").await;
        assert_eq!(
            read.json()["a"],
            value,
            "the tier never answers with what this gateway overwrote"
        );
        assert!(position(&read) >= position(&written));
        let shown = server.get("/v1/db/c/x?fields=a").await;
        assert_eq!(shown.json()["a"], value, "in any representation");
    }
}

fn position(answer: &crate::support::Answer) -> u64 {
    answer.header("freshet-position").parse().expect("decimal")
}

#[tokio::test]
async fn a_write_makes_stale_the_queries_that_it_touches_and_no_others() {
    let server = Server::caching(&[]).await;
    let written = server
        .post(
            "/v1/db/c",
            r#"[{"_id":"a","k":1,"v":1},{"_id":"b","k":2,"v":1}]"#,
        )
        .await;
    server.caught_up(&written).await;
    let ones = "/v1/db/c?filter=%7B%22k%22:1%7D";
    let twos = "/v1/db/c?filter=%7B%22k%22:2%7D";
    let count = "/v1/db/c/_count?filter=%7B%22k%22:1%7D";
    for target in [ones, twos, count] {
        server.until(target, crate::support::Answer::is_hit).await;
    }
    server.patch("/v1/db/c/a", "merge", r#"{"v":2}"#).await;
    server
        .until(ones, |answer| answer.json()["items"][0]["v"] == 2)
        .await;
    assert!(server.get(twos).await.is_hit(), "untouched");
    assert!(
        server.get(count).await.is_hit(),
        "a change within leaves the count"
    );
    server.post("/v1/db/c", r#"{"_id":"c","k":1}"#).await;
    server
        .until(ones, |answer| {
            answer.json()["items"]
                .as_array()
                .is_some_and(|items| items.len() == 2)
        })
        .await;
    server
        .until(count, |answer| answer.json() == json!({"count":2}))
        .await;
    assert!(server.get(twos).await.is_hit());
    server.send("DELETE", "/v1/db/c/b", &[], "").await;
    server
        .until(twos, |answer| answer.json() == json!({"items":[]}))
        .await;
}

/// Row S6: the field that is shown is not the one that is filtered on.
#[tokio::test]
async fn s6_a_change_of_a_projected_field_is_not_missed() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/a", r#"{"f":"x","o":1,"z":1}"#).await;
    let query = "/v1/db/c?fields=o&filter=%7B%22f%22:%22x%22%7D";
    let first = server.until(query, crate::support::Answer::is_hit).await;
    let tag = first.header("etag").to_owned();
    server.patch("/v1/db/c/a", "merge", r#"{"z":2}"#).await;
    let unshown = server.until(query, crate::support::Answer::is_hit).await;
    assert_eq!(unshown.header("etag"), tag, "equal content, equal tag");
    server.patch("/v1/db/c/a", "merge", r#"{"o":2}"#).await;
    let shown = server
        .until(query, |answer| answer.json()["items"][0]["o"] == 2)
        .await;
    assert_ne!(shown.header("etag"), tag);
}

#[tokio::test]
async fn what_happens_outside_its_window_leaves_an_answer_alone() {
    let server = Server::caching(&[]).await;
    let written = server
        .post(
            "/v1/db/c",
            r#"[{"_id":"a","n":1},{"_id":"b","n":2},{"_id":"c","n":3},{"_id":"d","n":4}]"#,
        )
        .await;
    server.caught_up(&written).await;
    let page = "/v1/db/c?limit=2&sort=n";
    server.until(page, crate::support::Answer::is_hit).await;
    for (target, body) in [("e", r#"{"n":9}"#), ("d", r#"{"n":5}"#)] {
        let beyond = server.put(&format!("/v1/db/c/{target}"), body).await;
        server.caught_up(&beyond).await;
        assert!(server.get(page).await.is_hit(), "{target} is beyond");
    }
    let ids = |ids: [&str; 2]| json!(ids);
    let shown = |answer: &crate::support::Answer| {
        let items = answer.json()["items"].clone();
        json!([items[0]["_id"], items[1]["_id"]])
    };
    server.put("/v1/db/c/e", r#"{"n":0}"#).await;
    server
        .until(page, |answer| shown(answer) == ids(["e", "a"]))
        .await;
    server.until(page, crate::support::Answer::is_hit).await;
    // One after the other all that follow go, until there is no next page.
    for id in ["b", "c", "d"] {
        server
            .send("DELETE", &format!("/v1/db/c/{id}"), &[], "")
            .await;
    }
    server
        .until(page, |answer| answer.json().get("next").is_none())
        .await;
}

#[tokio::test]
async fn t10_an_empty_result_is_cached_and_ends_with_the_first_match() {
    let server = Server::caching(&[]).await;
    let target = "/v1/db/c?filter=%7B%22k%22:1%7D";
    server.until(target, crate::support::Answer::is_hit).await;
    server.post("/v1/db/c", r#"{"_id":"a","k":1}"#).await;
    let after = server
        .until(target, |answer| {
            !answer.is_hit() || answer.json()["items"] != json!([])
        })
        .await;
    assert_eq!(after.json()["items"], json!([{"_id":"a","k":1}]));
}

#[tokio::test]
async fn lifetimes_run_down_in_the_tier() {
    let server = Server::caching(&[]).await;
    server.put("/v1/db/c/x", "{}").await;
    let m = |answer: &crate::support::Answer| -> u32 {
        let control = answer.header("cache-control").to_owned();
        let (_, rest) = control.split_once("max-age=").expect("cacheable");
        rest.split(',')
            .next()
            .expect("a number")
            .parse()
            .expect("a number")
    };
    let first = m(&server
        .until("/v1/db/c/x", |answer| {
            answer.header("cache-status").ends_with("stored")
        })
        .await);
    server
        .until("/v1/db/c/x", |answer| {
            answer.is_hit() && m(answer) + 2 <= first
        })
        .await;
}

#[tokio::test]
async fn c9_reload_goes_past_the_tier_and_max_age_zero_does_not() {
    let server = Server::caching(&[]).await;
    let written = server.put("/v1/db/c/x", "{}").await;
    server.caught_up(&written).await;
    server
        .until("/v1/db/c/x", crate::support::Answer::is_hit)
        .await;
    let revalidated = server
        .get_with("/v1/db/c/x", "cache-control", "max-age=0")
        .await;
    assert!(revalidated.is_hit());
    let reloaded = server
        .get_with("/v1/db/c/x", "cache-control", "no-cache")
        .await;
    assert_eq!(
        reloaded.header("cache-status"),
        "freshet; fwd=request; stored"
    );
}

#[tokio::test]
async fn the_doorkeeper_caches_from_the_second_request_on() {
    let server = Server::caching(&[("admission.doorkeeper", "true")]).await;
    let first = server.get("/v1/db/c").await;
    assert_eq!(
        first.header("cache-status"),
        "freshet; fwd=bypass; detail=first-request"
    );
    assert_eq!(
        first.header("cache-control"),
        "private, no-store, max-age=0"
    );
    let second = server.get("/v1/db/c").await;
    assert_eq!(
        second.header("cache-status"),
        "freshet; fwd=uri-miss; stored"
    );
    assert!(server.get("/v1/db/c").await.is_hit());
}

#[tokio::test]
async fn a_collection_can_keep_browsers_from_keeping() {
    let access = r#"[{collection = "*", read = "public", clients = "revalidate"}]"#;
    let server = Server::caching(&[("access", access)]).await;
    let answer = server.get("/v1/db/c").await;
    let control = answer.header("cache-control");
    assert!(
        control.starts_with("public, max-age=0, s-maxage=")
            && control.ends_with(", must-revalidate"),
        "{control}"
    );
    assert!(server.get("/v1/db/c").await.is_hit());
}

#[tokio::test]
async fn c14_what_cannot_be_decided_exactly_is_refused_by_the_embedded_store() {
    let server = Server::caching(&[]).await;
    server.post("/v1/db/c", r#"{"_id":"a","v":"foobar"}"#).await;
    let lookahead = filtered(r#"{"v":{"$regex":"foo(?=bar)"}}"#);
    for _ in 0..2 {
        assert_eq!(server.get(&lookahead).await.status, 400);
    }
}

#[tokio::test]
async fn a_second_page_begins_after_the_look_ahead_and_is_invalidated_too() {
    let server = Server::caching(&[]).await;
    server.post("/v1/db/c", r#"[{"_id":1},{"_id":2}]"#).await;
    let target = "/v1/db/c?limit=2";
    let full = server.until(target, crate::support::Answer::is_hit).await;
    assert!(full.json().get("next").is_none());
    server.post("/v1/db/c", r#"{"_id":3}"#).await;
    let more = server
        .until(target, |answer| answer.json().get("next").is_some())
        .await;
    let next = more.json()["next"].as_str().expect("a cursor").to_owned();
    let second = server
        .get(&format!("/v1/db/c?after={}&limit=2", encode(&next)))
        .await;
    assert_eq!(second.json(), json!({"items":[{"_id":3}]}));
    server.send("DELETE", "/v1/db/c/~3", &[], "").await;
    server
        .until(target, |answer| answer.json().get("next").is_none())
        .await;
}

#[tokio::test]
async fn many_equal_reads_at_once_are_answered_alike() {
    let server = std::sync::Arc::new(Server::caching(&[]).await);
    server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    let asking: Vec<_> = (0..64)
        .map(|_| {
            let server = std::sync::Arc::clone(&server);
            tokio::spawn(async move { server.get("/v1/db/c/x").await })
        })
        .collect();
    for answer in asking {
        assert_eq!(
            answer.await.expect("no panic").json(),
            json!({"_id":"x","a":1})
        );
    }
}
