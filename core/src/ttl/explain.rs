//! How an estimate comes about, for whoever asks why an answer lives as long as it does. Reads are given the same
//! numbers: the estimate itself is made here.

use super::estimate::Observed;
use super::policy::{Policy, quantile_ms};
use crate::time::Moment;

/// What an estimate rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// No write was seen: the cap decides.
    Nothing,
    /// The write rates of the records and of the result.
    Rates,
    /// The average of the lifetimes that were seen.
    Observed,
    /// The value of now, which holds longer already than the average.
    Holding,
}

impl Basis {
    /// The stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Basis::Nothing => "no-writes-seen",
            Basis::Rates => "write-rates",
            Basis::Observed => "observed-lifetimes",
            Basis::Holding => "holding-longer",
        }
    }
}

/// An estimate, with all that it is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Explained {
    /// Writes of the result's records per millisecond, together.
    pub members_per_ms: f64,
    /// Writes per millisecond of the record that is written most.
    pub hottest_per_ms: f64,
    /// Invalidations of the result per millisecond: records come into it, too.
    pub churn_per_ms: f64,
    /// What these rates alone tell, milliseconds; infinite: nothing was ever written.
    pub computed_ms: f64,
    /// The fading average of lifetimes that were seen, milliseconds.
    pub average_ms: Option<f64>,
    /// The last lifetime that was seen, milliseconds.
    pub last_ms: Option<u64>,
    /// How long the value of now holds already, milliseconds; none: it was not read yet.
    pub holding_ms: Option<u64>,
    /// What decided.
    pub basis: Basis,
    /// How long an answer that is read now is expected to hold, milliseconds.
    pub expected_ms: f64,
}

impl Explained {
    pub(super) fn of_query(
        policy: &Policy,
        members_per_ms: f64,
        observed: &Observed,
        now: Moment,
    ) -> Explained {
        let churn_per_ms = observed.churn.per_ms(now);
        let computed_ms = quantile_ms(policy.quantile, members_per_ms + churn_per_ms);
        let holding_ms = observed.since.map(|since| now.since(since));
        // Before a lifetime was seen the average holds a computed one.
        let average_ms = observed.average_ms.filter(|_| observed.last_ms.is_some());
        #[allow(clippy::cast_precision_loss)]
        let age = holding_ms.unwrap_or(0) as f64;
        let (basis, expected_ms) = match average_ms {
            None if computed_ms.is_finite() => (Basis::Rates, computed_ms),
            None => (Basis::Nothing, computed_ms),
            // A value that holds longer than the average is an observation too, only unfinished.
            Some(average) if age > average => {
                let weighed = policy.alpha * average + (1.0 - policy.alpha) * age;
                (Basis::Holding, weighed)
            }
            Some(average) => (Basis::Observed, average),
        };
        Explained {
            members_per_ms,
            hottest_per_ms: 0.0,
            churn_per_ms,
            computed_ms,
            average_ms,
            last_ms: observed.last_ms,
            holding_ms,
            basis,
            expected_ms,
        }
    }
}
