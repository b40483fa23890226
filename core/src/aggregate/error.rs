//! Why a pipeline is refused: which rule, in words for people, and where (RFC 6901, into the pipeline).

use std::fmt;

use crate::query::{FilterError, FilterErrorKind};

/// Which rule a pipeline breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PipelineErrorKind {
    /// Not an array of documents with one field each.
    Malformed,
    /// A stage outside the list.
    Stage,
    /// An expression or a variable outside the list.
    Expression,
    /// An accumulator outside the list.
    Accumulator,
    /// An operand of the wrong type or value.
    Operand,
    /// A name of a field or a path that cannot stand there.
    Path,
    /// More stages, branches or fields than permitted.
    TooMany,
    /// The filter of a `$match`, or what a filter may not hold either (code, deprecated types, depth).
    Filter(FilterErrorKind),
}

/// A pipeline that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct PipelineError {
    /// The rule.
    pub kind: PipelineErrorKind,
    /// For people; never the input at length.
    pub detail: String,
    /// RFC 6901, into the pipeline; empty means the whole of it.
    pub pointer: String,
}

impl PipelineError {
    pub(super) fn new(kind: PipelineErrorKind, detail: impl Into<String>) -> PipelineError {
        PipelineError {
            kind,
            detail: detail.into(),
            pointer: String::new(),
        }
    }

    pub(super) fn operand(detail: impl Into<String>) -> PipelineError {
        PipelineError::new(PipelineErrorKind::Operand, detail)
    }

    pub(super) fn path(detail: impl Into<String>) -> PipelineError {
        PipelineError::new(PipelineErrorKind::Path, detail)
    }

    pub(super) fn too_many(detail: impl Into<String>) -> PipelineError {
        PipelineError::new(PipelineErrorKind::TooMany, detail)
    }

    /// The same refusal seen from one level further out.
    pub(super) fn within(mut self, segment: impl fmt::Display) -> PipelineError {
        let segment = segment.to_string().replace('~', "~0").replace('/', "~1");
        self.pointer = format!("/{segment}{}", self.pointer);
        self
    }
}

impl From<FilterError> for PipelineError {
    fn from(error: FilterError) -> PipelineError {
        PipelineError {
            kind: PipelineErrorKind::Filter(error.kind),
            detail: error.detail,
            pointer: error.pointer,
        }
    }
}

impl From<bson::error::Error> for PipelineError {
    fn from(_: bson::error::Error) -> PipelineError {
        PipelineError::new(
            PipelineErrorKind::Malformed,
            "the pipeline is not valid BSON",
        )
    }
}

/// As much of a name of the request's as an error repeats.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(40).collect()
}
