//! The header sets that answers go out with: the same few on everything, one set for what caches may keep, one
//! for what they may not. Values are prepared once; a tier hit clones them.

use std::sync::Arc;

use bytes::Bytes;
use freshet_core::freshness::{Edge, Lifetimes, NOT_SHARED, SurrogateKey, cacheable};
use freshet_core::time::Position;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ALLOW, CACHE_CONTROL,
    CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::error::{Kind, Problem};
use crate::read::reason::Reason;
use crate::server::Body;

/// An answer on its way out.
pub type Reply = Response<Body>;

/// `Freshet-Position`.
pub const FRESHET_POSITION: HeaderName = HeaderName::from_static("freshet-position");
/// `Cache-Status` (RFC 9211).
pub const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");
/// `Timing-Allow-Origin`.
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");

/// What scripts of other origins may read.
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Age, Allow, Cache-Status, Content-Location, Date, Freshet-Position, Location, Retry-After",
);
const ANY: HeaderValue = HeaderValue::from_static("*");
const NOT_SHARED_VALUE: HeaderValue = HeaderValue::from_static(NOT_SHARED);
/// The media type of documents and results.
pub const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// The headers that every answer has.
#[must_use]
pub fn every(content_type: Option<HeaderValue>) -> HeaderMap {
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
    headers.insert(TIMING_ALLOW_ORIGIN, ANY);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Some(content_type) = content_type {
        headers.insert(CONTENT_TYPE, content_type);
    }
    headers
}

/// The headers of an answer that nobody may keep.
#[must_use]
pub fn private(content_type: Option<HeaderValue>) -> HeaderMap {
    let mut headers = every(content_type);
    headers.insert(CACHE_CONTROL, NOT_SHARED_VALUE);
    headers
}

/// Prepared fields, shared by the answers that go out with them.
pub type Fields = Arc<[(HeaderName, HeaderValue)]>;

/// The caching fields of a shared answer, in every configured edge's spelling.
#[must_use]
pub fn caching(lifetimes: Lifetimes, keys: &[SurrogateKey], edges: &[Edge]) -> Fields {
    let fields = cacheable(lifetimes, keys, edges).into_iter();
    let prepared = fields.map(|(name, value)| {
        let value = HeaderValue::from_str(&value).unwrap_or(NOT_SHARED_VALUE);
        (HeaderName::from_static(name), value)
    });
    prepared.collect()
}

/// The caching fields of an answer that nobody may keep.
#[must_use]
pub fn not_shared() -> Fields {
    [(CACHE_CONTROL, NOT_SHARED_VALUE)].into()
}

/// A decimal header value.
#[must_use]
pub fn position(position: Position) -> HeaderValue {
    HeaderValue::from(position.0)
}

/// A reply from its parts.
#[must_use]
pub fn reply(status: StatusCode, headers: HeaderMap, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    *reply.headers_mut() = headers;
    reply
}

/// A private reply with a body.
#[must_use]
pub fn private_body(
    status: StatusCode,
    content_type: HeaderValue,
    body: impl Into<Bytes>,
) -> Reply {
    reply(status, private(Some(content_type)), Body::of(body.into()))
}

/// A problem as a reply.
#[must_use]
pub fn problem(problem: &Problem) -> Reply {
    let mut headers = private(Some(PROBLEM_JSON));
    if let Some(allow) = problem.allow {
        headers.insert(ALLOW, HeaderValue::from_static(allow));
    }
    if let Some(seconds) = problem.retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if let Some(at) = problem.position.as_deref() {
        headers.insert(FRESHET_POSITION, position(*at));
    }
    if problem.kind == Kind::Unauthorized {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    let status =
        StatusCode::from_u16(problem.kind.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    reply(status, headers, Body::of(problem.body().into()))
}

/// The same reply as HEAD gives it: its headers, the length that the body would have, no body.
#[must_use]
pub fn without_body(reply: Reply) -> Reply {
    let (mut parts, body) = reply.into_parts();
    if !parts.headers.contains_key(CONTENT_LENGTH) {
        parts
            .headers
            .insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    Response::from_parts(parts, Body::empty())
}

/// What `Cache-Status` says of an answer (RFC 9211 §2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheStatus {
    /// Answered by the tier.
    Hit,
    /// Read from the database, and kept.
    Stored,
    /// Shared with a read that was under way.
    Collapsed,
    /// The client asked to go past caches; the answer is kept.
    Reloaded,
    /// Read from the database, not kept by anybody, for this reason.
    NotCached(Reason),
}

impl CacheStatus {
    /// The field value.
    #[must_use]
    pub fn value(self) -> HeaderValue {
        match self {
            CacheStatus::Hit => HeaderValue::from_static("freshet; hit"),
            CacheStatus::Stored => HeaderValue::from_static("freshet; fwd=uri-miss; stored"),
            CacheStatus::Collapsed => HeaderValue::from_static("freshet; fwd=uri-miss; collapsed"),
            CacheStatus::Reloaded => HeaderValue::from_static("freshet; fwd=request; stored"),
            CacheStatus::NotCached(reason) => {
                HeaderValue::from_str(&format!("freshet; fwd=bypass; detail={}", reason.word()))
                    .unwrap_or(HeaderValue::from_static("freshet; fwd=bypass"))
            }
        }
    }
}
