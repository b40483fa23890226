//! A counting Bloom filter and the flat bits it implies, kept in step at every insertion and removal.
//! A counter that reaches its maximum sticks: what was not counted must not be subtracted, else a key
//! that is still in would vanish.

use super::hash::Halves;

/// Hash functions (k = 4 is the optimum for 5.84 bits per key).
pub const HASHES: u8 = 4;
/// The least and default m: 14,600 bytes, ten TCP segments of 1,460 bytes, one initial window (RFC 6928).
pub const BITS_MIN: u32 = 116_800;
/// The greatest m: beyond it the false positives rise, which costs revalidations and nothing else.
pub const BITS_MAX: u32 = BITS_MIN * 16;

/// The keys that m bits hold at 6 % false positives: 20,000 in 116,800 bits with k = 4 (Quaestor §4).
#[must_use]
pub fn keys_at_target(m: u32) -> usize {
    m as usize * 20_000 / BITS_MIN as usize
}

/// The m for this many keys: the least doubling of [`BITS_MIN`] that keeps the target. Doublings, so that
/// filters of different size unite exactly: `(x mod 2m) mod m = x mod m`.
#[must_use]
pub fn bits_for(keys: usize) -> u32 {
    let mut m = BITS_MIN;
    while keys > keys_at_target(m) && m < BITS_MAX {
        m *= 2;
    }
    m
}

/// Adds `bits` of a filter with `m` bits to a filter with `into_m`, a multiple of it: each bit stands for
/// all positions that are equal modulo m.
pub fn unite(into: &mut [u8], into_m: u32, bits: &[u8], m: u32) {
    for copy in 0..into_m / m.max(1) {
        // m is a multiple of 8, so copies begin at a byte.
        let at = copy as usize * (m as usize / 8);
        for (to, from) in into[at..].iter_mut().zip(bits) {
            *to |= from;
        }
    }
}

/// The filter.
#[derive(Clone, Debug)]
pub struct CountingFilter {
    m: u32,
    counts: Vec<u8>,
    bits: Vec<u8>,
    ones: u32,
}

impl CountingFilter {
    /// An empty filter of `m` bits, a multiple of 8.
    #[must_use]
    pub fn new(m: u32) -> CountingFilter {
        CountingFilter {
            m,
            counts: vec![0; m as usize],
            bits: vec![0; m as usize / 8],
            ones: 0,
        }
    }

    /// Counts a key in.
    pub fn insert(&mut self, key: Halves) {
        for at in key.positions(self.m, HASHES) {
            let count = &mut self.counts[at as usize];
            if *count == 0 {
                self.bits[at as usize / 8] |= 1 << (at % 8);
                self.ones += 1;
            }
            *count = count.saturating_add(1);
        }
    }

    /// Counts a key out that was counted in.
    pub fn remove(&mut self, key: Halves) {
        for at in key.positions(self.m, HASHES) {
            let count = &mut self.counts[at as usize];
            if matches!(*count, 0 | u8::MAX) {
                continue;
            }
            *count -= 1;
            if *count == 0 {
                self.bits[at as usize / 8] &= !(1 << (at % 8));
                self.ones -= 1;
            }
        }
    }

    /// Bits in the filter.
    #[must_use]
    pub fn m(&self) -> u32 {
        self.m
    }

    /// The flat bits in wire order.
    #[must_use]
    pub fn bits(&self) -> &[u8] {
        &self.bits
    }

    /// The share of bits that are set.
    #[must_use]
    pub fn fill_ratio(&self) -> f64 {
        f64::from(self.ones) / f64::from(self.m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: [u8; 16] = [7; 16];

    fn has(filter: &CountingFilter, key: Halves) -> bool {
        key.positions(filter.m(), HASHES)
            .all(|at| filter.bits()[at as usize / 8] >> (at % 8) & 1 == 1)
    }

    #[test]
    fn d10_saturated_counters_stick() {
        let mut filter = CountingFilter::new(BITS_MIN);
        let key = Halves::of("hot", &SALT);
        for _ in 0..300 {
            filter.insert(key);
        }
        for _ in 0..299 {
            filter.remove(key);
        }
        assert!(has(&filter, key));
    }

    #[test]
    fn removing_everything_leaves_nothing() {
        let mut filter = CountingFilter::new(BITS_MIN);
        let keys: Vec<Halves> = (0..5_000)
            .map(|i| Halves::of(&format!("/v1/d/c/{i}"), &SALT))
            .collect();
        keys.iter().for_each(|key| filter.insert(*key));
        assert!(keys.iter().all(|key| has(&filter, *key)));
        keys.iter().for_each(|key| filter.remove(*key));
        assert_eq!(filter.fill_ratio(), 0.0);
        assert!(filter.bits().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn twenty_thousand_keys_give_six_percent_false_positives() {
        let mut filter = CountingFilter::new(bits_for(20_000));
        assert_eq!(filter.m(), BITS_MIN);
        for i in 0..20_000 {
            filter.insert(Halves::of(&format!("in{i}"), &SALT));
        }
        let wrong = (0..20_000)
            .filter(|i| has(&filter, Halves::of(&format!("out{i}"), &SALT)))
            .count();
        assert!((1_000..1_420).contains(&wrong), "{wrong} of 20,000");
        assert_eq!(bits_for(20_001), 2 * BITS_MIN);
        assert_eq!(bits_for(usize::MAX / 30_000), BITS_MAX);
    }

    #[test]
    fn filters_of_two_sizes_unite_without_loss() {
        let mut small = CountingFilter::new(BITS_MIN);
        let mut large = CountingFilter::new(BITS_MIN * 4);
        let key = |i: u32| Halves::of(&format!("k{i}"), &SALT);
        (0..500).for_each(|i| small.insert(key(i)));
        (500..1_000).for_each(|i| large.insert(key(i)));
        let mut union = vec![0; large.bits().len()];
        unite(&mut union, large.m(), small.bits(), small.m());
        unite(&mut union, large.m(), large.bits(), large.m());
        for i in 0..1_000 {
            assert!(
                key(i)
                    .positions(large.m(), HASHES)
                    .all(|at| union[at as usize / 8] >> (at % 8) & 1 == 1)
            );
        }
    }
}
