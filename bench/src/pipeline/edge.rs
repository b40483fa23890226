//! The copies at the edge: a backend that answers each query with how often its record was written, and a client that
//! reads through Varnish.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, ensure};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::IntoResponse;
use axum::routing::get;
use bytes::Bytes;
use freshet_core::freshness::{ResourceKind, SurrogateKey};
use freshet_core::key::Key;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpListener;

use super::rounds::Number;

/// What the backend answers.
pub(super) struct Backend {
    /// How often each record was written, as far as that is acknowledged.
    pub(super) writes: Vec<AtomicU64>,
    surrogates: Vec<SurrogateKey>,
}

impl Backend {
    pub(super) fn new(keys: &[Key]) -> Backend {
        let surrogate = |key| SurrogateKey::resource(ResourceKind::Query, key);
        Backend {
            writes: keys.iter().map(|_| AtomicU64::new(0)).collect(),
            surrogates: keys.iter().map(surrogate).collect(),
        }
    }

    /// Answers on a port of its own, until the process ends.
    pub(super) async fn serve(self: &Arc<Backend>) -> anyhow::Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let routes = Router::new()
            .route("/v1/bench/records/{number}", get(answer))
            .with_state(Arc::clone(self));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(port)
    }
}

async fn answer(
    State(backend): State<Arc<Backend>>,
    Path(number): Path<usize>,
) -> impl IntoResponse {
    let surrogate = backend.surrogates[number].to_string();
    let surrogate = HeaderValue::from_str(&surrogate).expect("a surrogate key is a header value");
    let lifetime = HeaderValue::from_static("public, max-age=0, s-maxage=600");
    let headers = [
        (header::CACHE_CONTROL, lifetime),
        (HeaderName::from_static("xkey"), surrogate),
    ];
    (
        headers,
        backend.writes[number].load(Ordering::SeqCst).to_string(),
    )
}

/// Reads through Varnish.
pub(super) struct Reader {
    client: Client<HttpConnector, Empty<Bytes>>,
    url: String,
}

impl Reader {
    pub(super) fn new(url: &str) -> Reader {
        Reader {
            client: Client::builder(TokioExecutor::new()).build_http(),
            url: url.to_owned(),
        }
    }

    /// What Varnish answers, and whether it had it.
    pub(super) async fn read(&self, number: Number) -> anyhow::Result<(u64, bool)> {
        let target = format!("{}/v1/bench/records/{number}", self.url);
        let request = Request::get(target).body(Empty::new())?;
        let answer = self.client.request(request).await?;
        ensure!(
            answer.status() == 200,
            "Varnish answers {}",
            answer.status()
        );
        let age = answer.headers().get(header::CACHE_STATUS);
        let hit =
            age.is_some_and(|status| status.to_str().is_ok_and(|status| status.contains("hit")));
        let body = answer.into_body().collect().await?.to_bytes();
        let text = std::str::from_utf8(&body).context("not a number")?;
        Ok((text.parse()?, hit))
    }
}
