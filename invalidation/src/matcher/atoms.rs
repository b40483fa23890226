//! The atoms of all queries of a collection: equal ones are one, and each is evaluated at most once per image of an
//! event, however many queries ask for it.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use freshet_core::predicate::Atom;
use hashbrown::HashTable;

use super::facts::Facts;
use super::paths::{PathId, Paths};

/// An atom.
pub(super) type AtomId = u32;

/// Which image of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Before,
    After,
}

#[derive(Debug)]
struct Slot {
    atom: Atom,
    path: PathId,
    users: u32,
    memo: Memo,
}

/// What is known of the event being matched.
#[derive(Clone, Copy, Debug, Default)]
struct Memo {
    event: u32,
    /// Two bits for each image: known, holds.
    bits: u8,
}

/// The atoms.
#[derive(Debug, Default)]
pub(super) struct Atoms {
    table: HashTable<AtomId>,
    slots: Vec<Option<Slot>>,
    free: Vec<AtomId>,
    event: u32,
    evaluations: u64,
    #[cfg(test)]
    pub(super) failing: Option<String>,
}

impl Atoms {
    /// The number of an atom, for one user more.
    pub(super) fn intern(&mut self, atom: Atom, paths: &mut Paths) -> AtomId {
        let hash = hash(&atom);
        let slots = &mut self.slots;
        let same = |id: &AtomId| {
            slots[*id as usize]
                .as_ref()
                .is_some_and(|slot| slot.atom == atom)
        };
        if let Some(id) = self.table.find(hash, same) {
            let id = *id;
            if let Some(Some(slot)) = slots.get_mut(id as usize) {
                slot.users += 1;
            }
            return id;
        }
        let path = paths.intern(atom.path());
        let slot = Some(Slot {
            path,
            atom,
            users: 1,
            memo: Memo::default(),
        });
        let id = match self.free.pop() {
            Some(id) => {
                slots[id as usize] = slot;
                id
            }
            None => {
                slots.push(slot);
                u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let rehash = |id: &AtomId| match &slots[*id as usize] {
            Some(slot) => self::hash(&slot.atom),
            None => 0,
        };
        self.table.insert_unique(hash, id, rehash);
        id
    }

    /// One user less.
    pub(super) fn release(&mut self, id: AtomId, paths: &mut Paths) {
        let Some(Some(slot)) = self.slots.get_mut(id as usize) else {
            return;
        };
        slot.users -= 1;
        if slot.users > 0 {
            return;
        }
        let hash = hash(&slot.atom);
        paths.release(slot.path);
        if let Ok(entry) = self.table.find_entry(hash, |one| *one == id) {
            entry.remove();
        }
        self.slots[id as usize] = None;
        self.free.push(id);
    }

    pub(super) fn get(&self, id: AtomId) -> Option<(&Atom, PathId)> {
        let slot = self.slots.get(id as usize)?.as_ref()?;
        Some((&slot.atom, slot.path))
    }

    /// Has the atom in the processor's cache soon.
    pub(super) fn glance(&self, id: AtomId) -> u64 {
        let slot = self.slots.get(id as usize).and_then(Option::as_ref);
        slot.map_or(0, |slot| u64::from(slot.memo.event))
    }

    /// Forgets what the last event had.
    pub(super) fn next_event(&mut self) {
        self.event = self.event.wrapping_add(1);
        if self.event == 0 {
            // All the numbers were used: none may look like this event's.
            let slots = self.slots.iter_mut().flatten();
            slots.for_each(|slot| slot.memo = Memo::default());
            self.event = 1;
        }
    }

    /// Whether an atom holds of an image of this event.
    pub(super) fn holds(
        &mut self,
        id: AtomId,
        side: Side,
        facts: &mut Facts<'_>,
        paths: &Paths,
    ) -> bool {
        let Some(Some(slot)) = self.slots.get_mut(id as usize) else {
            return false;
        };
        if slot.memo.event != self.event {
            slot.memo = Memo {
                event: self.event,
                bits: 0,
            };
        }
        let (known, holds) = match side {
            Side::Before => (0b01, 0b10),
            Side::After => (0b0100, 0b1000),
        };
        if slot.memo.bits & known == 0 {
            self.evaluations += 1;
            #[cfg(test)]
            assert_ne!(self.failing.as_deref(), Some(slot.atom.path().as_str()));
            let leaves = facts.leaves(slot.path, paths);
            let held = slot.atom.holds_of(leaves);
            slot.memo.bits |= known | if held { holds } else { 0 };
        }
        slot.memo.bits & holds != 0
    }

    /// Evaluations so far.
    pub(super) fn evaluations(&self) -> u64 {
        self.evaluations
    }

    /// Atoms there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

fn hash(atom: &Atom) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    atom.feed(&mut hasher);
    hasher.finish()
}
