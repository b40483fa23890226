//! Requests with a limit of time. An answer that does not come whole in time is none.

use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::header::HeaderName;
use hyper::{Method, Request, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;

use super::browser::Answer;

/// How long an answer may take: longer than the gateway lets a read take.
const ANSWER_S_MAX: Duration = Duration::from_secs(12);

/// What is sent.
pub(super) struct Ask<'a> {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: &'a [(HeaderName, String)],
    pub(super) body: Bytes,
}

impl Ask<'_> {
    /// A GET.
    pub(super) fn get(url: String, headers: &[(HeaderName, String)]) -> Ask<'_> {
        Ask {
            method: Method::GET,
            url,
            headers,
            body: Bytes::new(),
        }
    }
}

/// The connections of all clients.
#[derive(Clone)]
pub(super) struct Http(Client<HttpConnector, Full<Bytes>>);

impl Http {
    pub(super) fn new() -> Http {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(Duration::from_secs(2)));
        Http(
            Client::builder(TokioExecutor::new())
                .pool_idle_timeout(Duration::from_secs(4))
                .build(connector),
        )
    }

    /// Sends it and waits for the whole answer.
    ///
    /// # Errors
    /// None came in time.
    pub(super) async fn send(&self, ask: Ask<'_>) -> anyhow::Result<(StatusCode, Answer)> {
        let mut request = Request::builder().method(ask.method).uri(ask.url);
        for (name, value) in ask.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(ask.body))?;
        let whole = async {
            let (head, body) = self.0.request(request).await?.into_parts();
            let body = body.collect().await?.to_bytes();
            let headers = head.headers;
            anyhow::Ok((head.status, Answer { headers, body }))
        };
        tokio::time::timeout(ANSWER_S_MAX, whole)
            .await
            .context("no answer in time")?
    }
}
