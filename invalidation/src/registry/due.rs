//! When to look at an active resource again: by the second. Each stands there once; one whose time was prolonged
//! meanwhile is put back when its old time comes, so that prolonging costs nothing.

use std::collections::BTreeMap;

use freshet_core::time::Moment;

/// What is due, by second.
#[derive(Debug)]
pub(super) struct Due<T>(BTreeMap<u64, Vec<T>>);

impl<T> Default for Due<T> {
    fn default() -> Due<T> {
        Due(BTreeMap::new())
    }
}

impl<T> Due<T> {
    /// Not before `at`.
    pub(super) fn put(&mut self, at: Moment, what: T) {
        self.0.entry(second(at)).or_default().push(what);
    }

    /// What has come due.
    pub(super) fn take(&mut self, now: Moment) -> Vec<T> {
        let later = self.0.split_off(&(now.0 / 1_000 + 1));
        let due = std::mem::replace(&mut self.0, later);
        due.into_values().flatten().collect()
    }
}

/// The first whole second at or after it.
fn second(at: Moment) -> u64 {
    at.0.div_ceil(1_000)
}
