//! From the images of a change to its effect on one query's answer.
//!
//! Where the state before is not known, the members of outstanding copies stand in for it: a record that is
//! in none of them cannot leave any. Where the state after is one that was looked up later, it is taken for
//! the state after. That is sound: a copy that holds the record is touched in any case; one that does not
//! was right when the lookup was made, unless the record matched then, and every change after the lookup has
//! an event of its own.

use freshet_core::notification::Effect;

use super::shapes::{Event, ShapeId, Slot};
use super::window::{Followed, Place};

/// In the match set?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum In {
    No,
    Yes,
    Maybe,
}

impl From<bool> for In {
    fn from(matched: bool) -> In {
        if matched { In::Yes } else { In::No }
    }
}

/// What the change did to the answers that are out; `None`: nothing. `window`: what they show of the order, where that
/// is known.
pub(super) fn judge(
    was: In,
    is: In,
    id: ShapeId,
    slot: &Slot,
    mut window: Option<&mut Followed>,
    event: &mut Event<'_>,
) -> Option<Effect> {
    let effect = match (was, is) {
        (In::No, In::No) => return None,
        (In::Maybe, _) | (_, In::Maybe) => Effect::Maybe,
        (In::No, In::Yes) => match place_after(id, slot, window.as_deref(), event) {
            // More followed before, and more follows.
            Place::Beyond => {
                arrived(id, slot, window, event);
                return None;
            }
            Place::Ahead | Place::Inside => Effect::Add,
        },
        (In::Yes, In::No) => match place_before(id, slot, window.as_deref(), event) {
            Place::Beyond if !left(id, slot, window.as_deref_mut(), event) => return None,
            Place::Ahead if window.is_some_and(|window| window.shows_nothing()) => return None,
            Place::Beyond | Place::Ahead | Place::Inside => Effect::Remove,
        },
        (In::Yes, In::Yes) => stayed(id, slot, window, event)?,
    };
    effect.invalidates(slot.representation()).then_some(effect)
}

/// The record was in the match set, and is.
fn stayed(
    id: ShapeId,
    slot: &Slot,
    window: Option<&mut Followed>,
    event: &mut Event<'_>,
) -> Option<Effect> {
    if slot.pattern.is_empty() || !event.moved(id, slot) {
        return match place_after(id, slot, window.as_deref(), event) {
            Place::Inside if event.shows(id, slot) => Some(Effect::Change),
            Place::Beyond => {
                arrived(id, slot, window, event);
                None
            }
            _ => None,
        };
    }
    let before = place_before(id, slot, window.as_deref(), event);
    let after = place_after(id, slot, window.as_deref(), event);
    match (before, after) {
        (Place::Ahead, Place::Ahead) => None,
        (Place::Beyond, Place::Beyond) => {
            let (seen, before, after) = event.seen(id);
            let keys = seen.both(before, after, slot);
            if let Some(window) = window
                && let Some((before, after)) = keys
                && !window.moved(before, after)
            {
                arrived(id, slot, Some(window), event);
            }
            None
        }
        (Place::Inside, Place::Inside) if passes_none(id, slot, window, event) => {
            event.shows(id, slot).then_some(Effect::Change)
        }
        _ => Some(Effect::Move),
    }
}

/// Whether the record is known to leave the order as it was.
fn passes_none(
    id: ShapeId,
    slot: &Slot,
    window: Option<&mut Followed>,
    event: &mut Event<'_>,
) -> bool {
    let (seen, before, after) = event.seen(id);
    match (window, seen.both(before, after, slot)) {
        (Some(window), Some((before, after))) => window.passes_none(before, after, &slot.pattern),
        _ => false,
    }
}

/// The record is beyond the end now. Where states before may not be known it could go unnoticed: it is not relied on.
fn arrived(id: ShapeId, slot: &Slot, window: Option<&mut Followed>, event: &mut Event<'_>) {
    if !event.exact {
        return;
    }
    let (seen, _, document) = event.seen(id);
    if let Some(window) = window
        && let Some(key) = seen.after(document, slot)
    {
        window.arrived(key);
    }
}

/// The record was beyond the end. Whether it may have been the only one there.
fn left(id: ShapeId, slot: &Slot, window: Option<&mut Followed>, event: &mut Event<'_>) -> bool {
    let (seen, document, _) = event.seen(id);
    match (window, seen.before(document, slot)) {
        (Some(window), Some(key)) => window.left(key),
        _ => true,
    }
}

fn place_before(
    id: ShapeId,
    slot: &Slot,
    window: Option<&Followed>,
    event: &mut Event<'_>,
) -> Place {
    let Some(window) = window else {
        return Place::Inside;
    };
    let (seen, document, _) = event.seen(id);
    // A record without a place: the database refuses to sort it, and the query fails.
    seen.before(document, slot)
        .map_or(Place::Inside, |key| window.place(key, &slot.pattern))
}

fn place_after(
    id: ShapeId,
    slot: &Slot,
    window: Option<&Followed>,
    event: &mut Event<'_>,
) -> Place {
    let Some(window) = window else {
        return Place::Inside;
    };
    let (seen, _, document) = event.seen(id);
    seen.after(document, slot)
        .map_or(Place::Inside, |key| window.place(key, &slot.pattern))
}
