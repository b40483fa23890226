//! What is counted while a fault is under way, and what is printed of it.

use std::collections::BTreeMap;

use freshet_core::consistency::Reason;
use serde::Serialize;

use super::judge::{Verdict, Violation};

/// Violations that are told one by one; the rest is counted.
const TOLD_MAX: usize = 20;

/// Who answered a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum From {
    Browser,
    Varnish,
    /// The gateway's own cache.
    Tier,
    Database,
}

/// Counts of one phase.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Tally {
    /// Answers that were judged.
    pub(super) reads: u64,
    pub(super) reads_from: BTreeMap<From, u64>,
    /// Why they were made as they were.
    pub(super) reads_for: BTreeMap<String, u64>,
    /// Reads without an answer, or with an error.
    pub(super) reads_failed: u64,
    /// Writes that were acknowledged.
    pub(super) writes: u64,
    /// Writes that were refused, and such of which no outcome is known.
    pub(super) writes_refused: u64,
    pub(super) writes_unknown: u64,
    pub(super) violations: u64,
    /// By Δ in milliseconds: the largest staleness of an answer in milliseconds.
    pub(super) staleness_ms_max: BTreeMap<u64, f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) told: Vec<Told>,
}

/// A violation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Told {
    pub(super) what: String,
    pub(super) delta_ms: u64,
    pub(super) key: String,
    pub(super) from: From,
    /// Mode and reason of the read.
    pub(super) read: String,
    /// Milliseconds on the process's clock.
    pub(super) began_ms: u64,
    pub(super) ended_ms: u64,
    /// The answer and its headers, and what it is held against.
    pub(super) shown: String,
    pub(super) facts: String,
}

impl Tally {
    /// A read was judged.
    pub(super) fn read(&mut self, from: From, reason: Reason, delta_ms: u64, verdict: Verdict) {
        self.reads += 1;
        *self.reads_for.entry(format!("{reason:?}")).or_default() += 1;
        *self.reads_from.entry(from).or_default() += 1;
        let stale_us = match verdict {
            Ok(us) | Err(Violation::Stale(us)) => us,
            Err(_) => 0,
        };
        let most = self.staleness_ms_max.entry(delta_ms).or_default();
        *most = most.max(stale_us as f64 / 1_000.0);
        self.violations += u64::from(verdict.is_err());
    }

    /// What was wrong.
    pub(super) fn tell(&mut self, told: impl FnOnce() -> Told) {
        if self.told.len() < TOLD_MAX {
            self.told.push(told());
        }
    }

    /// Both together.
    pub(super) fn add(&mut self, other: &Tally) {
        self.reads += other.reads;
        for (from, count) in &other.reads_from {
            *self.reads_from.entry(*from).or_default() += count;
        }
        for (reason, count) in &other.reads_for {
            *self.reads_for.entry(reason.clone()).or_default() += count;
        }
        self.reads_failed += other.reads_failed;
        self.writes += other.writes;
        self.writes_refused += other.writes_refused;
        self.writes_unknown += other.writes_unknown;
        self.violations += other.violations;
        for (delta, most) in &other.staleness_ms_max {
            let so_far = self.staleness_ms_max.entry(*delta).or_default();
            *so_far = so_far.max(*most);
        }
    }
}
