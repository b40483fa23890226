//! Where the records of a short window lie, one by one: a record that moves between its neighbours leaves the order as it
//! was, and what an answer shows of the order is the same. Followed through the moves that are let pass; in doubt a move
//! counts.

use bson::RawBsonRef;
use freshet_core::value::order_key::OrderKey;
use freshet_core::value::sort::{Direction, Pattern, digest_of_key};

/// Records of a window whose places are kept.
pub(super) const PLACES_MAX: usize = 20;

/// A record's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The whole sort key, and so the record.
    known_by: u64,
    /// By the first field of the order. Equal ones say nothing.
    at: OrderKey,
}

impl Place {
    /// Of a record with this sort key; `None`: it has no place.
    pub(super) fn of(key: &[RawBsonRef<'_>]) -> Option<Place> {
        Some(Place {
            known_by: digest_of_key(key),
            at: OrderKey::of(*key.first()?),
        })
    }
}

/// A record moves. Whether it is known to pass none of the others; if so, it is followed. `ends`: a cursor names the last
/// of them, wherever that is.
pub(super) fn passes_none(
    places: &mut [Place],
    before: &[RawBsonRef<'_>],
    after: &[RawBsonRef<'_>],
    pattern: &Pattern,
    ends: bool,
) -> bool {
    let (Some(before), Some(after), Some((_, direction))) =
        (Place::of(before), Place::of(after), pattern.first())
    else {
        return false;
    };
    let Some(here) = places.iter().position(|place| *place == before) else {
        return false;
    };
    let precedes = |a: Place, b: Place| match direction {
        Direction::Ascending => a.at < b.at,
        Direction::Descending => a.at > b.at,
    };
    let earlier = here.checked_sub(1).and_then(|at| places.get(at));
    let later = places.get(here + 1);
    let passes = earlier.is_some_and(|one| !precedes(*one, after))
        || later.is_some_and(|one| !precedes(after, *one))
        || later.is_none() && ends;
    if !passes {
        places[here] = after;
    }
    !passes
}
