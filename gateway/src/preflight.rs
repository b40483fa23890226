//! OPTIONS: what a browser asks before a write or a request with credentials (Fetch, *CORS-preflight fetch*). Reads of
//! public collections need none.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_MAX_AGE, ALLOW,
};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::respond::{self, Reply};
use crate::route::Route;
use crate::server::Body;

/// What a request may carry besides what CORS always lets through. `*` would not cover `Authorization`.
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Cache-Control, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID",
);
/// What a QUERY takes (RFC 10008).
const ACCEPT_QUERY: HeaderName = HeaderName::from_static("accept-query");

/// Answers OPTIONS.
#[must_use]
pub fn reply(route: &Route) -> Reply {
    let allow = HeaderValue::from_static(route.allow());
    let mut headers = respond::private(None);
    headers.insert(ALLOW, allow.clone());
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow);
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("7200"));
    if let Route::Collection(_) = route {
        headers.insert(ACCEPT_QUERY, respond::JSON);
    }
    respond::reply(StatusCode::NO_CONTENT, headers, Body::empty())
}
