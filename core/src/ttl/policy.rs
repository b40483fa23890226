//! From an expected time to the lifetimes that are given out: floors and caps.

use crate::freshness::Lifetimes;
use crate::time::Ttl;

/// How a collection's answers live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The greatest M.
    pub max_age_cap: Ttl,
    /// The greatest S; zero where no shared cache shall keep anything.
    pub shared_max_age_cap: Ttl,
    /// An answer that would live shorter is not cached.
    pub floor: Ttl,
    /// The accepted probability that a write comes before the end of the lifetime.
    pub quantile: f64,
    /// The weight of the estimate so far against an observed lifetime.
    pub alpha: f64,
}

impl Default for Policy {
    /// The paper states neither p, α nor caps. 0.8 favours reads: a wrong guess costs one entry in the sketch
    /// and one purge. The caps bound what a browser holds after a lost sketch (rule C8).
    fn default() -> Policy {
        Policy {
            max_age_cap: Ttl(600),
            shared_max_age_cap: Ttl(3_600),
            floor: Ttl(1),
            quantile: 0.8,
            alpha: 0.7,
        }
    }
}

impl Policy {
    /// The lifetimes of an answer that is expected to hold for `expected_ms` (infinite: no write was ever
    /// seen). Zero when that is below the floor.
    #[must_use]
    pub fn lifetimes(&self, expected_ms: f64) -> Lifetimes {
        let capped = |cap: Ttl| {
            let seconds = (expected_ms / 1000.0).clamp(0.0, f64::from(cap.0));
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0 ..= a u32
            Ttl(seconds as u32)
        };
        let given = Lifetimes {
            m: capped(self.max_age_cap),
            s: capped(self.shared_max_age_cap),
        };
        if expected_ms < self.floor.as_ms() as f64 || expected_ms.is_nan() {
            return Lifetimes::ZERO;
        }
        given
    }

    /// The greatest lifetimes this policy gives.
    #[must_use]
    pub fn caps(&self) -> Lifetimes {
        Lifetimes {
            m: self.max_age_cap,
            s: self.shared_max_age_cap,
        }
    }
}

/// The time within which the first write comes with probability `p`, at `rate_per_ms`: −ln(1 − p) / λ
/// (Quaestor §5.1, eq. 1). Infinite at rate 0.
#[must_use]
pub fn quantile_ms(p: f64, rate_per_ms: f64) -> f64 {
    if rate_per_ms <= 0.0 {
        return f64::INFINITY;
    }
    -(1.0 - p.clamp(0.0, 0.999_999)).ln() / rate_per_ms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_papers_equation() {
        // λ = 1/s, p = 0.5: ln 2 seconds.
        assert!((quantile_ms(0.5, 0.001) - 693.147).abs() < 0.001);
        assert!((quantile_ms(0.8, 0.001) - 1_609.438).abs() < 0.001);
        assert_eq!(quantile_ms(0.8, 0.0), f64::INFINITY);
    }

    #[test]
    fn floor_and_caps_hold() {
        let policy = Policy {
            max_age_cap: Ttl(10),
            shared_max_age_cap: Ttl(100),
            floor: Ttl(2),
            ..Policy::default()
        };
        let of = |ms| {
            let given = policy.lifetimes(ms);
            (given.m.0, given.s.0)
        };
        assert_eq!(of(1_999.0), (0, 0));
        assert_eq!(of(2_999.0), (2, 2));
        assert_eq!(of(50_000.0), (10, 50));
        assert_eq!(of(f64::INFINITY), (10, 100));
        assert_eq!(of(f64::NAN), (0, 0));
    }
}
