//! Δ_inv: how long after a change the last shared cache lets go of its copy (rule C9). Measured, and never
//! below what the repeat takes by rule.

use freshet_core::sketch::wire::INVALIDATION_UNBOUNDED_MS;
use freshet_core::time::Moment;

/// The greatest delays of this and the last half minute.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delay {
    floor_ms: u64,
    unbounded_after_ms: u64,
    since: Moment,
    current_ms: u64,
    last_ms: u64,
}

const HALF_WINDOW_MS: u64 = 30_000;

impl Delay {
    pub(super) fn new(floor_ms: u64, unbounded_after_ms: u64, now: Moment) -> Delay {
        Delay {
            floor_ms,
            unbounded_after_ms,
            since: now,
            current_ms: 0,
            last_ms: 0,
        }
    }

    /// A purge was confirmed so long after it was ordered.
    pub(super) fn confirmed(&mut self, took_ms: u64, now: Moment) {
        self.turn(now);
        self.current_ms = self.current_ms.max(took_ms);
    }

    /// The bound now, with the oldest unconfirmed purge `oldest_ms` old.
    pub(super) fn bound_ms(&mut self, oldest_ms: Option<u64>, now: Moment) -> u32 {
        self.turn(now);
        let oldest = oldest_ms.unwrap_or(0);
        if oldest > self.unbounded_after_ms {
            return INVALIDATION_UNBOUNDED_MS;
        }
        let seen = self.current_ms.max(self.last_ms).max(oldest);
        u32::try_from(seen.max(self.floor_ms)).unwrap_or(INVALIDATION_UNBOUNDED_MS)
    }

    fn turn(&mut self, now: Moment) {
        let halves = now.since(self.since) / HALF_WINDOW_MS;
        if halves > 0 {
            self.last_ms = if halves == 1 { self.current_ms } else { 0 };
            self.current_ms = 0;
            self.since = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c9_the_bound_is_measured_and_unbounded_when_a_purge_hangs() {
        let mut delay = Delay::new(2_250, 10_000, Moment(0));
        assert_eq!(delay.bound_ms(None, Moment(0)), 2_250);
        delay.confirmed(2_900, Moment(1_000));
        assert_eq!(delay.bound_ms(None, Moment(31_500)), 2_900);
        assert_eq!(delay.bound_ms(Some(4_000), Moment(31_500)), 4_000);
        assert_eq!(delay.bound_ms(Some(10_001), Moment(31_500)), u32::MAX);
        assert_eq!(delay.bound_ms(None, Moment(70_000)), 2_250);
    }
}
