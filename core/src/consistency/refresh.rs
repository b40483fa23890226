//! When a new sketch is asked for: early, so that reads are not all promoted at once (C10), one request at a time, and
//! less and less often while that fails. Randomness is an argument.

use super::decide::Policy;
use super::held::Held;
use super::session::Session;
use crate::time::Moment;

/// From one request to the next, at least.
const INTERVAL_MS_MIN: u64 = 500;
/// Between attempts while they fail, at most.
const BACKOFF_MS_MAX: u64 = 30_000;
/// The part of Δ′ after which a new one is fetched, in tenths.
const PART_TENTHS: u64 = 8;

/// Whether it is time for a new sketch.
#[must_use]
pub fn refresh_due(session: &Session, policy: &Policy, now: Moment) -> bool {
    if policy.delta_ms == 0 {
        return false; // No sketch is ever used.
    }
    let Some(held) = session.held() else {
        return true;
    };
    let ahead = policy.causal && session.seen() > Some(held.watermark());
    ahead || is_aging(held, policy, now)
}

fn is_aging(held: &Held, policy: &Policy, now: Moment) -> bool {
    match held.edge_bound_ms(policy.delta_ms) {
        Some(bound) => held.age_ms(now).saturating_mul(10) >= bound.saturating_mul(PART_TENTHS),
        None => true,
    }
}

/// The requests for a sketch: whether one is on its way, and when the next may be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Refresh {
    on_its_way: bool,
    not_before: Moment,
    failures: u32,
}

impl Refresh {
    /// Whether to send a request now. If so, one is on its way from here on.
    #[must_use]
    pub fn begin(&mut self, session: &Session, policy: &Policy, now: Moment) -> bool {
        let begins =
            !self.on_its_way && now >= self.not_before && refresh_due(session, policy, now);
        self.on_its_way |= begins;
        begins
    }

    /// The request that was sent at `sent` brought a sketch.
    pub fn succeeded(&mut self, sent: Moment) {
        *self = Refresh {
            on_its_way: false,
            not_before: sent.after_ms(INTERVAL_MS_MIN),
            failures: 0,
        };
    }

    /// The request brought none. `random`, of 0 … 1,000, spreads those who come back over half the time.
    pub fn failed(&mut self, now: Moment, random: u64) {
        let backoff = INTERVAL_MS_MIN
            .saturating_mul(1 << self.failures.min(16))
            .min(BACKOFF_MS_MAX);
        let wait = backoff / 2 + backoff * random.min(1_000) / 2_000;
        *self = Refresh {
            on_its_way: false,
            not_before: now.after_ms(wait),
            failures: self.failures + 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::Stated;
    use super::*;
    use crate::sketch::wire::INVALIDATION_UNBOUNDED_MS;
    use crate::time::Position;

    const POLICY: Policy = Policy {
        delta_ms: 10_000,
        causal: false,
    };

    fn holding(age_ms: u32, invalidation_ms: u32) -> Session {
        let stated = Stated {
            age_ms,
            invalidation_ms,
            watermark: 5,
            ..Stated::default()
        };
        let mut session = Session::default();
        session.sketch_arrived(stated.sent(1_000));
        session
    }

    #[test]
    fn c10_it_is_due_at_eight_tenths_of_delta_prime() {
        let due = |age, edge, now| refresh_due(&holding(age, edge), &POLICY, Moment(now));
        assert!(!due(0, 0, 8_999) && due(0, 0, 9_000));
        assert!(due(3_000, 0, 6_000));
        assert!(!due(0, 5_000, 4_999) && due(0, 5_000, 5_000));
        assert!(due(0, INVALIDATION_UNBOUNDED_MS, 1_000));
        assert!(refresh_due(&Session::default(), &POLICY, Moment(0)));
    }

    #[test]
    fn a_session_that_uses_none_asks_for_none_and_a_causal_one_asks_when_it_saw_more() {
        let none = Policy {
            delta_ms: 0,
            ..POLICY
        };
        assert!(!refresh_due(&Session::default(), &none, Moment(0)));
        let causal = Policy {
            causal: true,
            ..POLICY
        };
        let mut ahead = holding(0, 0);
        ahead.answer_shown("k", Some(Position(6)), None);
        assert!(refresh_due(&ahead, &causal, Moment(1_000)));
        assert!(!refresh_due(&ahead, &POLICY, Moment(1_000)));
    }

    #[test]
    fn i6_one_request_at_a_time_and_fewer_while_they_fail() {
        let session = Session::default();
        let mut refresh = Refresh::default();
        assert!(refresh.begin(&session, &POLICY, Moment(0)));
        assert!(!refresh.begin(&session, &POLICY, Moment(9_000)));
        refresh.failed(Moment(9_000), 1_000);
        assert!(!refresh.begin(&session, &POLICY, Moment(9_499)));
        assert!(refresh.begin(&session, &POLICY, Moment(9_500)));
        refresh.failed(Moment(9_500), 0);
        assert!(!refresh.begin(&session, &POLICY, Moment(9_999)));
        assert!(refresh.begin(&session, &POLICY, Moment(10_000)));
        for _ in 0..40 {
            refresh.failed(Moment(10_000), 1_000);
        }
        assert!(refresh.begin(&session, &POLICY, Moment(40_000)));
        refresh.succeeded(Moment(40_000));
        assert!(!refresh.begin(&session, &POLICY, Moment(40_499)));
        assert!(refresh.begin(&session, &POLICY, Moment(40_500)));
    }
}
