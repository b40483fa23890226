//! One test of what one path leads to. An atom holds when something there passes the test: two atoms of one path may
//! be satisfied by two elements of one array.

use std::hash::Hasher;
use std::sync::Arc;

use bson::RawDocument;

use super::Expr;
use super::test::Test;
use crate::value::path::{ArrayLeaf, Leaf, Path};

/// An atom.
#[derive(Clone, Debug, PartialEq)]
pub struct Atom {
    path: Arc<Path>,
    pub(super) test: Test,
}

impl Atom {
    pub(super) fn new(path: &Arc<Path>, test: Test) -> Atom {
        Atom {
            path: Arc::clone(path),
            test,
        }
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Arc<Path> {
        &self.path
    }

    /// Whether a document satisfies it.
    #[must_use]
    pub fn matches(&self, document: &RawDocument) -> bool {
        let arrays = self.test.arrays();
        self.path
            .any(document, arrays, |leaf| holds(&self.test, leaf))
    }

    /// Whether it holds of what its path leads to, collected with [`ArrayLeaf::Elements`].
    #[must_use]
    pub fn holds_of(&self, leaves: &[Leaf<'_>]) -> bool {
        match self.test.arrays() {
            ArrayLeaf::Elements => leaves.iter().any(|leaf| holds(&self.test, *leaf)),
            ArrayLeaf::Whole => leaves
                .iter()
                .any(|leaf| !matches!(leaf, Leaf::Element(_)) && holds(&self.test, *leaf)),
        }
    }

    /// A byte of what it compares with, so that the rest is in the processor's cache soon.
    #[must_use]
    pub fn glance(&self) -> u8 {
        match &self.test {
            Test::Compare(compared) => compared.value.glance(),
            _ => 0,
        }
    }

    /// Feeds what tells it from others: atoms that are equal feed the same.
    pub fn feed(&self, hasher: &mut impl Hasher) {
        hasher.write(self.path.as_str().as_bytes());
        self.test.feed(hasher);
    }
}

fn holds(test: &Test, leaf: Leaf<'_>) -> bool {
    match leaf {
        Leaf::Missing => test.holds(None),
        Leaf::Value(value) | Leaf::Element(value) => test.holds(Some(value)),
    }
}

/// Whether a document satisfies a tree of atoms.
pub(super) fn matches(expr: &Expr<Atom>, document: &RawDocument) -> bool {
    expr.holds(&mut |atom| atom.matches(document))
}
