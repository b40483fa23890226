//! The process's clock: the only place in the gateway that reads the system's.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use freshet_core::time::{Clock, Moment};

/// Monotonic time since the process started, and wall time.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose moments count from now.
    #[must_use]
    #[allow(clippy::disallowed_methods)]
    pub fn start() -> SystemClock {
        SystemClock {
            start: Instant::now(),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment(u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    #[allow(clippy::disallowed_methods)]
    fn wall_ms(&self) -> u64 {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}
