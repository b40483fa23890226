//! What keeping a query active is worth, where not all can be: reads per unit of cost, both fading with time; and how
//! often those were asked for that found no room.

use freshet_core::key::Key;
use freshet_core::time::Moment;

/// After it half counts.
const HALF_LIFE_S: f32 = 600.0;
/// Counters of one row; a power of two.
const COUNTERS: usize = 16_384;
const ROWS: usize = 4;
/// After so many requests every counter is halved.
const AGE_EVERY: u32 = 65_536;

/// Reads and changes of one query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Worth {
    reads: f32,
    changes: f32,
    /// Seconds.
    at: u32,
}

impl Worth {
    /// The database was asked.
    pub(crate) fn read(&mut self, now: Moment) {
        self.fade(now);
        self.reads += 1.0;
    }

    /// Copies of it had to be purged.
    pub(crate) fn changed(&mut self, now: Moment) {
        self.fade(now);
        self.changes += 1.0;
    }

    /// Reads per unit of cost: being matched counts as one, every purge as another.
    pub(crate) fn score(mut self, now: Moment) -> f32 {
        self.fade(now);
        self.reads / (1.0 + self.changes)
    }

    #[allow(clippy::cast_precision_loss)] // seconds of hours
    fn fade(&mut self, now: Moment) {
        let now = seconds(now);
        if now == self.at {
            return;
        }
        let factor = (-(now.saturating_sub(self.at) as f32) / HALF_LIFE_S).exp2();
        self.reads *= factor;
        self.changes *= factor;
        self.at = now;
    }
}

/// Whole seconds: a moment in four bytes.
pub(crate) fn seconds(at: Moment) -> u32 {
    u32::try_from(at.0 / 1_000).unwrap_or(u32::MAX)
}

/// How often keys were asked for lately, about: a count-min sketch (Cormode and Muthukrishnan, 2005) that forgets, as
/// TinyLFU has it. Never too low.
#[derive(Debug)]
pub(super) struct Demand {
    rows: Box<[[u8; COUNTERS]; ROWS]>,
    seen: u32,
}

impl Default for Demand {
    fn default() -> Demand {
        Demand {
            rows: Box::new([[0; COUNTERS]; ROWS]),
            seen: 0,
        }
    }
}

impl Demand {
    /// Asked for once more; how often that makes it.
    pub(super) fn ask(&mut self, key: &Key) -> u8 {
        self.seen += 1;
        if self.seen == AGE_EVERY {
            self.seen = 0;
            let counters = self.rows.iter_mut().flatten();
            counters.for_each(|counter| *counter /= 2);
        }
        let hash = u128::from_le_bytes(key.hash().0);
        let mut least = u8::MAX;
        for (row, counters) in self.rows.iter_mut().enumerate() {
            #[allow(clippy::cast_possible_truncation)] // its low bits are meant
            let at = (hash >> (32 * row)) as usize % COUNTERS;
            counters[at] = counters[at].saturating_add(1);
            least = least.min(counters[at]);
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_much_and_changes_little_is_worth_most() {
        let now = Moment(0);
        let query = |reads: u32, changes: u32| {
            let mut worth = Worth::default();
            (0..reads).for_each(|_| worth.read(now));
            (0..changes).for_each(|_| worth.changed(now));
            worth.score(now)
        };
        assert!(query(10, 0) > query(10, 4));
        assert!(query(10, 4) > query(1, 0));
        let mut faded = Worth::default();
        (0..8).for_each(|_| faded.read(now));
        assert!((faded.score(Moment(1_200_000)) - 2.0).abs() < 1e-3);
    }

    #[test]
    fn demand_is_counted_and_forgotten() {
        let mut demand = Demand::default();
        let hot = Key::from("/v1/d/c?filter=hot");
        for _ in 0..9 {
            demand.ask(&hot);
        }
        assert_eq!(demand.ask(&hot), 10);
        for other in 0..AGE_EVERY {
            demand.ask(&Key::from(format!("/v1/d/c?filter={other}")));
        }
        let left = demand.ask(&hot);
        assert!((6..100).contains(&left), "{left}");
    }
}
