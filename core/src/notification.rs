//! What a change means for a query: add, change, move, remove; and which of them invalidate which
//! representation (Quaestor: an id list is not touched by a pure change, an object list by anything).

/// What a change did to one query's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The record entered the match set.
    Add,
    /// It stays where it is, with another content.
    Change,
    /// It stays in the match set, at another place of the order.
    Move,
    /// It left the match set.
    Remove,
    /// It cannot be told: counts as all of them.
    Maybe,
}

/// What a cached answer is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Representation {
    /// Whole records.
    Objects,
    /// References to records.
    Ids,
    /// A number.
    Count,
    /// Computed from the records.
    Aggregate,
}

impl Effect {
    /// Whether an answer of this make is stale after it.
    #[must_use]
    pub fn invalidates(self, representation: Representation) -> bool {
        match representation {
            Representation::Objects | Representation::Aggregate => true,
            Representation::Ids => self != Effect::Change,
            Representation::Count => !matches!(self, Effect::Change | Effect::Move),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Effect::{Add, Change, Maybe, Move, Remove};
    use super::Representation::{Aggregate, Count, Ids, Objects};

    #[test]
    fn the_table_of_the_paper() {
        let table = [
            (Add, true, true, true),
            (Change, true, false, false),
            (Move, true, true, false),
            (Remove, true, true, true),
            (Maybe, true, true, true),
        ];
        for (effect, objects, ids, count) in table {
            assert_eq!(effect.invalidates(Objects), objects);
            assert_eq!(effect.invalidates(Aggregate), objects);
            assert_eq!(effect.invalidates(Ids), ids);
            assert_eq!(effect.invalidates(Count), count);
        }
    }
}
