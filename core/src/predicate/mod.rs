//! Compiled filters, evaluated on raw BSON: does this document satisfy the query?
//!
//! The answer is exactly that of `find` on MongoDB 6.0, or there is no predicate (rule C14): nothing here
//! approximates. Evaluation never asks for more than a document's bytes, does not allocate, and recurses
//! no deeper than the filter's own limits, whatever the document's depth.

mod bits;
mod compile;
mod regex;
mod test;

use bson::{RawBsonRef, RawDocument};

use crate::query::Filter;
use crate::value::path::{Leaf, Path};
use test::Test;

pub use self::regex::RegexReason;

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Predicate(Node);

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

/// What a document must satisfy.
#[derive(Clone, Debug)]
enum Node {
    And(Vec<Node>),
    Or(Vec<Node>),
    Nor(Vec<Node>),
    Path(Path, Condition),
}

/// What the values at a path, or one value, must satisfy. Each test looks at the values for itself: two
/// tests may be satisfied by two elements of one array.
#[derive(Clone, Debug)]
enum Condition {
    Test(Test),
    All(Vec<Condition>),
    Not(Box<Condition>),
    Never,
}

impl Predicate {
    /// Compiles a filter.
    ///
    /// # Errors
    /// The filter cannot be decided exactly as the database would.
    pub fn compile(filter: &Filter) -> Result<Predicate, Undecidable> {
        compile::filter(filter).map(Predicate)
    }

    /// Whether a document satisfies the filter. What is not valid BSON ends where it breaks off (MongoDB stores
    /// none of it).
    #[must_use]
    pub fn matches(&self, document: &RawDocument) -> bool {
        self.0.matches(document)
    }
}

impl Node {
    fn matches(&self, document: &RawDocument) -> bool {
        match self {
            Node::And(nodes) => nodes.iter().all(|node| node.matches(document)),
            Node::Or(nodes) => nodes.iter().any(|node| node.matches(document)),
            Node::Nor(nodes) => !nodes.iter().any(|node| node.matches(document)),
            Node::Path(path, condition) => condition.at(path, document),
        }
    }
}

impl Condition {
    /// Whether the values at a path satisfy it.
    fn at(&self, path: &Path, document: &RawDocument) -> bool {
        self.evaluate(&|test| {
            path.any(document, test.arrays(), |leaf| match leaf {
                Leaf::Missing => test.holds(None),
                Leaf::Value(value) | Leaf::Element(value) => test.holds(Some(value)),
            })
        })
    }

    /// Whether one value satisfies it, an array being taken as a whole (an element of `$elemMatch`).
    fn of(&self, value: RawBsonRef<'_>) -> bool {
        self.evaluate(&|test| test.holds(Some(value)))
    }

    fn evaluate(&self, test: &dyn Fn(&Test) -> bool) -> bool {
        match self {
            Condition::Test(leaf) => test(leaf),
            Condition::All(conditions) => conditions.iter().all(|c| c.evaluate(test)),
            Condition::Not(inner) => !inner.evaluate(test),
            Condition::Never => false,
        }
    }
}
