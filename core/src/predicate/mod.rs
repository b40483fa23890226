//! Compiled filters, evaluated on raw BSON: does this document satisfy the query?
//!
//! The answer is exactly that of `find` on MongoDB 6.0, or there is no predicate (rule C14): nothing here
//! approximates. Evaluation never asks for more than a document's bytes, does not allocate, and recurses
//! no deeper than the filter's own limits, whatever the document's depth.

mod bits;
mod compile;
mod path;
mod regex;
mod test;

use bson::RawDocument;

use crate::query::Filter;
use path::{Malformed, Path};
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

    /// Whether a document satisfies the filter. Bytes that are not valid BSON (MongoDB stores none) do:
    /// to take a document for a member that is none costs an invalidation, the contrary a stale answer.
    #[must_use]
    pub fn matches(&self, document: &RawDocument) -> bool {
        self.0.matches(document).unwrap_or(true)
    }
}

impl Node {
    fn matches(&self, document: &RawDocument) -> Result<bool, Malformed> {
        match self {
            Node::And(nodes) => {
                for node in nodes {
                    if !node.matches(document)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Node::Or(nodes) => any(nodes, document),
            Node::Nor(nodes) => any(nodes, document).map(|any| !any),
            Node::Path(path, condition) => condition.at(path, document),
        }
    }
}

fn any(nodes: &[Node], document: &RawDocument) -> Result<bool, Malformed> {
    for node in nodes {
        if node.matches(document)? {
            return Ok(true);
        }
    }
    Ok(false)
}

impl Condition {
    /// Whether the values at a path satisfy it.
    fn at(&self, path: &Path, document: &RawDocument) -> Result<bool, Malformed> {
        self.evaluate(&mut |test| path.any(document, test.leaf(), &mut |value| test.holds(value)))
    }

    /// Whether one value satisfies it, an array being taken as a whole (an element of `$elemMatch`).
    fn of(&self, value: bson::RawBsonRef<'_>) -> Result<bool, Malformed> {
        self.evaluate(&mut |test| test.holds(Some(value)))
    }

    fn evaluate(
        &self,
        test: &mut dyn FnMut(&Test) -> Result<bool, Malformed>,
    ) -> Result<bool, Malformed> {
        match self {
            Condition::Test(leaf) => test(leaf),
            Condition::All(conditions) => {
                for condition in conditions {
                    if !condition.evaluate(test)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Condition::Not(inner) => inner.evaluate(test).map(|holds| !holds),
            Condition::Never => Ok(false),
        }
    }
}
