//! What went wrong with a request, and the one translation of it to `application/problem+json` (RFC 9457).
//!
//! Every kind has a stable word, a status and a title. The public detail never holds a stack trace, an internal
//! message or the input at length. An error is never cacheable: the header set is exactly that of `respond::private`.

use std::borrow::Cow;

use freshet_core::time::Position;

use crate::store::StoreError;

/// The kinds of error: one word, status and title each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The request cannot be understood.
    Malformed,
    /// No or wrong credentials.
    Unauthorized,
    /// Not allowed, whether or not it exists.
    Forbidden,
    /// Nothing here.
    NotFound,
    /// The resource does not know the method.
    MethodNotAllowed,
    /// The body did not arrive in time.
    RequestTimeout,
    /// The id exists already.
    DuplicateId,
    /// A concurrent change got in the way.
    Conflict,
    /// `If-Match` or `If-None-Match` failed.
    PreconditionFailed,
    /// The body is too large.
    TooLarge,
    /// The request target is too long.
    UriTooLong,
    /// The request's head is too large.
    HeadTooLarge,
    /// The body's media type is not one this resource takes.
    UnsupportedMediaType,
    /// Well-formed, but refused by the database's validation or by an update's own rules.
    Rejected,
    /// The same `Idempotency-Key` came with another request.
    IdempotencyMismatch,
    /// The collection wants `If-Match`.
    PreconditionRequired,
    /// Too many of something for now.
    TooManyRequests,
    /// A mistake of ours.
    Internal,
    /// Part of the protocol that this version does not answer.
    NotImplemented,
    /// The database cannot be asked now.
    Unavailable,
}

impl Kind {
    /// The stable word: the end of the problem's `type`, and the label in logs and metrics.
    #[must_use]
    pub fn word(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    #[must_use]
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// The title.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, u16, &'static str) {
        match self {
            Kind::Malformed => ("malformed", 400, "The request cannot be understood"),
            Kind::Unauthorized => ("unauthorized", 401, "Credentials are needed"),
            Kind::Forbidden => ("forbidden", 403, "Not allowed"),
            Kind::NotFound => ("not-found", 404, "Nothing here"),
            Kind::MethodNotAllowed => (
                "method-not-allowed",
                405,
                "The resource does not know this method",
            ),
            Kind::RequestTimeout => (
                "request-timeout",
                408,
                "The request took too long to arrive",
            ),
            Kind::DuplicateId => ("duplicate-id", 409, "The id exists already"),
            Kind::Conflict => ("conflict", 409, "A concurrent change got in the way"),
            Kind::PreconditionFailed => {
                ("precondition-failed", 412, "The precondition does not hold")
            }
            Kind::TooLarge => ("too-large", 413, "The request body is too large"),
            Kind::UriTooLong => ("uri-too-long", 414, "The request target is too long"),
            Kind::HeadTooLarge => ("head-too-large", 431, "The request's head is too large"),
            Kind::UnsupportedMediaType => (
                "unsupported-media-type",
                415,
                "The body has another media type than expected",
            ),
            Kind::Rejected => ("rejected", 422, "The change was rejected"),
            Kind::IdempotencyMismatch => (
                "idempotency-mismatch",
                422,
                "The idempotency key belongs to another request",
            ),
            Kind::PreconditionRequired => ("precondition-required", 428, "If-Match is needed"),
            Kind::TooManyRequests => ("too-many-requests", 429, "Too many requests for now"),
            Kind::Internal => ("internal", 500, "Something went wrong here"),
            Kind::NotImplemented => ("not-implemented", 501, "This version does not answer this"),
            Kind::Unavailable => ("unavailable", 503, "The database cannot be asked now"),
        }
    }
}

/// What is limited at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Streams of live queries.
    Followers,
    /// Different live queries.
    LiveQueries,
    /// Reads that wait for the database.
    Reads,
    /// Writes under way.
    Writes,
    /// Stored queries of a database.
    StoredQueries,
}

impl Limit {
    /// The setting that says how many: the label in logs and metrics.
    #[must_use]
    pub fn setting(self) -> &'static str {
        match self {
            Limit::Followers => "live.followers_max",
            Limit::LiveQueries => "live.queries_max",
            Limit::Reads => "limits.reads_in_flight_max",
            Limit::Writes => "limits.writes_in_flight_max",
            Limit::StoredQueries => "limits.stored_queries_max",
        }
    }
}

/// The longest detail that is sent, in bytes; longer ones are cut at a character.
const DETAIL_BYTES_MAX: usize = 400;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct Problem {
    /// What kind.
    pub kind: Kind,
    /// For the person who sent the request.
    pub detail: Cow<'static, str>,
    /// JSON Pointer (RFC 6901) into the offending part of the input.
    pub pointer: Option<Box<str>>,
    /// The query parameter at fault.
    pub parameter: Option<Box<str>>,
    /// The hash that the query has.
    pub hash: Option<Box<str>>,
    /// `Allow`, for 405.
    pub allow: Option<&'static str>,
    /// The limit that is reached, where there is too much just now.
    pub limit: Option<Limit>,
    /// `Retry-After` in seconds, for 429 and 503.
    pub retry_after_s: Option<u16>,
    /// When it was so: a lower bound, for a record that is not there.
    /// Boxed, and rare: a problem is what most functions may return.
    pub position: Option<Box<Position>>,
    /// For the log only.
    pub internal: Option<Box<str>>,
}

/// How long a client should wait before it asks an unavailable database again, in seconds.
const RETRY_AFTER_S: u16 = 1;

impl Problem {
    /// A problem with a detail.
    #[must_use]
    pub fn new(kind: Kind, detail: impl Into<Cow<'static, str>>) -> Problem {
        let retries = matches!(kind, Kind::TooManyRequests | Kind::Unavailable);
        Problem {
            kind,
            detail: detail.into(),
            pointer: None,
            parameter: None,
            hash: None,
            allow: None,
            limit: None,
            retry_after_s: retries.then_some(RETRY_AFTER_S),
            position: None,
            internal: None,
        }
    }

    /// 400.
    #[must_use]
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem::new(Kind::Malformed, detail)
    }

    /// 404 for a path that names nothing.
    #[must_use]
    pub fn no_such_path() -> Problem {
        Problem::new(Kind::NotFound, "no resource has this path")
    }

    /// 405 with what is allowed.
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Problem {
        Problem {
            allow: Some(allow),
            ..Problem::new(Kind::MethodNotAllowed, format!("allowed here: {allow}"))
        }
    }

    /// 501 for a part of the protocol that is not answered.
    #[must_use]
    pub fn not_implemented(what: &'static str) -> Problem {
        Problem::new(
            Kind::NotImplemented,
            format!("{what} is not answered by this version"),
        )
    }

    /// With a pointer into the input.
    #[must_use]
    pub fn at(mut self, pointer: impl Into<Box<str>>) -> Problem {
        self.pointer = Some(pointer.into());
        self
    }

    /// With the parameter at fault.
    #[must_use]
    pub fn of_parameter(mut self, parameter: impl Into<Box<str>>) -> Problem {
        self.parameter = Some(parameter.into());
        self
    }

    /// With the hash that the query has.
    #[must_use]
    pub fn with_hash(mut self, hash: impl Into<Box<str>>) -> Problem {
        self.hash = Some(hash.into());
        self
    }

    /// With the limit that is reached: no failure, but counted.
    #[must_use]
    pub fn of_limit(mut self, limit: Limit) -> Problem {
        self.limit = Some(limit);
        self
    }

    /// With the position at which it was so.
    #[must_use]
    pub fn read_at(mut self, position: Position) -> Problem {
        self.position = Some(Box::new(position));
        self
    }

    /// With a message for the log.
    #[must_use]
    pub fn because(mut self, internal: impl Into<Box<str>>) -> Problem {
        self.internal = Some(internal.into());
        self
    }

    /// The problem document.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let mut document = serde_json::Map::new();
        document.insert(
            "type".into(),
            format!("urn:freshet:problem:{}", self.kind.word()).into(),
        );
        document.insert("title".into(), self.kind.title().into());
        document.insert("status".into(), self.kind.status().into());
        document.insert("detail".into(), cut(&self.detail).into());
        if let Some(pointer) = &self.pointer {
            document.insert("pointer".into(), cut(pointer).into());
        }
        if let Some(parameter) = &self.parameter {
            document.insert("parameter".into(), cut(parameter).into());
        }
        if let Some(hash) = &self.hash {
            document.insert("hash".into(), cut(hash).into());
        }
        serde_json::Value::Object(document).to_string().into_bytes()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let internal = error.to_string();
        let problem = match error {
            StoreError::Unavailable(_) => {
                Problem::new(Kind::Unavailable, "the database cannot be reached")
            }
            StoreError::Timeout(_) => {
                Problem::new(Kind::Unavailable, "the database did not answer in time")
            }
            StoreError::DuplicateId => {
                Problem::new(Kind::DuplicateId, "a record with this _id exists")
            }
            StoreError::DuplicateValue => Problem::new(
                Kind::DuplicateId,
                "a record with this value of a unique field exists",
            ),
            StoreError::TooLarge => Problem::new(
                Kind::TooLarge,
                "the record is larger than the database takes",
            ),
            StoreError::Rejected => Problem::new(
                Kind::Rejected,
                "the collection's validation refused the record",
            ),
            StoreError::Conflict => {
                Problem::new(Kind::Conflict, "other writers kept changing the record")
            }
            StoreError::Unsupported(what) => Problem::malformed(what),
            StoreError::BadRequest(what) => Problem::malformed(what),
            StoreError::Forbidden(_) | StoreError::Internal(_) => {
                Problem::new(Kind::Internal, "the database failed")
            }
        };
        problem.because(internal)
    }
}

fn cut(text: &str) -> String {
    if text.len() <= DETAIL_BYTES_MAX {
        return text.to_owned();
    }
    let mut end = DETAIL_BYTES_MAX;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_detail_is_cut_at_a_character() {
        let problem = Problem::malformed("ü".repeat(1000)).at("/filter/a");
        let body = String::from_utf8(problem.body()).expect("UTF-8");
        assert!(body.len() < 700, "{}", body.len());
        assert!(body.contains("\"pointer\":\"/filter/a\""), "{body}");
        assert!(body.contains("\"status\":400"));
    }
}
