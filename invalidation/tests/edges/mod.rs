//! What the suite works with: an edge in front of an origin, its adapter, and an outbox that uses it.
#![allow(unreachable_pub)] // a module of a test

mod akamai;
pub mod cdn;
mod cloudflare;
mod fastly;
mod http;
pub mod origin;
mod webhook;

use std::sync::Arc;

use freshet_core::freshness::{Edge, ResourceKind, SurrogateKey};
use freshet_core::key::Key;
use freshet_core::time::Position;
use freshet_fixture::{Parts, Varnish as Node};
use freshet_invalidation::purge::port::Purger;
use freshet_invalidation::purge::{
    Akamai, AkamaiSettings, Cloudflare, CloudflareSettings, Confirmed, Fastly, FastlySettings,
    Order, Outbox, OutboxSettings, Target, Varnish, VarnishSettings, Webhook, WebhookAuth,
    WebhookSettings,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::cdn::{Cdn, Dialect};
use self::origin::{Origin, namespace};
use crate::conformance::SystemClock;

/// An edge, its origin, and the adapter that purges it.
pub struct Bench {
    pub origin: Origin,
    pub purger: Arc<dyn Purger>,
    pub edge: Real,
    url: String,
    kind: Edge,
}

/// What stands behind the adapter.
pub enum Real {
    Varnish(Node),
    Stub(Arc<Cdn>),
}

impl Bench {
    pub async fn start(kind: Edge) -> Bench {
        let origin = Origin::start(&[kind]).await;
        let dialect = match kind {
            Edge::Varnish => {
                let node = Parts::varnish(&[origin.port], None).await.expect("Varnish");
                let url = node.url.clone();
                return Bench {
                    origin,
                    purger: adapter(kind, &url, true),
                    edge: Real::Varnish(node),
                    url,
                    kind,
                };
            }
            Edge::Fastly => Dialect::Fastly,
            Edge::Cloudflare => Dialect::Cloudflare,
            Edge::Akamai => Dialect::Akamai,
            Edge::Webhook => Dialect::Webhook,
        };
        let (port, cdn) = Cdn::start(dialect, origin.port, kind == Edge::Fastly).await;
        let url = format!("http://127.0.0.1:{port}");
        Bench {
            origin,
            purger: adapter(kind, &url, true),
            edge: Real::Stub(cdn),
            url,
            kind,
        }
    }

    /// The adapter with a secret that is not the edge's.
    pub fn stranger(&self) -> Arc<dyn Purger> {
        adapter(self.kind, &self.url, false)
    }

    pub fn stub(&self) -> &Cdn {
        match &self.edge {
            Real::Stub(cdn) => cdn,
            Real::Varnish(_) => panic!("a real one"),
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// The number that the edge answers with.
    pub async fn get(&self, path: &str) -> usize {
        let answer = reqwest::get(self.url(path)).await.expect("answered");
        let text = answer.text().await.expect("a body");
        text.parse()
            .unwrap_or_else(|_| panic!("not a number: {text}"))
    }

    pub async fn break_down(&self) {
        match &self.edge {
            Real::Varnish(node) => node.node.kill().await.expect("killed"),
            Real::Stub(cdn) => cdn.set_down(true),
        }
    }

    pub async fn come_back(&self) {
        match &self.edge {
            Real::Varnish(node) => node.node.restart().await.expect("restarted"),
            Real::Stub(cdn) => cdn.set_down(false),
        }
    }
}

const REQUEST_MS_MAX: u64 = 2_000;

fn adapter(kind: Edge, url: &str, known: bool) -> Arc<dyn Purger> {
    let url = url.to_owned();
    let secret = |right: &str| if known { right } else { "wrong" }.to_owned();
    match kind {
        Edge::Varnish => Arc::new(
            Varnish::new(&VarnishSettings {
                url,
                secret: secret("fixture-secret"),
                coalesce_ms: None,
                request_ms_max: REQUEST_MS_MAX,
            })
            .expect("valid"),
        ),
        Edge::Fastly => Arc::new(
            Fastly::new(&FastlySettings {
                url,
                service: fastly::SERVICE.to_owned(),
                token: secret(fastly::TOKEN),
                coalesce_ms: None,
                request_ms_max: REQUEST_MS_MAX,
            })
            .expect("valid"),
        ),
        Edge::Cloudflare => Arc::new(
            Cloudflare::new(&CloudflareSettings {
                url,
                zone: cloudflare::ZONE.to_owned(),
                token: secret(cloudflare::TOKEN),
                coalesce_ms: None,
                request_ms_max: REQUEST_MS_MAX,
            })
            .expect("valid"),
        ),
        Edge::Akamai => Arc::new(
            Akamai::new(
                &AkamaiSettings {
                    url,
                    network: "production".to_owned(),
                    client_token: akamai::CLIENT_TOKEN.to_owned(),
                    client_secret: secret(akamai::SECRET),
                    access_token: akamai::ACCESS_TOKEN.to_owned(),
                    coalesce_ms: None,
                    request_ms_max: REQUEST_MS_MAX,
                    seed: 7,
                },
                Arc::new(SystemClock::new()),
            )
            .expect("valid"),
        ),
        Edge::Webhook => webhook(url, WebhookAuth::Bearer(secret(webhook::TOKEN))),
    }
}

fn webhook(url: String, auth: WebhookAuth) -> Arc<dyn Purger> {
    let settings = WebhookSettings {
        url,
        auth,
        keys_max: None,
        coalesce_ms: None,
        request_ms_max: REQUEST_MS_MAX,
    };
    Arc::new(Webhook::new(&settings).expect("valid"))
}

/// The webhook's adapter that signs.
pub fn signing(bench: &Bench, known: bool) -> Arc<dyn Purger> {
    let secret = if known { webhook::SECRET } else { "wrong" };
    webhook(bench.url("/"), WebhookAuth::Hmac(secret.to_owned()))
}

/// The purge of what the origin answers under this path.
pub fn order(path: &str, position: u64) -> Order {
    let key = Key::from(path);
    Order {
        surrogate: SurrogateKey::resource(ResourceKind::Record, &key),
        target: Target::Resource(namespace(), key),
        position: Position(position),
    }
}

/// An outbox at work; it stops when dropped.
pub struct Running {
    pub outbox: Arc<Outbox>,
    pub confirmed: mpsc::Receiver<Vec<Confirmed>>,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

pub fn run(nodes: Vec<Arc<dyn Purger>>, repeat_after_ms: u64) -> Running {
    let settings = OutboxSettings {
        repeat_after_ms,
        retry_ms: 20,
        retry_ms_max: 200,
        ..OutboxSettings::default()
    };
    let outbox = Arc::new(Outbox::new(
        settings,
        nodes,
        None,
        Arc::new(SystemClock::new()),
    ));
    let (sender, confirmed) = mpsc::channel(64);
    let stop = CancellationToken::new();
    let (running, stopping) = (outbox.clone(), stop.clone());
    tokio::spawn(async move { running.run(sender, stopping).await });
    Running {
        outbox,
        confirmed,
        stop,
    }
}
