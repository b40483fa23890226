//! From the images of a change to its effect on one query.
//!
//! Where the state before is not known, the members of outstanding copies stand in for it: a record that is
//! in none of them cannot leave any. Where the state after is one that was looked up later, it is taken for
//! the state after. That is sound: a copy that holds the record is touched in any case; one that does not
//! was right when the lookup was made, unless the record matched then, and every change after the lookup has
//! an event of its own.

use bson::RawDocument;
use freshet_core::change::Image;
use freshet_core::notification::Effect;

use crate::registry::Order;

/// In the match set?
#[derive(Clone, Copy, PartialEq, Eq)]
enum In {
    No,
    Yes,
    Maybe,
}

impl From<Option<bool>> for In {
    fn from(matched: Option<bool>) -> In {
        match matched {
            Some(true) => In::Yes,
            Some(false) => In::No,
            None => In::Maybe,
        }
    }
}

/// What the change did to the query's match set; `None`: nothing. `held`: whether the record may be in an
/// answer; `matches`: the filter, `None` when it failed.
pub(super) fn effect(
    before: &Image,
    after: &Image,
    order: Option<&dyn Order>,
    held: impl FnOnce() -> bool,
    matches: &mut impl FnMut(&RawDocument) -> Option<bool>,
) -> Option<Effect> {
    let is_in = match after {
        Image::Known(document) | Image::Later(Some(document)) => In::from(matches(document)),
        Image::Absent | Image::Later(None) => In::No,
        Image::Unknown => In::Maybe,
    };
    let was_in = match before {
        Image::Known(document) => In::from(matches(document)),
        Image::Absent => In::No,
        Image::Later(_) | Image::Unknown => match held() {
            true => In::Maybe,
            false => In::No,
        },
    };
    match (was_in, is_in) {
        (In::No, In::No) => None,
        (In::No, In::Yes) => Some(Effect::Add),
        (In::Yes, In::No) => Some(Effect::Remove),
        (In::Yes, In::Yes) if same_place(before, after, order) => Some(Effect::Change),
        (In::Yes, In::Yes) => Some(Effect::Move),
        (In::Maybe, _) | (_, In::Maybe) => Some(Effect::Maybe),
    }
}

/// Whether the record surely keeps its place.
fn same_place(before: &Image, after: &Image, order: Option<&dyn Order>) -> bool {
    let Some(order) = order else {
        return true; // by _id, which never changes
    };
    match (before, after) {
        (Image::Known(before), Image::Known(after)) => order.same_place(before, after),
        _ => false,
    }
}
