//! What a run came to.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::Serialize;
use serde_json::Value;

use super::case::kept::KeptVerdict;
use super::case::live::LiveVerdict;
use super::case::verdict::{Notified, Side, Verdict};
use super::case::{Case, Found, History, Watching, text};
use crate::machine::Machine;

/// How a history was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    /// Both images, at once: what the ratio is demanded of.
    Both,
    /// The same, with hurtful records and filters.
    Nasty,
    /// Both images, some of which are missing.
    Gaps,
    /// No image before.
    AfterOnly,
    /// Events come late.
    Lagging,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Mode::Both => "both",
            Mode::Nasty => "nasty",
            Mode::Gaps => "gaps",
            Mode::AfterOnly => "after_only",
            Mode::Lagging => "lagging",
        }
    }
}

/// Notifications, and those after which the answer was the same.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Tally {
    notified: u64,
    needless: u64,
    needless_ratio: f64,
}

impl Tally {
    fn add(&mut self, more: Notified) {
        self.notified += more.all;
        self.needless += more.needless;
        #[allow(clippy::cast_precision_loss)]
        if self.notified > 0 {
            self.needless_ratio = self.needless as f64 / self.notified as f64;
        }
    }
}

/// Of one mode, by what is asked: pages and counts, aggregations, joins.
#[derive(Debug, Default, Serialize)]
struct Sides {
    #[serde(flatten)]
    queries: Tally,
    aggregates: Tally,
    joins: Tally,
}

impl Sides {
    fn add(&mut self, side: Side, more: Notified) {
        match side {
            Side::Unsorted | Side::Sorted => self.queries.add(more),
            Side::Aggregate => self.aggregates.add(more),
            Side::Join => self.joins.add(more),
        }
    }
}

/// The report.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) seconds: u64,
    seed: u64,
    histories: u64,
    writes: u64,
    queries: u64,
    undecidable: u64,
    refused: u64,
    checks: u64,
    /// With both images and everything matched at once.
    #[serde(flatten)]
    main: Sides,
    unsorted: Tally,
    sorted: Tally,
    needless_by: BTreeMap<String, Tally>,
    needless_by_effect: BTreeMap<String, Tally>,
    modes: BTreeMap<&'static str, Sides>,
    missed: u64,
    live_checks: u64,
    live_renewals: u64,
    live_wrong: u64,
    kept_checks: u64,
    kept_renewals: u64,
    kept_wrong: u64,
    machine: Machine,
    failures: Vec<Value>,
}

impl Report {
    pub(super) fn new(seed: u64) -> Report {
        Report {
            seconds: 0,
            seed,
            histories: 0,
            writes: 0,
            queries: 0,
            undecidable: 0,
            refused: 0,
            checks: 0,
            main: Sides::default(),
            unsorted: Tally::default(),
            sorted: Tally::default(),
            needless_by: BTreeMap::new(),
            needless_by_effect: BTreeMap::new(),
            modes: BTreeMap::new(),
            missed: 0,
            live_checks: 0,
            live_renewals: 0,
            live_wrong: 0,
            kept_checks: 0,
            kept_renewals: 0,
            kept_wrong: 0,
            machine: Machine::read(),
            failures: Vec::new(),
        }
    }

    pub(super) fn recorded(&mut self, history: &History, queries: &[Watching]) {
        self.histories += 1;
        self.writes += history.writes.len() as u64;
        self.queries += queries.len() as u64;
        let answers = queries.iter().filter_map(|query| query.found.first());
        self.refused += answers.filter(|found| **found == Found::Refused).count() as u64;
    }

    pub(super) fn judged(&mut self, mode: Mode, verdict: &Verdict) {
        self.checks += verdict.checks;
        self.missed += verdict.missed.len() as u64;
        let of_mode = self.modes.entry(mode.name()).or_default();
        for ((side, _), notified) in &verdict.by_kind {
            of_mode.add(*side, *notified);
        }
        if mode != Mode::Both {
            return;
        }
        self.undecidable += verdict.undecidable;
        for (effect, notified) in &verdict.by_effect {
            let by = self.needless_by_effect.entry(effect.clone()).or_default();
            by.add(*notified);
        }
        for ((side, kind), notified) in &verdict.by_kind {
            let by = self.needless_by.entry(kind.clone()).or_default();
            by.add(*notified);
            self.main.add(*side, *notified);
            match side {
                Side::Unsorted => self.unsorted.add(*notified),
                Side::Sorted => self.sorted.add(*notified),
                Side::Aggregate | Side::Join => {}
            }
        }
    }

    pub(super) fn kept(&mut self, verdict: &KeptVerdict) {
        self.kept_checks += verdict.checks;
        self.kept_renewals += verdict.renewals;
        self.kept_wrong += verdict.wrong.len() as u64;
    }

    pub(super) fn live(&mut self, verdict: &LiveVerdict) {
        self.live_checks += verdict.checks;
        self.live_renewals += verdict.renewals;
        self.live_wrong += verdict.wrong.len() as u64;
    }

    pub(super) fn failed(&mut self, what: &str, case: Case) {
        let case = text::write(&case);
        eprintln!("{what}: {case}");
        self.failures.push(case);
    }

    pub(super) fn failures(&self) -> usize {
        self.failures.len()
    }

    pub(super) fn progress(&self) -> String {
        format!(
            "{} writes, {} checks, {} notified, {:.4} needless, {:.4} of aggregates, {:.4} of joins, {} missed, {} live checks",
            self.writes,
            self.checks,
            self.main.queries.notified,
            self.main.queries.needless_ratio,
            self.main.aggregates.needless_ratio,
            self.main.joins.needless_ratio,
            self.missed,
            self.live_checks
        )
    }

    #[allow(clippy::print_stdout)] // the result is what stdout is for
    pub(super) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string_pretty(self)?);
        ensure!(
            self.failures.is_empty(),
            "something was missed, or what is kept was wrong"
        );
        Ok(())
    }
}
