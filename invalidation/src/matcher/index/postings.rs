//! A set of ids that mostly has one member, sometimes a few, rarely very many.

use std::collections::HashSet;

use foldhash::fast::FixedState;

/// Beyond it a list is too long to be searched.
const FEW_MAX: usize = 32;

/// The set. Each id is in it once.
#[derive(Debug, Default)]
pub(super) enum Postings {
    #[default]
    None,
    One(u32),
    Few(Vec<u32>),
    #[allow(clippy::box_collection, reason = "hardly any set is large")]
    Many(Box<HashSet<u32, FixedState>>),
}

impl Postings {
    pub(super) fn insert(&mut self, id: u32) {
        match self {
            Postings::None => *self = Postings::One(id),
            Postings::One(one) => *self = Postings::Few(vec![*one, id]),
            Postings::Few(few) if few.len() < FEW_MAX => few.push(id),
            Postings::Few(few) => {
                let many = few.drain(..).chain([id]).collect();
                *self = Postings::Many(Box::new(many));
            }
            Postings::Many(many) => drop(many.insert(id)),
        }
    }

    pub(super) fn remove(&mut self, id: u32) {
        match self {
            Postings::None => {}
            Postings::One(one) => {
                if *one == id {
                    *self = Postings::None;
                }
            }
            Postings::Few(few) => {
                if let Some(at) = few.iter().position(|one| *one == id) {
                    few.swap_remove(at);
                }
                if let [one] = few[..] {
                    *self = Postings::One(one);
                }
            }
            Postings::Many(many) => {
                many.remove(&id);
                if many.len() <= FEW_MAX / 2 {
                    *self = Postings::Few(many.iter().copied().collect());
                }
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, Postings::None)
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(u32)) {
        match self {
            Postings::None => {}
            Postings::One(one) => visit(*one),
            Postings::Few(few) => few.iter().copied().for_each(visit),
            Postings::Many(many) => many.iter().copied().for_each(visit),
        }
    }
}
