//! How long to wait after a failure: doubling, capped, with jitter from a seeded generator.

/// Delays after failures.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    base_ms: u64,
    delay_ms_max: u64,
    state: u64,
}

impl Backoff {
    pub(crate) fn new(base_ms: u64, delay_ms_max: u64, seed: u64) -> Backoff {
        Backoff {
            base_ms,
            delay_ms_max,
            state: seed,
        }
    }

    /// The delay after the `attempt`th failure in a row (from 1): half to all of base · 2^(attempt − 1).
    pub(crate) fn delay_ms(&mut self, attempt: u32) -> u64 {
        let doubled = self
            .base_ms
            .saturating_mul(1 << attempt.saturating_sub(1).min(20));
        let whole = doubled.min(self.delay_ms_max).max(1);
        whole - self.random() % (whole / 2 + 1)
    }

    /// SplitMix64 (Steele, Lea, Flood 2014).
    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap_and_spread() {
        let mut backoff = Backoff::new(100, 5_000, 1);
        for (attempt, whole) in [(1, 100), (2, 200), (6, 3_200), (7, 5_000), (90, 5_000)] {
            let delays: Vec<u64> = (0..50).map(|_| backoff.delay_ms(attempt)).collect();
            assert!(delays.iter().all(|d| (whole / 2..=whole).contains(d)));
            assert!(delays.iter().any(|d| *d != delays[0]), "jitter");
        }
    }
}
