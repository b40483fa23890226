//! A set of ids that is walked through often, in the order of memory.

use std::collections::HashMap;

use foldhash::fast::FixedState;

/// The set.
#[derive(Debug, Default)]
pub(super) struct IdList {
    ids: Vec<u32>,
    places: HashMap<u32, u32, FixedState>,
}

impl IdList {
    pub(super) fn insert(&mut self, id: u32) {
        let place = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        if self.places.insert(id, place).is_none() {
            self.ids.push(id);
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        let Some(place) = self.places.remove(&id) else {
            return;
        };
        self.ids.swap_remove(place as usize);
        if let Some(moved) = self.ids.get(place as usize) {
            self.places.insert(*moved, place);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(u32)) {
        self.ids.iter().copied().for_each(visit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_in_and_not_taken_out_is_there() {
        let mut list = IdList::default();
        (0..10).for_each(|id| list.insert(id));
        [3, 9, 0, 3].iter().for_each(|id| list.remove(*id));
        let mut left = Vec::new();
        list.each(&mut |id| left.push(id));
        left.sort_unstable();
        assert_eq!(left, [1, 2, 4, 5, 6, 7, 8]);
        assert_eq!(list.len(), 7);
    }
}
