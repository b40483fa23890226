//! Positions, moments and lifetimes, and the one clock that the shell hands down.
//!
//! A [`Position`] orders writes (the database's commit order); a [`Moment`] orders what happens in this
//! process (a monotonic clock). They are never compared with one another, and no moment of one machine
//! with a moment of another (rule C6).

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The commit order of the database: MongoDB's cluster time (seconds in the upper 32 bits, increment in
/// the lower), or the sequence number of the embedded store. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl Position {
    /// Before every write.
    pub const ZERO: Position = Position(0);

    /// The position of a MongoDB timestamp.
    #[must_use]
    pub fn from_timestamp(seconds: u32, increment: u32) -> Position {
        Position(u64::from(seconds) << 32 | u64::from(increment))
    }

    /// Seconds and increment, as MongoDB's timestamp has them.
    #[must_use]
    pub fn to_timestamp(self) -> (u32, u32) {
        #[allow(clippy::cast_possible_truncation)]
        ((self.0 >> 32) as u32, self.0 as u32)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A moment on this process's monotonic clock, in milliseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Milliseconds from `earlier` to `self`; 0 when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The moment `ms` milliseconds later.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Moment {
        Moment(self.0.saturating_add(ms))
    }
}

/// A lifetime given to a cache, in whole seconds, as `max-age` and `s-maxage` have it (RFC 9111 §1.2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(pub u32);

impl Ttl {
    /// Not cacheable.
    pub const ZERO: Ttl = Ttl(0);

    /// The lifetime in milliseconds.
    #[must_use]
    pub fn as_ms(self) -> u64 {
        u64::from(self.0) * 1000
    }
}

/// Where time comes from. The shell passes one in; nothing below it reads a clock of its own.
pub trait Clock: Send + Sync {
    /// Now, on the monotonic clock.
    fn now(&self) -> Moment;
    /// Wall-clock milliseconds since the Unix epoch: for logs, dates and data, never for freshness.
    fn wall_ms(&self) -> u64;
}

/// A clock that moves only when it is told to.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// A clock at `start_ms`.
    #[must_use]
    pub fn at(start_ms: u64) -> ManualClock {
        ManualClock(AtomicU64::new(start_ms))
    }

    /// Moves the clock forward.
    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Moment {
        Moment(self.0.load(Ordering::SeqCst))
    }

    fn wall_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}
