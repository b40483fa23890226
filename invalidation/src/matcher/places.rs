//! Where the records of a short window lie, one by one: a record that moves between its neighbours leaves the order as it
//! was, and what an answer shows of the order is the same. Followed through the moves that are let pass; in doubt a move
//! counts.

use std::cmp::Ordering;

use bson::RawBsonRef;
use freshet_core::value::sort::{Pattern, SortKey};

/// Records of a window whose places are kept.
pub(super) const PLACES_MAX: usize = 20;
/// And what their keys take when they are read.
const PLACES_BYTES_MAX: usize = 2_048;

/// Whether so many places are kept.
pub(super) fn are_few(places: &[SortKey]) -> bool {
    let bytes: usize = places.iter().map(SortKey::bytes).sum();
    places.len() <= PLACES_MAX && bytes <= PLACES_BYTES_MAX
}

/// A record moves. Whether it is known to pass none of the others, which lie at `places` in their order; if so, it is
/// followed. `ends`: a cursor names the last of them, wherever that is.
pub(super) fn passes_none(
    places: &mut [SortKey],
    before: &[RawBsonRef<'_>],
    after: &[RawBsonRef<'_>],
    pattern: &Pattern,
    ends: bool,
) -> bool {
    // The order ends with the `_id`: what lies there is this record.
    let is_here = |place: &SortKey| place.compare(before, pattern).is_eq();
    let (Some(here), Some(new)) = (places.iter().position(is_here), SortKey::of(after)) else {
        return false;
    };
    let is = |place: &SortKey, order: Ordering| place.compare(after, pattern) == order;
    let earlier = here.checked_sub(1).and_then(|at| places.get(at));
    let passes = earlier.is_some_and(|place| !is(place, Ordering::Less))
        || match places.get(here + 1) {
            Some(later) => !is(later, Ordering::Greater),
            None => ends,
        };
    if !passes {
        places[here] = new;
    }
    !passes
}
