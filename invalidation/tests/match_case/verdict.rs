//! What a case came to.

use std::collections::BTreeMap;

/// What a copy was of, as far as the ratio that is demanded tells them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Pages in `_id` order, and counts.
    Unsorted,
    /// Pages in another one.
    Sorted,
    Aggregate,
    /// An aggregation with a `$lookup`.
    Join,
}

/// Notifications, and those after which the answer was the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notified {
    pub all: u64,
    pub needless: u64,
}

impl Notified {
    pub fn add(&mut self, more: Notified) {
        self.all += more.all;
        self.needless += more.needless;
    }
}

/// What a case came to.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Copies that were held against the answer of their time.
    pub checks: u64,
    /// By kind of query.
    pub by_kind: BTreeMap<(Side, String), Notified>,
    /// By whether the query has an order of its own or skips, and what was said to have happened.
    pub by_effect: BTreeMap<String, Notified>,
    /// Query and write of those that were needless.
    pub examples: Vec<(usize, usize)>,
    /// Queries that cannot be matched.
    pub undecidable: u64,
    pub missed: Vec<Missed>,
}

impl Verdict {
    /// Of any kind.
    pub fn notified(&self) -> u64 {
        self.by_kind.values().map(|notified| notified.all).sum()
    }
}

/// A copy that is stale, and nobody was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub query: usize,
    /// The position it went out with, how many writes it has really seen, and how many were matched.
    pub position: usize,
    pub seen: usize,
    pub matched: usize,
}
