//! The doorkeeper (TinyLFU, §3.4.2): an answer is cached from the second request for it on, so that one-off queries
//! cost neither a place in the matcher nor one in a cache.
//!
//! Two generations of a Bloom filter: new keys go into the younger, both are asked; the older is dropped when the
//! younger is full or old enough. A false positive admits a key one request early, nothing worse.

use freshet_core::time::Moment;
use growable_bloom_filter::GrowableBloom;
use parking_lot::Mutex;

/// The filters' false-positive rate.
const ERROR_RATE: f64 = 0.01;

/// Remembers what was asked for once.
pub struct Doorkeeper {
    window_ms: u64,
    keys_max: usize,
    state: Mutex<State>,
}

struct State {
    young: GrowableBloom,
    young_keys: usize,
    old: GrowableBloom,
    since: Moment,
}

impl Doorkeeper {
    /// Remembers a key for at least `window_ms` and at most `keys_max` keys at a time.
    #[must_use]
    pub fn new(window_ms: u64, keys_max: usize, now: Moment) -> Doorkeeper {
        let keys_max = keys_max.max(2);
        Doorkeeper {
            window_ms,
            keys_max,
            state: Mutex::new(State {
                young: fresh(keys_max),
                young_keys: 0,
                old: fresh(keys_max),
                since: now,
            }),
        }
    }

    /// Whether a request would be admitted now; nothing is remembered.
    #[must_use]
    pub fn knows(&self, key: &str, now: Moment) -> bool {
        let state = self.state.lock();
        let turns = self.turns(&state, now);
        state.young.contains(key) || !turns && state.old.contains(key)
    }

    fn turns(&self, state: &State, now: Moment) -> bool {
        now.since(state.since) >= self.window_ms || state.young_keys >= self.keys_max / 2
    }

    /// Whether the key was asked for before. If not, it is remembered.
    #[must_use]
    pub fn admits(&self, key: &str, now: Moment) -> bool {
        let mut state = self.state.lock();
        if self.turns(&state, now) {
            let full = std::mem::replace(&mut state.young, fresh(self.keys_max));
            state.old = full;
            state.young_keys = 0;
            state.since = now;
        }
        let known = state.old.contains(key);
        let new = state.young.insert(key);
        if new {
            state.young_keys += 1;
        }
        known || !new
    }
}

/// Starts small and grows: an idle gateway holds no large filter.
fn fresh(keys_max: usize) -> GrowableBloom {
    GrowableBloom::new(ERROR_RATE, (keys_max / 2).clamp(1, 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_request_is_admitted_until_two_windows_have_passed() {
        let doorkeeper = Doorkeeper::new(1000, 1_000_000, Moment(0));
        assert!(!doorkeeper.admits("k", Moment(0)));
        assert!(doorkeeper.knows("k", Moment(9)) && !doorkeeper.knows("k9", Moment(9)));
        assert!(!doorkeeper.knows("k9", Moment(9)), "asking is no request");
        assert!(doorkeeper.admits("k", Moment(10)));
        assert!(!doorkeeper.admits("once", Moment(10)));
        assert!(doorkeeper.admits("once", Moment(1500)));
        assert!(!doorkeeper.admits("other", Moment(1500)));
        assert!(!doorkeeper.admits("k2", Moment(2600)));
        assert!(!doorkeeper.admits("k", Moment(5000)));
    }

    #[test]
    fn what_it_holds_is_bounded_by_count() {
        let doorkeeper = Doorkeeper::new(u64::MAX, 8, Moment(0));
        assert!(!doorkeeper.admits("first", Moment(0)));
        for i in 0..20 {
            let _ = doorkeeper.admits(&format!("k{i}"), Moment(0));
        }
        assert!(
            !doorkeeper.admits("first", Moment(0)),
            "forgotten with its generation"
        );
    }
}
