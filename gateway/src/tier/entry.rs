//! One finished answer: its bytes, its prepared headers, and how much of its lifetime is left.
//!
//! Lifetimes count from the moment of issue, so a copy handed out later carries less (RFC 9111 §4.2.3; caches that
//! reset `Age` cannot add to it). The `Cache-Control` text changes once a second; it is kept with that second.

use std::sync::Arc;

use bytes::Bytes;
use freshet_core::freshness::Lifetimes;
use freshet_core::time::{Moment, Position, Ttl};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;

use super::Generation;

/// What is sent, whoever asks: shared by the requests that waited for the same read.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status 200, or 404 for a record that does not exist.
    pub status: http::StatusCode,
    /// All headers but `Cache-Control`, `Cache-Status` and `Content-Location`.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// The tag in `headers`.
    pub etag: HeaderValue,
    /// The read's position.
    pub position: Position,
}

/// A cached answer.
#[derive(Debug)]
pub struct Entry {
    /// What is sent.
    pub answer: Answer,
    /// Lifetimes at the moment of issue.
    pub lifetimes: Lifetimes,
    /// When it was issued: the start of its lifetime.
    pub issued: Moment,
    /// The key whose invalidation is this entry's.
    pub base: Arc<str>,
    /// The state of that key's invalidation when the read began.
    pub generation: Generation,
    stamped: Mutex<(u32, HeaderValue)>,
}

impl Entry {
    /// An entry issued at `issued`.
    #[must_use]
    pub fn new(
        answer: Answer,
        lifetimes: Lifetimes,
        issued: Moment,
        base: Arc<str>,
        generation: Generation,
    ) -> Entry {
        let stamped = Mutex::new((0, crate::respond::cache_control(lifetimes)));
        Entry {
            answer,
            lifetimes,
            issued,
            base,
            generation,
            stamped,
        }
    }

    /// Whether at least a second is left of what it was given.
    #[must_use]
    pub fn is_fresh(&self, now: Moment) -> bool {
        let elapsed = self.elapsed_s(now);
        let client = self.lifetimes.m == Ttl::ZERO || elapsed < self.lifetimes.m.0;
        client && elapsed < self.lifetimes.s.0
    }

    /// `Cache-Control` with what is left of the lifetimes now.
    #[must_use]
    pub fn cache_control(&self, now: Moment) -> HeaderValue {
        let elapsed = self.elapsed_s(now);
        let mut stamped = self.stamped.lock();
        if stamped.0 != elapsed {
            *stamped = (elapsed, crate::respond::cache_control(self.left(elapsed)));
        }
        stamped.1.clone()
    }

    fn left(&self, elapsed_s: u32) -> Lifetimes {
        Lifetimes {
            m: Ttl(self.lifetimes.m.0.saturating_sub(elapsed_s)),
            s: Ttl(self.lifetimes.s.0.saturating_sub(elapsed_s)),
        }
    }

    /// Rounded up: a lifetime is never handed out longer than it is.
    fn elapsed_s(&self, now: Moment) -> u32 {
        u32::try_from(now.since(self.issued).div_ceil(1000)).unwrap_or(u32::MAX)
    }
}
