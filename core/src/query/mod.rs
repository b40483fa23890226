//! Queries: the filter language, its canonical form and key, sort, projection, cursors.
//!
//! Decides what a request means and how it is spelled canonically (`docs/canonical-form.md`); never asks
//! whether a document satisfies it: that is [`crate::predicate`].

mod cursor;
mod error;
mod filter;
mod parameter;
mod projection;
mod request;
mod sort;

pub use cursor::{Cursor, CursorError};
pub use error::{FilterError, FilterErrorKind, QueryError, QueryErrorKind};
pub use filter::{
    AllMember, BitMask, BitTest, Clause, ElemMatch, Filter, Operator, Pattern, TypeSet,
};
pub use parameter::PathError;
pub use projection::{Projection, ProjectionError};
pub use request::{AggregateQuery, CountQuery, Query, RecordRequest, Rep, View};
pub use sort::{Direction, Sort, SortError, SortField};

/// Documents a query answers when it names no `limit`.
pub const LIMIT_DEFAULT: u32 = 100;
/// The largest `limit`.
pub const LIMIT_MAX: u32 = 1_000;
/// The largest `skip`.
pub const SKIP_MAX: u32 = 10_000;
/// The deepest nesting of documents and arrays in a filter; the filter itself is level one.
pub const FILTER_DEPTH_MAX: usize = 32;
/// The most nodes in a filter: fields of every document in it, and members of arrays that are documents.
pub const FILTER_NODES_MAX: usize = 1_000;
/// The most members of one `$in`, `$nin`, `$all`, `$and`, `$or`, `$nor`, `$type` or list of bit positions.
pub const MEMBERS_MAX: usize = 1_000;
/// The most components of a dotted path.
pub const PATH_COMPONENTS_MAX: usize = 100;
/// The most fields of a `sort` (MongoDB's limit for a compound key).
pub const SORT_FIELDS_MAX: usize = 32;
/// The most paths of `fields`.
pub const PROJECTION_PATHS_MAX: usize = 200;

pub(crate) use filter::{check_allowed, integer, truncated};
pub(crate) use parameter::check_path;
