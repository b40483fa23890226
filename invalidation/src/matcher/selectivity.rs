//! What share of documents satisfies an access predicate: measured on the values of recent writes, or assumed as long
//! as there are too few.

use freshet_core::value::order_key::OrderKey;
use freshet_core::value::path::Leaf;

use super::index::At;
use super::paths::PathId;

/// Values kept per path.
const SAMPLES: usize = 64;
/// Fewer say nothing.
const SAMPLES_MIN: usize = 16;
/// Paths that values are kept of.
const PATHS_MAX: usize = 1_024;

/// The ranks of null, numbers, texts, documents, arrays, ids, booleans and dates among types.
const COMMON_RANKS: [u8; 8] = [5, 10, 15, 20, 25, 35, 40, 45];

/// A value: its digest and its key; nothing at all.
type Sample = Option<(u64, OrderKey)>;

/// Recent values, by path.
#[derive(Debug, Default)]
pub(super) struct Selectivity {
    paths: Vec<Vec<Sample>>,
    next: usize,
}

impl Selectivity {
    /// Of what a query is listed by so many places are measured; the rest is assumed.
    pub(super) const PLACES_MEASURED_MAX: usize = 8;

    /// Of so many paths those that values are kept of: the numbers below this.
    pub(super) fn paths(all: usize) -> PathId {
        u32::try_from(all.min(PATHS_MAX)).unwrap_or(u32::MAX)
    }

    /// Keeps a value of a path. (A number that was given to another path keeps the old one's values for a while: they only
    /// make the choice worse.)
    pub(super) fn learn(
        &mut self,
        path: PathId,
        leaves: &[Leaf<'_>],
        digest: impl Fn(bson::RawBsonRef<'_>) -> u64,
    ) {
        let at = path as usize;
        if at >= PATHS_MAX {
            return;
        }
        if self.paths.len() <= at {
            self.paths.resize_with(at + 1, Vec::new);
        }
        let sample = leaves.first().and_then(|leaf| match leaf {
            Leaf::Missing => None,
            Leaf::Value(value) | Leaf::Element(value) => {
                Some((digest(*value), OrderKey::of(*value)))
            }
        });
        let samples = &mut self.paths[at];
        match samples.len() < SAMPLES {
            true => samples.push(sample),
            false => samples[self.next % SAMPLES] = sample,
        }
    }

    /// One event more was learned from.
    pub(super) fn turn(&mut self) {
        self.next = self.next.wrapping_add(1);
    }

    /// The share.
    pub(super) fn of(&self, path: PathId, at: &At) -> f64 {
        let samples = self.paths.get(path as usize);
        let Some(samples) = samples.filter(|samples| samples.len() >= SAMPLES_MIN) else {
            return Selectivity::assumed(at);
        };
        let hit = |sample: &&Sample| match (at, sample) {
            (At::Missing, None) => true,
            (At::Digest(digest), Some((value, _))) => digest == value,
            (At::Between(low, high), Some((_, key))) => low <= key && key <= high,
            _ => false,
        };
        let hits = samples.iter().filter(hit).count();
        // Never nothing: what was not seen may come. Of two that were not seen the narrower one is better.
        let seen = u32::try_from(hits).unwrap_or(u32::MAX);
        let all = u32::try_from(samples.len()).unwrap_or(u32::MAX);
        (f64::from(seen) + Selectivity::assumed(at)) / (f64::from(all) + 1.0)
    }

    /// The share where nothing is known.
    pub(super) fn assumed(at: &At) -> f64 {
        match at {
            At::Digest(_) => 0.001,
            At::Missing => 0.1,
            At::Between(low, high) => {
                let (first, last) = (
                    OrderKey::rank_min(low.rank()),
                    OrderKey::rank_max(low.rank()),
                );
                match (*low == first, *high == last) {
                    _ if low.rank() != high.rank() => 0.9,
                    // Most values are numbers, texts, ids or dates.
                    (true, true) if COMMON_RANKS.contains(&low.rank()) => 0.6,
                    (true, true) => 0.01,
                    (true, false) | (false, true) => 0.3,
                    (false, false) => 0.02,
                }
            }
        }
    }
}
