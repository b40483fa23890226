//! What the adapters that speak to a CDN's API have in common: a client, and what an answer says.

use std::time::Duration;

use bytes::Bytes;
use freshet_core::freshness::SurrogateKey;
use reqwest::header::{HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, StatusCode, Url};

use super::port::PurgeError;

/// The settings do not make an edge.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an edge: {0}")]
pub struct EdgeError(String);

impl EdgeError {
    pub(super) fn new(what: impl std::fmt::Display) -> EdgeError {
        EdgeError(what.to_string())
    }
}

/// A keep-alive client that follows nothing and goes no detour: purges carry secrets.
pub(super) fn client(request_ms_max: u64) -> Result<Client, EdgeError> {
    Client::builder()
        .timeout(Duration::from_millis(request_ms_max))
        .connect_timeout(Duration::from_millis(request_ms_max))
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .build()
        .map_err(EdgeError::new)
}

/// An address, and the path below it.
pub(super) fn address(base: &str, path: &str) -> Result<Url, EdgeError> {
    let whole = format!("{}{path}", base.trim_end_matches('/'));
    Url::parse(&whole).map_err(EdgeError::new)
}

/// A header value that is not shown in logs.
pub(super) fn secret(value: &str) -> Result<HeaderValue, EdgeError> {
    let mut value = HeaderValue::from_str(value).map_err(EdgeError::new)?;
    value.set_sensitive(true);
    Ok(value)
}

/// `{"<name>":["r-…",…]}`
pub(super) fn body(name: &str, keys: &[SurrogateKey]) -> String {
    let keys: Vec<String> = keys.iter().map(SurrogateKey::to_string).collect();
    serde_json::json!({ name: keys }).to_string()
}

/// Sends a request and reads its answer to the end, so that the connection can be used again.
pub(super) async fn send(request: RequestBuilder) -> Result<Bytes, PurgeError> {
    let unreachable =
        |error: reqwest::Error| PurgeError::Unreachable(error.without_url().to_string());
    let response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let retry_after_ms = retry_after_ms(response.headers());
    let body = response.bytes().await.map_err(unreachable)?;
    match status {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Err(PurgeError::Busy {
            status: status.as_u16(),
            retry_after_ms,
        }),
        status if status.is_success() => Ok(body),
        other => Err(PurgeError::Refused(other.as_u16())),
    }
}

/// `Retry-After` in seconds. A date would need a clock that agrees with the CDN's: our own backoff serves instead.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let seconds: u64 = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(seconds.saturating_mul(1000))
}
