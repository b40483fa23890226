//! The paths that a collection's queries look at, each known by a number; and the fields of a document that they begin
//! with, its *roots*. A root whose value a write left alone changes nothing for whoever looks below it.

use std::hash::Hasher;
use std::sync::Arc;

use freshet_core::value::path::Path;

use super::interned::{Fed, Interned};

/// A path.
pub(super) type PathId = u32;
/// A root.
pub(super) type RootId = u32;

/// A set of roots, in which different ones may coincide: bit i stands for every root i + 64·n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RootSet(u64);

impl RootSet {
    /// All of them, the unknown ones included.
    pub(super) const ALL: RootSet = RootSet(u64::MAX);

    pub(super) fn insert(&mut self, root: RootId) {
        self.0 |= 1 << (root % 64);
    }

    pub(super) fn union(self, other: RootSet) -> RootSet {
        RootSet(self.0 | other.0)
    }

    /// Whether they may have a root in common.
    pub(super) fn meets(self, other: RootSet) -> bool {
        self.0 & other.0 != 0
    }
}

#[derive(Debug)]
struct Known {
    path: Arc<Path>,
    root: RootId,
}

impl Fed for Known {
    fn feed(&self, hasher: &mut impl Hasher) {
        self.path.as_str().feed(hasher);
    }
}

/// The paths, and their roots.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Interned<Known>,
    roots: Interned<Box<str>>,
}

impl Paths {
    /// The number of a path, for one user more.
    pub(super) fn intern(&mut self, path: &Arc<Path>) -> PathId {
        let text = path.as_str();
        if let Some(id) = self.paths.share(text, |known| known.path.as_str() == text) {
            return id;
        }
        let root = self.intern_root(path.root());
        self.paths.add(Known {
            path: Arc::clone(path),
            root,
        })
    }

    /// One user of a path less.
    pub(super) fn release(&mut self, id: PathId) {
        if let Some(known) = self.paths.release(id) {
            self.roots.release(known.root);
        }
    }

    /// The number of a path that has users.
    pub(super) fn known(&self, text: &str) -> Option<PathId> {
        self.paths.known(text, |known| known.path.as_str() == text)
    }

    /// The number of a root, for one user more.
    pub(super) fn intern_root(&mut self, name: &str) -> RootId {
        let known = self.roots.share(name, |known| **known == *name);
        known.unwrap_or_else(|| self.roots.add(name.into()))
    }

    /// One user of a root less.
    pub(super) fn release_root(&mut self, id: RootId) {
        self.roots.release(id);
    }

    /// The root with this name, if anybody looks below it.
    pub(super) fn root(&self, name: &str) -> Option<RootId> {
        self.roots.known(name, |known| **known == *name)
    }

    pub(super) fn root_of(&self, id: PathId) -> RootId {
        self.paths.get(id).map_or(0, |known| known.root)
    }

    pub(super) fn path(&self, id: PathId) -> Option<&Arc<Path>> {
        self.paths.get(id).map(|known| &known.path)
    }

    /// One more than the greatest number of a path.
    pub(super) fn len(&self) -> usize {
        self.paths.end()
    }

    /// One more than the greatest number of a root.
    pub(super) fn roots_len(&self) -> usize {
        self.roots.end()
    }
}
