//! Why a request's filter or parameter is refused. Each refusal has a kind (stable, for code), a detail
//! (for people, never the input at length) and a place: an RFC 6901 pointer into the filter.

use std::fmt;

use crate::aggregate::PipelineErrorKind;

/// Which rule a filter breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterErrorKind {
    /// Not readable as BSON.
    Malformed,
    /// A name beginning with `$` that is no operator, or not one for this place.
    UnknownOperator,
    /// `$where`, `$function` or `$accumulator`: code is never run.
    Forbidden,
    /// An operand of the wrong type or value.
    Operand,
    /// A value of a type that a filter cannot hold (undefined, symbol, code, DBPointer).
    ValueType,
    /// A path with too many components.
    Path,
    /// Nested too deeply.
    TooDeep,
    /// Too many nodes.
    TooManyNodes,
    /// Too many members in one list.
    TooManyMembers,
}

/// A filter that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct FilterError {
    /// The rule.
    pub kind: FilterErrorKind,
    /// For people.
    pub detail: String,
    /// RFC 6901, into the filter; empty means the whole of it.
    pub pointer: String,
}

impl FilterError {
    pub(crate) fn new(kind: FilterErrorKind, detail: impl Into<String>) -> FilterError {
        FilterError {
            kind,
            detail: detail.into(),
            pointer: String::new(),
        }
    }

    pub(crate) fn operand(detail: impl Into<String>) -> FilterError {
        FilterError::new(FilterErrorKind::Operand, detail)
    }

    /// The same refusal seen from one level further out: `segment` goes before the pointer.
    pub(crate) fn within(mut self, segment: impl fmt::Display) -> FilterError {
        let segment = segment.to_string().replace('~', "~0").replace('/', "~1");
        self.pointer = format!("/{segment}{}", self.pointer);
        self
    }
}

impl From<bson::error::Error> for FilterError {
    fn from(_: bson::error::Error) -> FilterError {
        FilterError::new(FilterErrorKind::Malformed, "the filter is not valid BSON")
    }
}

/// Which rule a parameter breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryErrorKind {
    /// No such parameter here.
    UnknownParameter,
    /// Given twice.
    RepeatedParameter,
    /// Not JSON, or not Extended JSON v2.
    Json,
    /// The filter is refused.
    Filter(FilterErrorKind),
    /// The pipeline is refused.
    Pipeline(PipelineErrorKind),
    /// A parameter that the request cannot do without.
    MissingParameter,
    /// Not a decimal integer without sign, fraction or leading zeros.
    Integer,
    /// An integer outside its range.
    Range,
    /// Not a list of paths as `sort` or `fields` have it.
    Paths,
    /// Not one of the words.
    Word,
    /// Not a cursor that this query's sort gave.
    Cursor,
}

/// A request that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter}: {detail}")]
pub struct QueryError {
    /// The rule.
    pub kind: QueryErrorKind,
    /// For people.
    pub detail: String,
    /// The parameter's name.
    pub parameter: String,
    /// RFC 6901, into the parameter's JSON; empty for parameters that are not JSON.
    pub pointer: String,
}

impl QueryError {
    pub(crate) fn new(
        kind: QueryErrorKind,
        parameter: &str,
        detail: impl Into<String>,
    ) -> QueryError {
        QueryError {
            kind,
            detail: detail.into(),
            parameter: parameter.into(),
            pointer: String::new(),
        }
    }
}
