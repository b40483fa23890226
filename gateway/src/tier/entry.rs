//! One finished answer: its bytes, its prepared headers, and how much of its lifetime is left.
//!
//! Lifetimes count from the moment of issue, so a copy handed out later carries less (RFC 9111 §4.2.3; caches that
//! reset `Age` cannot add to it). The caching fields change once a second; they are kept with that second.

use bytes::Bytes;
use freshet_core::freshness::{ETag, Edge, Lifetimes, SurrogateKey};
use freshet_core::time::{Moment, Position, Ttl};
use http::HeaderMap;
use parking_lot::Mutex;

use super::Generation;
use crate::respond::{Fields, caching, not_shared};

/// What is sent, whoever asks: shared by the requests that waited for the same read.
#[derive(Clone, Debug)]
pub struct Answer {
    /// All headers but the caching ones, `Cache-Status` and `Content-Location`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The tag in `headers`.
    pub etag: ETag,
    /// The read's position.
    pub position: Position,
}

/// A cached answer.
#[derive(Debug)]
pub struct Entry {
    /// What is sent.
    pub answer: Answer,
    /// The state of the key's invalidation when the read began.
    pub generation: Generation,
    /// Whether it is the answer to its key, however that was asked for; false: of a stored query that has no other URL
    /// than its hash.
    pub by_url: bool,
    keys: [SurrogateKey; 3],
    lifetimes: Lifetimes,
    issued: Moment,
    stamped: Mutex<(Lifetimes, Fields)>,
}

impl Entry {
    /// An entry whose lifetimes start at `issued`.
    #[must_use]
    pub fn new(
        answer: Answer,
        keys: [SurrogateKey; 3],
        lifetimes: Lifetimes,
        issued: Moment,
        generation: Generation,
    ) -> Entry {
        Entry {
            answer,
            generation,
            by_url: true,
            keys,
            lifetimes,
            issued,
            stamped: Mutex::new((Lifetimes::ZERO, not_shared())),
        }
    }

    /// The same, for those alone who ask for a stored query by its hash.
    #[must_use]
    pub fn by_hash_only(self) -> Entry {
        Entry {
            by_url: false,
            ..self
        }
    }

    /// Whether something is left of what it was given. Where clients or shared caches were given nothing, the others
    /// decide.
    #[must_use]
    pub fn is_fresh(&self, now: Moment) -> bool {
        let left = self.lifetimes.remaining(self.issued, now);
        let ended = |given: Ttl, left: Ttl| given > Ttl::ZERO && left == Ttl::ZERO;
        !left.is_zero() && !ended(self.lifetimes.m, left.m) && !ended(self.lifetimes.s, left.s)
    }

    /// The caching fields with what is left of the lifetimes now; `shares`: whether shared caches are given theirs.
    #[must_use]
    pub fn caching(&self, now: Moment, edges: &[Edge], shares: bool) -> Fields {
        let mut left = self.lifetimes.remaining(self.issued, now);
        if !shares {
            left.s = Ttl::ZERO;
        }
        let mut stamped = self.stamped.lock();
        if stamped.0 != left {
            *stamped = (left, caching(left, &self.keys, edges));
        }
        stamped.1.clone()
    }

    /// When its lifetimes began.
    #[must_use]
    pub fn issued(&self) -> Moment {
        self.issued
    }

    /// How long ago it was issued, in milliseconds.
    #[must_use]
    pub fn age_ms(&self, now: Moment) -> u64 {
        now.since(self.issued)
    }
}
