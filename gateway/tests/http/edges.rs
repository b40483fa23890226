//! Caches in front: what they are told, and what becomes of one that cannot be purged.

use std::net::SocketAddr;
use std::sync::Arc;

use freshet_fixture::Parts;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::{Answer, Server, send};

/// Where a cache can look for a gateway that is started after it.
pub(crate) struct Door {
    pub(crate) port: u16,
    pub(crate) gateway: watch::Sender<Option<SocketAddr>>,
}

impl Door {
    pub(crate) async fn open() -> Door {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (gateway, address) = watch::channel(None);
        tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let mut address = address.clone();
                tokio::spawn(async move {
                    let known = address.wait_for(Option::is_some).await.ok()?.to_owned();
                    let mut outside = TcpStream::connect(known?).await.ok()?;
                    let copied = tokio::io::copy_bidirectional(&mut inside, &mut outside);
                    copied.await.ok()
                });
            }
        });
        Door { port, gateway }
    }
}

fn edge(readyz: &Answer) -> serde_json::Value {
    readyz.json()["edges"][0].clone()
}

fn shared_s(answer: &Answer) -> u32 {
    let text = answer.header("cache-control");
    let (_, s) = text
        .split_once("s-maxage=")
        .unwrap_or_else(|| panic!("{text}"));
    s.split(',').next().expect("one").parse().expect("seconds")
}

#[tokio::test]
async fn c3_t20_while_an_edge_is_down_shared_caches_are_given_nothing() {
    let door = Door::open().await;
    let varnish = Parts::varnish(&[door.port], None).await.expect("Varnish");
    let edges = format!(
        "[{{kind = \"varnish\", urls = [{:?}], secret = {:?}}}]",
        varnish.url, varnish.secret
    );
    let settings = [("edge", edges.as_str()), ("server.fill_timeout", "500ms")];
    let server = Arc::new(Server::caching(&settings).await);
    door.gateway.send_replace(Some(server.address));
    let at_edge: SocketAddr = varnish.url["http://".len()..].parse().expect("an address");

    let documents = r#"[{"_id":"changed","n":1},{"_id":"kept"},{"_id":"later"},{"_id":"after"}]"#;
    let written = server.post("/v1/db/c", documents).await;
    server.caught_up(&written).await;
    let first = send(at_edge, "GET", "/v1/db/c/changed", &[], "").await;
    let second = send(at_edge, "GET", "/v1/db/c/changed", &[], "").await;
    assert_eq!(
        (first.json()["n"].as_u64(), second.json()["n"].as_u64()),
        (Some(1), Some(1))
    );
    assert!(second.header("cache-status").ends_with("varnish; hit"));
    assert!(shared_s(&server.get("/v1/db/c/kept").await) > 0);

    varnish.node.kill().await.expect("killed");
    server.put("/v1/db/c/changed", r#"{"n":2}"#).await;
    let down = server
        .until("/readyz", |answer| edge(answer)["down"] == true)
        .await;
    assert_eq!(
        (down.status.as_u16(), &down.json()["ready"]),
        (200, &true.into())
    );
    let status = edge(&down);
    assert_eq!(status["name"], format!("varnish/{at_edge}"));
    assert_eq!(status["pending"], 1);
    assert!(status["unconfirmed_ms"].as_u64() > Some(10_000), "{status}");
    assert!(status["failing_ms"].as_u64() > Some(5_000), "{status}");
    let line = format!("freshet_invalidation_edge_down{{edge=\"varnish/{at_edge}\"}} 1");
    server
        .until("/metrics", |answer| answer.text().contains(&line))
        .await;

    // What the tier has is handed out without S; what is read now never had one, and the tier keeps it all the same.
    let kept = server
        .until("/v1/db/c/kept", |answer| shared_s(answer) == 0)
        .await;
    assert!(kept.is_hit() && kept.header("cache-control").starts_with("public, max-age="));
    assert_eq!(shared_s(&server.get("/v1/db/c/later").await), 0);
    assert!(server.get("/v1/db/c/later").await.is_hit());
    let sketch = server.get("/v1/db/_sketch").await;
    assert_eq!(sketch.body[32..36], [0xff; 4], "no bound can be given");

    varnish.node.restart().await.expect("restarted");
    server
        .until("/readyz", |answer| {
            edge(answer)["pending"] == 0 && edge(answer)["down"] == false
        })
        .await;
    server
        .until("/v1/db/c/after", |answer| shared_s(answer) > 0)
        .await;
    assert!(shared_s(&server.get("/v1/db/c/kept").await) > 0);
    assert_eq!(
        shared_s(&server.get("/v1/db/c/later").await),
        0,
        "settled so (C3)"
    );
    let changed = send(at_edge, "GET", "/v1/db/c/changed", &[], "").await;
    assert_eq!(changed.json()["n"], 2);
}

#[tokio::test]
async fn each_edge_is_told_in_its_own_words_and_what_is_not_shared_has_none_of_them() {
    const NOWHERE: &str = "http://127.0.0.1:9";
    let edges = format!(
        r#"[{{kind = "varnish", urls = ["{NOWHERE}"]}},
            {{kind = "fastly", urls = ["{NOWHERE}"], service = "SU1", secret = "t"}},
            {{kind = "cloudflare", urls = ["{NOWHERE}"], zone = "z", secret = "t"}},
            {{kind = "akamai", urls = ["{NOWHERE}"], client_token = "c", access_token = "a", secret = "t"}},
            {{kind = "webhook", urls = ["{NOWHERE}"], secret = "t", auth = "hmac"}}]"#
    );
    let server = Server::caching(&[("edge", &edges)]).await;
    let written = server.put("/v1/db/c/x", r#"{"a":1}"#).await;
    server.caught_up(&written).await;
    let words = [
        "surrogate-key",
        "xkey",
        "surrogate-control",
        "cloudflare-cdn-cache-control",
        "cache-tag",
        "edge-control",
        "edge-cache-tag",
    ];
    let whole = server.get("/v1/db/c/x").await;
    let tag = whole.header("etag").to_owned();
    let not_modified = server.get_with("/v1/db/c/x", "if-none-match", &tag).await;
    assert_eq!(not_modified.status, 304);
    for answer in [&whole, &not_modified] {
        for word in words {
            assert!(!answer.header(word).is_empty(), "{word}: {answer:?}");
        }
    }
    let keys = whole.header("surrogate-key");
    assert_eq!(whole.header("cache-tag"), keys.replace(' ', ","));
    for answer in [
        &written,
        &server.get("/v1/db/c/nobody").await,
        &server.get("/v1/db/c?limit=x").await,
        &server.get("/v1/db/c?filter=%7B%22$where%22:1%7D").await,
        &server.get("/v1/db/_sketch").await,
    ] {
        assert_eq!(
            answer.header("cache-control"),
            "private, no-store, max-age=0"
        );
        for word in words {
            assert_eq!(answer.header(word), "", "{word}: {answer:?}");
        }
    }
}
