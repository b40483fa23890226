//! What queries have in common, each thing once: known by a number as long as it has users. The number is given again
//! once nobody uses it.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// Tells itself from others: equal ones feed the same.
pub(super) trait Fed {
    fn feed(&self, hasher: &mut impl Hasher);
}

impl Fed for str {
    fn feed(&self, hasher: &mut impl Hasher) {
        hasher.write(self.as_bytes());
    }
}

impl Fed for Box<str> {
    fn feed(&self, hasher: &mut impl Hasher) {
        (**self).feed(hasher);
    }
}

/// The things.
#[derive(Debug)]
pub(super) struct Interned<T> {
    /// Nobody outside can guess it: names and values come from requests.
    state: RandomState,
    table: HashTable<u32>,
    slots: Vec<Option<Slot<T>>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<T> {
    what: T,
    users: u32,
}

impl<T> Default for Interned<T> {
    fn default() -> Interned<T> {
        Interned {
            state: RandomState::default(),
            table: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T: Fed> Interned<T> {
    /// The number of what is the same.
    pub(super) fn known(
        &self,
        asked: &(impl Fed + ?Sized),
        same: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let is_it = |id: &u32| self.get(*id).is_some_and(&same);
        self.table.find(hash(&self.state, asked), is_it).copied()
    }

    /// The same, for one user more.
    pub(super) fn share(
        &mut self,
        asked: &(impl Fed + ?Sized),
        same: impl Fn(&T) -> bool,
    ) -> Option<u32> {
        let id = self.known(asked, same)?;
        if let Some(Some(slot)) = self.slots.get_mut(id as usize) {
            slot.users += 1;
        }
        Some(id)
    }

    /// The number of something new, which has one user.
    pub(super) fn add(&mut self, what: T) -> u32 {
        let Interned {
            state,
            table,
            slots,
            free,
        } = self;
        let hash_of_it = hash(state, &what);
        let slot = Some(Slot { what, users: 1 });
        let id = match free.pop() {
            Some(id) => {
                slots[id as usize] = slot;
                id
            }
            None => {
                slots.push(slot);
                u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
            }
        };
        let rehash = |id: &u32| {
            slots[*id as usize]
                .as_ref()
                .map_or(0, |slot| hash(state, &slot.what))
        };
        table.insert_unique(hash_of_it, id, rehash);
        id
    }

    /// One user less; what is left when it was the last.
    pub(super) fn release(&mut self, id: u32) -> Option<T> {
        let place = self.slots.get_mut(id as usize)?;
        let slot = place.as_mut()?;
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = place.take()?;
        let listed = self
            .table
            .find_entry(hash(&self.state, &slot.what), |one| *one == id);
        if let Ok(listed) = listed {
            listed.remove();
        }
        self.free.push(id);
        Some(slot.what)
    }
}

impl<T> Interned<T> {
    pub(super) fn get(&self, id: u32) -> Option<&T> {
        let slot = self.slots.get(id as usize)?.as_ref()?;
        Some(&slot.what)
    }

    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(id as usize)?.as_mut()?;
        Some(&mut slot.what)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().flatten().map(|slot| &mut slot.what)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// One more than the greatest number.
    pub(super) fn end(&self) -> usize {
        self.slots.len()
    }
}

fn hash(state: &RandomState, what: &(impl Fed + ?Sized)) -> u64 {
    let mut hasher = state.build_hasher();
    what.feed(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_things_have_one_number_as_long_as_they_have_users() {
        let mut names: Interned<Box<str>> = Interned::default();
        let number = |names: &mut Interned<Box<str>>, name: &str| {
            let known = names.share(name, |one| **one == *name);
            known.unwrap_or_else(|| names.add(name.into()))
        };
        let (a, b) = (number(&mut names, "a"), number(&mut names, "b"));
        assert_eq!(number(&mut names, "a"), a);
        assert_eq!((names.len(), names.end()), (2, 2));
        assert!(names.release(a).is_none(), "it has a user left");
        assert_eq!(names.release(a).as_deref(), Some("a"));
        assert_eq!(names.known("a", |one| &**one == "a"), None);
        assert_eq!(number(&mut names, "c"), a, "the number is given again");
        assert_eq!(names.known("b", |one| &**one == "b"), Some(b));
    }
}
