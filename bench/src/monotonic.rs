//! The clock that the suites hand to what they measure.

use std::time::Instant;

use freshet_core::time::{Clock, Moment};

/// The process's monotonic clock.
pub(crate) struct Monotonic(Instant);

impl Monotonic {
    #[allow(clippy::disallowed_methods)] // the shell's one look at the clock
    pub(crate) fn start() -> Monotonic {
        Monotonic(Instant::now())
    }

    /// Since the start.
    pub(crate) fn us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

impl Clock for Monotonic {
    fn now(&self) -> Moment {
        Moment(self.us() / 1_000)
    }

    fn wall_ms(&self) -> u64 {
        0
    }
}
