//! Runs a planned pipeline over documents that somebody hands in, with the answer that MongoDB 6.0 would give, byte
//! for byte. What cannot be given exactly is refused ([`Failure::Undecided`]), never approximated (C14).
//!
//! Documents are pushed through the stages one by one; only `$sort`, `$group`, `$facet` and the answer hold any, within
//! [`MEMORY_BYTES_MAX`].

mod accumulate;
mod call;
mod date;
mod expression;
mod number;
mod reshape;
mod run;
mod slots;
mod sorting;
mod stage;
mod text;

pub(super) use expression::evaluate;
pub(super) use reshape::shown;
pub use run::{Collections, run};

/// Bytes of documents and values that a running pipeline holds at most: what MongoDB gives a stage.
pub const MEMORY_BYTES_MAX: usize = 100 * 1024 * 1024;

/// Steps a pipeline takes at most: a document handed to a stage is one, and each KiB of it another. Nobody can stop one
/// that is under way; this many take seconds.
pub const STEPS_MAX: u64 = 500_000;

/// Why a pipeline has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The documents do not fit the pipeline; MongoDB refuses this, too.
    #[error("{0}")]
    Invalid(String),
    /// MongoDB has an answer, which cannot be given exactly without it.
    #[error("{0} needs MongoDB")]
    Undecided(String),
    /// More than [`MEMORY_BYTES_MAX`], or a document larger than a document may be.
    #[error("the pipeline would hold more than {} MiB", MEMORY_BYTES_MAX >> 20)]
    TooLarge,
    /// More than [`STEPS_MAX`].
    #[error("the pipeline would take more than {STEPS_MAX} steps")]
    TooLong,
}

impl Failure {
    fn invalid(what: impl Into<String>) -> Failure {
        Failure::Invalid(what.into())
    }

    fn undecided(what: impl Into<String>) -> Failure {
        Failure::Undecided(what.into())
    }
}

/// A value, or none.
type Value = Option<bson::RawBson>;
