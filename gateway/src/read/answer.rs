//! From what was read to what is sent: headers, preconditions (RFC 9110 §13), the cache status.

use freshet_core::freshness::{TagList, etag};
use http::header::{CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::fetch::Fetched;
use super::reason::Reason;
use crate::app::App;
use crate::error::{Kind, Problem};
use crate::respond::{self, CACHE_STATUS, CacheStatus, FRESHET_POSITION, Fields, Reply};
use crate::server::{Body, Connection};
use crate::tier::{Answer, Entry};

/// What a reply needs to know of its request.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    /// The request's headers.
    pub headers: &'a HeaderMap,
    /// The target as it was spelled.
    pub target: &'a str,
    /// The connection it goes out on.
    pub connection: &'a Connection,
    /// The longest target that is answered.
    pub url_bytes_max: usize,
}

impl Wanted<'_> {
    /// The canonical URL as a header value; none where it would itself be refused as too long (414), and would make
    /// a head that no proxy takes.
    #[must_use]
    pub fn url(&self, key: &str) -> Option<HeaderValue> {
        (key.len() <= self.url_bytes_max)
            .then(|| HeaderValue::from_str(key).ok())
            .flatten()
    }
}

/// The answer, but for what caches may do with it. The tag is that of the bytes that are sent: every input that shapes
/// them is in it.
#[must_use]
pub fn whole(fetched: &Fetched) -> Answer {
    let tag = etag(&fetched.body);
    let mut headers = respond::every(Some(respond::JSON));
    if let Ok(value) = HeaderValue::from_str(&tag.to_string()) {
        headers.insert(ETAG, value);
    }
    headers.insert(FRESHET_POSITION, respond::position(fetched.position));
    Answer {
        headers,
        body: fetched.body.clone(),
        etag: tag,
        position: fetched.position,
    }
}

/// Sends an entry of the tier, or one on its way there.
///
/// # Errors
/// 412 where `If-Match` fails.
pub fn entry(
    app: &App,
    wanted: Wanted<'_>,
    key: &str,
    entry: &Entry,
    status: CacheStatus,
) -> Result<Reply, Problem> {
    wanted.connection.answers(true);
    let now = app.clock.now();
    let caching = entry.caching(now, &app.edges, app.pipeline.shares());
    let reply = answer(wanted, key, &entry.answer, &caching, status)?;
    // What was settled just now may be purged from that moment on; what the tier still has, from now on (C5).
    let begun = match status {
        CacheStatus::Hit => now,
        _ => entry.issued(),
    };
    let deadline = wanted.connection.fill_deadline(begun);
    Ok(reply.map(|body| body.until(deadline, &app.clock)))
}

/// Sends an answer that nobody keeps.
///
/// # Errors
/// 412 where `If-Match` fails.
pub fn uncached(
    wanted: Wanted<'_>,
    key: &str,
    fetched: &Fetched,
    reason: Reason,
) -> Result<Reply, Problem> {
    wanted.connection.answers(false);
    let status = CacheStatus::NotCached(reason);
    answer(wanted, key, &whole(fetched), &respond::not_shared(), status)
}

fn answer(
    wanted: Wanted<'_>,
    key: &str,
    answer: &Answer,
    caching: &Fields,
    status: CacheStatus,
) -> Result<Reply, Problem> {
    let mut headers = answer.headers.clone();
    for (name, value) in caching.iter() {
        headers.insert(name.clone(), value.clone());
    }
    headers.insert(CACHE_STATUS, status.value());
    if wanted.target != key
        && let Some(canonical) = wanted.url(key)
    {
        headers.insert(CONTENT_LOCATION, canonical);
    }
    if condition(wanted.headers, IF_MATCH).is_some_and(|tags| !tags.matches(Some(answer.etag))) {
        return Err(Problem::new(
            Kind::PreconditionFailed,
            "If-Match names no current representation",
        ));
    }
    if condition(wanted.headers, IF_NONE_MATCH).is_some_and(|tags| tags.matches(Some(answer.etag)))
    {
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        return Ok(respond::reply(
            StatusCode::NOT_MODIFIED,
            headers,
            Body::empty(),
        ));
    }
    Ok(respond::reply(
        StatusCode::OK,
        headers,
        Body::of(answer.body.clone()),
    ))
}

/// A read's precondition; one that cannot be read counts as absent, and the answer is sent whole.
fn condition(headers: &HeaderMap, name: HeaderName) -> Option<TagList> {
    if !headers.contains_key(&name) {
        return None;
    }
    tags(headers, &name).ok().flatten()
}

/// The tags of a precondition's field lines, joined (RFC 9110 §5.3).
///
/// # Errors
/// 400 where they are not tags.
pub fn tags(headers: &HeaderMap, name: &HeaderName) -> Result<Option<TagList>, Problem> {
    let mut lines = headers.get_all(name).iter().peekable();
    if lines.peek().is_none() {
        return Ok(None);
    }
    let malformed = || Problem::malformed(format!("{name} is not a list of entity tags"));
    let lines: Vec<&str> = lines
        .map(|line| line.to_str().map_err(|_| malformed()))
        .collect::<Result<_, _>>()?;
    TagList::parse(&lines.join(", "))
        .map(Some)
        .ok_or_else(malformed)
}
