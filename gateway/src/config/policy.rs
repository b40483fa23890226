//! The settings of lifetimes: caps, floor, and how estimates are made. Defaults are the estimator's own.

use std::time::Duration;

use freshet_core::time::Ttl;

use super::reader::Reader;
use super::settings::secs;

/// How long answers may live.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The longest `max-age`.
    pub max_age_max: Duration,
    /// The longest lifetime in shared caches.
    pub shared_max_age_max: Duration,
    /// The shortest lifetime worth caching for.
    pub max_age_min: Duration,
    /// The accepted chance that an answer changes before its lifetime ends.
    pub quantile: f64,
    /// The weight of the estimate so far against an observed lifetime.
    pub alpha: f64,
    /// Queries and records watched at once.
    pub active_max: u64,
    /// Of those, of one database; none: no limit of its own.
    pub database_active_max: Option<u64>,
}

impl Policy {
    /// Reads the table; mistakes go to the reader's report.
    pub(super) fn read(r: &mut Reader<'_>) -> Policy {
        let defaults = freshet_core::ttl::Policy::default();
        let policy = Policy {
            max_age_max: r.get(
                "max_age_max",
                lifetime(defaults.max_age_cap),
                "The longest max-age given to clients.",
            ),
            shared_max_age_max: r.get(
                "shared_max_age_max",
                lifetime(defaults.shared_max_age_cap),
                "The longest lifetime given to shared caches.",
            ),
            max_age_min: r.get(
                "max_age_min",
                lifetime(defaults.floor),
                "An estimate below this is not cached.",
            ),
            quantile: r.get(
                "quantile",
                defaults.quantile,
                "The chance, above 0 and below 1, that an answer changes before its lifetime ends.",
            ),
            alpha: r.get(
                "alpha",
                defaults.alpha,
                "The weight, from 0 to 1, of the estimate so far against a lifetime that was observed.",
            ),
            active_max: r.get(
                "active_max",
                100_000,
                "Queries and records watched for changes at once; answers beyond are not cached.",
            ),
            database_active_max: r.optional(
                "database_active_max",
                "Of these, of one database at most; without it a database may take them all.",
            ),
        };
        if !(policy.quantile > 0.0 && policy.quantile < 1.0) {
            r.wrong("quantile", "`policy.quantile` must be above 0 and below 1");
        }
        if !(0.0..=1.0).contains(&policy.alpha) {
            r.wrong("alpha", "`policy.alpha` must be from 0 to 1");
        }
        for (name, value) in [
            ("max_age_max", policy.max_age_max),
            ("shared_max_age_max", policy.shared_max_age_max),
            ("max_age_min", policy.max_age_min),
        ] {
            if value > secs(86_400 * 365) || value.subsec_nanos() > 0 {
                r.wrong(
                    name,
                    format!("`policy.{name}` must be whole seconds, at most 365d"),
                );
            }
        }
        policy
    }
}

const fn lifetime(ttl: Ttl) -> Duration {
    secs(ttl.0 as u64)
}
