//! The paths that a collection's queries look at, each known by a number; and the fields of a document that they begin
//! with, its *roots*. A root whose value a write left alone changes nothing for whoever looks below it.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;
use freshet_core::value::path::Path;

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

/// A name with a number, as long as it has users. The number is given again once nobody uses it.
#[derive(Debug)]
struct Numbers<T> {
    by_text: HashMap<Arc<str>, u32, FixedState>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    text: Arc<str>,
    what: T,
    users: u32,
}

impl<T> Default for Numbers<T> {
    fn default() -> Numbers<T> {
        Numbers {
            by_text: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Numbers<T> {
    /// The number, for one user more; `new` makes what it stands for.
    fn intern(&mut self, text: &str, new: impl FnOnce() -> T) -> u32 {
        if let Some(id) = self.by_text.get(text) {
            if let Some(Some(slot)) = self.slots.get_mut(*id as usize) {
                slot.users += 1;
            }
            return *id;
        }
        let text: Arc<str> = text.into();
        let slot = Some(Slot {
            text: Arc::clone(&text),
            what: new(),
            users: 1,
        });
        let id = match self.free.pop() {
            Some(id) => {
                self.slots[id as usize] = slot;
                id
            }
            None => {
                self.slots.push(slot);
                u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        self.by_text.insert(text, id);
        id
    }

    /// One user less; what is left when it was the last.
    fn release(&mut self, id: u32) -> Option<T> {
        let place = self.slots.get_mut(id as usize)?;
        let slot = place.as_mut()?;
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = place.take()?;
        self.by_text.remove(&*slot.text);
        self.free.push(id);
        Some(slot.what)
    }

    fn get(&self, id: u32) -> Option<&T> {
        let slot = self.slots.get(id as usize)?.as_ref()?;
        Some(&slot.what)
    }
}

/// The paths, and their roots.
#[derive(Debug, Default)]
pub(super) struct Paths {
    paths: Numbers<(Arc<Path>, RootId)>,
    roots: Numbers<()>,
}

impl Paths {
    /// The number of a path, for one user more.
    pub(super) fn intern(&mut self, path: &Arc<Path>) -> PathId {
        let roots = &mut self.roots;
        self.paths.intern(path.as_str(), || {
            (Arc::clone(path), roots.intern(path.root(), || ()))
        })
    }

    /// One user of a path less.
    pub(super) fn release(&mut self, id: PathId) {
        if let Some((_, root)) = self.paths.release(id) {
            self.roots.release(root);
        }
    }

    /// The number of a path that has users.
    pub(super) fn known(&self, text: &str) -> Option<PathId> {
        self.paths.by_text.get(text).copied()
    }

    /// The number of a root, for one user more.
    pub(super) fn intern_root(&mut self, name: &str) -> RootId {
        self.roots.intern(name, || ())
    }

    /// One user of a root less.
    pub(super) fn release_root(&mut self, id: RootId) {
        self.roots.release(id);
    }

    /// The root with this name, if anybody looks below it.
    pub(super) fn root(&self, name: &str) -> Option<RootId> {
        self.roots.by_text.get(name).copied()
    }

    pub(super) fn root_of(&self, id: PathId) -> RootId {
        self.paths.get(id).map_or(0, |(_, root)| *root)
    }

    pub(super) fn path(&self, id: PathId) -> Option<&Arc<Path>> {
        self.paths.get(id).map(|(path, _)| path)
    }

    /// One more than the greatest number of a path.
    pub(super) fn len(&self) -> usize {
        self.paths.slots.len()
    }

    /// One more than the greatest number of a root.
    pub(super) fn roots_len(&self) -> usize {
        self.roots.slots.len()
    }
}
