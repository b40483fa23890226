//! What is taken out of an event's images, once for all queries: the values of the roots, whether the write changed
//! them, and what each path leads to.

use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocument};
use freshet_core::value::path::{ArrayLeaf, Leaf};

use super::paths::{PathId, Paths, RootId, RootSet};

/// What one image holds.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    document: &'a RawDocument,
    roots: Vec<Option<RawBsonRef<'a>>>,
    leaves: Vec<Leaf<'a>>,
    /// Per path where its leaves are; not looked up yet at first.
    found: Vec<Option<(u32, u32)>>,
}

impl<'a> Facts<'a> {
    /// Reads the fields at the top, once.
    pub(super) fn of(document: &'a RawDocument, paths: &Paths) -> Facts<'a> {
        let mut roots = vec![None; paths.roots_len()];
        for element in document.iter_elements().map_while(Result::ok) {
            let Some(root) = paths.root(element.key().as_str()) else {
                continue;
            };
            let Ok(value) = element.value() else { break };
            let place = &mut roots[root as usize];
            // Of a name that stands twice the first counts, as in the database.
            if place.is_none() {
                *place = Some(value);
            }
        }
        Facts {
            document,
            roots,
            leaves: Vec::new(),
            found: vec![None; paths.len()],
        }
    }

    pub(super) fn document(&self) -> &'a RawDocument {
        self.document
    }

    pub(super) fn root(&self, root: RootId) -> Option<RawBsonRef<'a>> {
        self.roots.get(root as usize).copied().flatten()
    }

    /// What a path leads to, elements of arrays included.
    pub(super) fn leaves(&mut self, id: PathId, paths: &Paths) -> &[Leaf<'a>] {
        let (start, end) = match self.found.get(id as usize).copied().flatten() {
            Some(found) => found,
            None => self.look_up(id, paths),
        };
        &self.leaves[start as usize..end as usize]
    }

    fn look_up(&mut self, id: PathId, paths: &Paths) -> (u32, u32) {
        let start = self.leaves.len();
        if let Some(path) = paths.path(id) {
            let first = self.root(paths.root_of(id));
            let leaves = &mut self.leaves;
            let _ = path.visit_from(first, ArrayLeaf::Elements, |leaf| {
                leaves.push(leaf);
                ControlFlow::<()>::Continue(())
            });
        }
        let at = |index| u32::try_from(index).unwrap_or(u32::MAX);
        let found = (at(start), at(self.leaves.len()));
        if let Some(place) = self.found.get_mut(id as usize) {
            *place = Some(found);
        }
        found
    }
}

/// The roots whose values differ between two images, as bytes.
pub(super) fn changed(before: &Facts<'_>, after: &Facts<'_>) -> RootSet {
    let mut set = RootSet::default();
    for (root, (a, b)) in (0..).zip(before.roots.iter().zip(&after.roots)) {
        let same = match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => identical(*a, *b),
            _ => false,
        };
        if !same {
            set.insert(root);
        }
    }
    set
}

/// Whether two values are the same bytes: an answer shows -0, and a number's type.
fn identical(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    match (a, b) {
        (RawBsonRef::Double(a), RawBsonRef::Double(b)) => a.to_bits() == b.to_bits(),
        (RawBsonRef::Document(a), RawBsonRef::Document(b)) => a.as_bytes() == b.as_bytes(),
        (RawBsonRef::Array(a), RawBsonRef::Array(b)) => a.as_bytes() == b.as_bytes(),
        (a, b) => a == b,
    }
}
