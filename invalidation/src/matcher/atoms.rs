//! The atoms of all queries of a collection: equal ones are one, and each is evaluated at most once per image of an
//! event, however many queries ask for it.

use std::hash::Hasher;

use freshet_core::predicate::Atom;

use super::facts::Facts;
use super::interned::{Fed, Interned};
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
    memo: Memo,
}

impl Fed for Slot {
    fn feed(&self, hasher: &mut impl Hasher) {
        self.atom.feed(hasher);
    }
}

impl Fed for Atom {
    fn feed(&self, hasher: &mut impl Hasher) {
        Atom::feed(self, hasher);
    }
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
    known: Interned<Slot>,
    event: u32,
    evaluations: u64,
    #[cfg(test)]
    pub(super) failing: Option<String>,
}

impl Atoms {
    /// The number of an atom, for one user more.
    pub(super) fn intern(&mut self, atom: Atom, paths: &mut Paths) -> AtomId {
        if let Some(id) = self.known.share(&atom, |slot| slot.atom == atom) {
            return id;
        }
        self.known.add(Slot {
            path: paths.intern(atom.path()),
            atom,
            memo: Memo::default(),
        })
    }

    /// One user less.
    pub(super) fn release(&mut self, id: AtomId, paths: &mut Paths) {
        if let Some(slot) = self.known.release(id) {
            paths.release(slot.path);
        }
    }

    pub(super) fn get(&self, id: AtomId) -> Option<(&Atom, PathId)> {
        let slot = self.known.get(id)?;
        Some((&slot.atom, slot.path))
    }

    /// Has the atom in the processor's cache soon.
    pub(super) fn glance(&self, id: AtomId) -> u64 {
        self.known
            .get(id)
            .map_or(0, |slot| u64::from(slot.memo.event))
    }

    /// The same of what it compares with.
    pub(super) fn glance_at_operand(&self, id: AtomId) -> u64 {
        self.known
            .get(id)
            .map_or(0, |slot| u64::from(slot.atom.glance()))
    }

    /// Forgets what the last event had.
    pub(super) fn next_event(&mut self) {
        self.event = self.event.wrapping_add(1);
        if self.event == 0 {
            // All the numbers were used: none may look like this event's.
            let slots = self.known.iter_mut();
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
        let Some(slot) = self.known.get_mut(id) else {
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
        self.known.len()
    }
}
