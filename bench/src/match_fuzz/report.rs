//! What a run came to.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde::Serialize;
use serde_json::Value;

use super::case::judge::Verdict;
use super::case::live::LiveVerdict;
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
    fn add(&mut self, notified: u64, needless: u64) {
        self.notified += notified;
        self.needless += needless;
        #[allow(clippy::cast_precision_loss)]
        if self.notified > 0 {
            self.needless_ratio = self.needless as f64 / self.notified as f64;
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
    notified: u64,
    needless: u64,
    needless_ratio: f64,
    unsorted: Tally,
    sorted: Tally,
    needless_by: BTreeMap<String, Tally>,
    needless_by_effect: BTreeMap<String, Tally>,
    modes: BTreeMap<&'static str, Tally>,
    missed: u64,
    live_checks: u64,
    live_renewals: u64,
    live_wrong: u64,
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
            notified: 0,
            needless: 0,
            needless_ratio: 0.0,
            unsorted: Tally::default(),
            sorted: Tally::default(),
            needless_by: BTreeMap::new(),
            needless_by_effect: BTreeMap::new(),
            modes: BTreeMap::new(),
            missed: 0,
            live_checks: 0,
            live_renewals: 0,
            live_wrong: 0,
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

    pub(super) fn judged(&mut self, mode: Mode, case: &Case, verdict: &Verdict) {
        self.checks += verdict.checks;
        self.missed += verdict.missed.len() as u64;
        let (notified, needless) = (verdict.notified, verdict.needless);
        self.modes
            .entry(mode.name())
            .or_default()
            .add(notified, needless);
        if mode != Mode::Both {
            return;
        }
        self.undecidable += verdict.undecidable;
        for (effect, (notified, needless)) in &verdict.by_effect {
            let by = self.needless_by_effect.entry(effect.clone()).or_default();
            by.add(*notified, *needless);
        }
        for (kind, (notified, needless)) in &verdict.by_kind {
            let by = self.needless_by.entry(kind.clone()).or_default();
            by.add(*notified, *needless);
            let sorted = case
                .queries
                .iter()
                .any(|query| query.asked.is_sorted() && query.asked.kind() == *kind);
            let side = if sorted {
                &mut self.sorted
            } else {
                &mut self.unsorted
            };
            side.add(*notified, *needless);
        }
        let mut all = Tally::default();
        all.add(self.notified + notified, self.needless + needless);
        (self.notified, self.needless) = (all.notified, all.needless);
        self.needless_ratio = all.needless_ratio;
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
            "{} writes, {} checks, {} notified, {:.4} needless, {} missed, {} live checks",
            self.writes,
            self.checks,
            self.notified,
            self.needless_ratio,
            self.missed,
            self.live_checks
        )
    }

    #[allow(clippy::print_stdout)] // the result is what stdout is for
    pub(super) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string_pretty(self)?);
        ensure!(
            self.failures.is_empty(),
            "something was missed, or a live window was wrong"
        );
        Ok(())
    }
}
