//! Compiled filters, evaluated on raw BSON: does this document satisfy the query?
//!
//! The answer is exactly that of `find` on MongoDB 6.0, or there is no predicate (rule C14): nothing here
//! approximates. Evaluation never asks for more than a document's bytes, does not allocate, and recurses
//! no deeper than the filter's own limits, whatever the document's depth.
//!
//! A predicate is a tree ([`Expr`]) over atoms ([`Atom`]): one test of what one path leads to. The matcher takes
//! it apart and shares atoms between queries; [`Atom::reach`] tells its index where to look.

mod atom;
mod bits;
mod compile;
mod expr;
mod literal;
mod reach;
mod regex;
mod test;

use std::sync::Arc;

use bson::RawDocument;

use crate::query::Filter;
use crate::value::path::Path;

pub use self::atom::Atom;
pub use self::expr::Expr;
pub use self::reach::{Reach, Span};
pub use self::regex::RegexReason;

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Predicate(Expr<Atom>);

/// Why a filter has no predicate: the matcher could not decide it exactly as the database does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Undecidable {
    /// The reason.
    pub reason: Reason,
}

/// What cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// An operator that is the database's alone.
    #[error("only the database decides {0}")]
    DatabaseOperator(&'static str),
    /// A regular expression that means something else here than in PCRE, or nothing.
    #[error("a regular expression has {0}")]
    Regex(#[from] RegexReason),
}

impl Reason {
    /// A stable word, for `Cache-Status`, logs and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Reason::DatabaseOperator(_) => "database-operator",
            Reason::Regex(_) => "regex",
        }
    }
}

impl From<RegexReason> for Undecidable {
    fn from(reason: RegexReason) -> Undecidable {
        Undecidable {
            reason: reason.into(),
        }
    }
}

impl Predicate {
    /// Compiles a filter.
    ///
    /// # Errors
    /// The filter cannot be decided exactly as the database would.
    pub fn compile(filter: &Filter) -> Result<Predicate, Undecidable> {
        compile::filter(filter, &mut compile::own_path).map(Predicate)
    }

    /// [`Predicate::compile`] with paths that others have, too: `paths` makes or finds one.
    ///
    /// # Errors
    /// As [`Predicate::compile`].
    pub fn compile_sharing(
        filter: &Filter,
        paths: &mut dyn FnMut(&str) -> Arc<Path>,
    ) -> Result<Predicate, Undecidable> {
        compile::filter(filter, paths).map(Predicate)
    }

    /// Whether a document satisfies the filter. What is not valid BSON ends where it breaks off (MongoDB stores
    /// none of it).
    #[must_use]
    pub fn matches(&self, document: &RawDocument) -> bool {
        atom::matches(&self.0, document)
    }

    /// The tree.
    #[must_use]
    pub fn into_expr(self) -> Expr<Atom> {
        self.0
    }
}
