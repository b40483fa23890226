//! What is printed, and what makes a run fail.

use anyhow::ensure;
use serde::Serialize;

use super::Options;
use super::recovery::Recovery;
use super::tally::Tally;
use crate::machine::Machine;

/// The whole run.
#[derive(Serialize)]
pub(super) struct Report {
    /// Answers that broke the contract: 0.
    violations: u64,
    /// Acknowledged writes that the database did not have: 0.
    pub(super) lost_writes: usize,
    /// Sums over all faults, and the largest staleness of all by Δ.
    total: Tally,
    pub(super) faults: Vec<FaultReport>,
    pub(super) control: Control,
    rate: f64,
    clients: usize,
    seconds: u64,
    seed: u64,
    machine: Machine,
}

/// One fault, from the load before it to the recovery after it.
#[derive(Serialize)]
pub(super) struct FaultReport {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    /// When it began, milliseconds on its world's clock.
    pub(super) began_ms: u64,
    /// How long it lasted.
    pub(super) seconds: f64,
    #[serde(flatten)]
    pub(super) recovery: Recovery,
    pub(super) lost_writes: usize,
    /// Why it could not be made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    #[serde(flatten)]
    pub(super) counts: Tally,
}

/// Clients that never ask for the sketch: the checker has to have something against them.
#[derive(Default, Serialize)]
pub(super) struct Control {
    reads: u64,
    /// Their answers that broke the contract: more than 0.
    flagged: u64,
    staleness_ms_max: f64,
}

impl Control {
    pub(super) fn of(tally: Tally) -> Control {
        Control {
            reads: tally.reads,
            flagged: tally.violations,
            staleness_ms_max: tally.staleness_ms_max.values().copied().fold(0.0, f64::max),
        }
    }

    /// That of another world as well.
    pub(super) fn add(&mut self, other: Control) {
        self.reads += other.reads;
        self.flagged += other.flagged;
        self.staleness_ms_max = self.staleness_ms_max.max(other.staleness_ms_max);
    }
}

impl FaultReport {
    /// For the progress.
    pub(super) fn line(&self) -> String {
        let seconds = |time: Option<f64>| time.map_or("never".to_owned(), |s| format!("{s:.1} s"));
        let mut line = format!(
            "{:32} {:5.1} s; caching after {}, trusted after {}; {} reads, {} writes, {} violations, {} lost",
            self.name,
            self.seconds,
            seconds(self.recovery.seconds_until_caching),
            seconds(self.recovery.seconds_until_trusted),
            self.counts.reads,
            self.counts.writes,
            self.counts.violations,
            self.lost_writes,
        );
        if let Some(error) = &self.error {
            line += &format!("; NOT MADE: {error}");
        }
        line
    }
}

impl Report {
    pub(super) fn new(options: &Options) -> Report {
        Report {
            violations: 0,
            lost_writes: 0,
            total: Tally::default(),
            faults: Vec::new(),
            control: Control::default(),
            rate: options.rate,
            clients: options.clients,
            seconds: options.seconds,
            seed: options.seed,
            machine: Machine::read(),
        }
    }

    /// Sums up.
    pub(super) fn finish(&mut self) {
        for fault in &self.faults {
            self.total.add(&fault.counts);
            self.lost_writes += fault.lost_writes;
        }
        self.violations = self.total.violations;
    }

    #[allow(clippy::print_stdout)] // the result is what stdout is for
    pub(super) fn print(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string_pretty(self)?);
        Ok(())
    }

    /// # Errors
    /// What was wrong.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        for fault in &self.faults {
            if let Some(error) = &fault.error {
                anyhow::bail!("{} could not be made: {error}", fault.name);
            }
        }
        ensure!(
            self.violations == 0,
            "{} answers broke the contract",
            self.violations
        );
        ensure!(
            self.lost_writes == 0,
            "{} writes were lost",
            self.lost_writes
        );
        ensure!(
            self.control.flagged > 0,
            "the checker noticed nothing of clients that break the contract"
        );
        Ok(())
    }
}
