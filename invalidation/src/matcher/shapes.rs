//! The shapes of a collection's answers, each known by a number; and what an event means for one: the record's places
//! in the order, and whether what is shown of it differs. Found out at most once per event and shape.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use bson::{RawBsonRef, RawDocument};
use foldhash::fast::FixedState;
use freshet_core::notification::Representation;
use freshet_core::value::path::Path;
use freshet_core::value::sort::{Direction, compare_keys, sort_key};

use super::facts::Facts;
use super::interned::{Fed, Interned};
use super::paths::{Paths, RootId, RootSet};
use super::watch::{Shape, View};

/// A shape.
pub(super) type ShapeId = u32;

#[derive(Debug)]
pub(super) struct Slot {
    shape: Shape,
    /// Empty where the order does not show.
    pub(super) pattern: Vec<(Path, Direction)>,
    /// What the order and the view look at.
    pub(super) roots: RootSet,
    view_roots: RootSet,
    held: Vec<RootId>,
}

impl Fed for Slot {
    fn feed(&self, hasher: &mut impl Hasher) {
        self.shape.feed(hasher);
    }
}

impl Fed for Shape {
    fn feed(&self, mut hasher: &mut impl Hasher) {
        self.representation.hash(&mut hasher);
        self.order.hash(&mut hasher);
        match &self.view {
            View::Projection(projection) => projection.paths().for_each(|p| p.hash(&mut hasher)),
            View::Fields(of) => of.paths().hash(&mut hasher),
            View::Nothing | View::Whole => {}
        }
    }
}

impl Slot {
    pub(super) fn representation(&self) -> Representation {
        self.shape.representation
    }

    /// Whether a record can move without a change of what is shown of it.
    pub(super) fn hides_moves(&self) -> bool {
        self.shape.view != View::Whole
    }

    /// Whether an answer lists its records.
    pub(super) fn lists(&self) -> bool {
        matches!(
            self.shape.representation,
            Representation::Objects | Representation::Ids
        )
    }
}

/// The shapes.
#[derive(Debug, Default)]
pub(super) struct Shapes(Interned<Slot>);

impl Shapes {
    /// The number of a shape, for one user more.
    pub(super) fn intern(&mut self, shape: &Shape, paths: &mut Paths) -> ShapeId {
        let known = self.0.share(shape, |slot| slot.shape == *shape);
        known.unwrap_or_else(|| self.0.add(slot(shape, paths)))
    }

    /// One user less.
    pub(super) fn release(&mut self, id: ShapeId, paths: &mut Paths) {
        if let Some(slot) = self.0.release(id) {
            slot.held.iter().for_each(|root| paths.release_root(*root));
        }
    }

    pub(super) fn get(&self, id: ShapeId) -> Option<&Slot> {
        self.0.get(id)
    }
}

fn slot(shape: &Shape, paths: &mut Paths) -> Slot {
    let pattern = shape.order.as_ref().map_or_else(Vec::new, |o| o.pattern());
    let mut held = Vec::new();
    let mut collect = |names: &mut dyn Iterator<Item = &str>| {
        let mut set = RootSet::default();
        for name in names {
            let root = paths.intern_root(name);
            held.push(root);
            set.insert(root);
        }
        set
    };
    let ordered = collect(&mut pattern.iter().map(|(path, _)| path.root()));
    let view_roots = match &shape.view {
        View::Nothing => RootSet::default(),
        View::Whole => RootSet::ALL,
        View::Projection(projection) if projection.paths().any(|(_, show)| show) => {
            let names = projection.paths().filter(|(_, show)| *show);
            collect(&mut names.map(|(path, _)| path.split('.').next().unwrap_or(path)))
        }
        View::Projection(_) => RootSet::ALL,
        View::Fields(of) => {
            let paths = of.paths().into_iter().flatten();
            collect(&mut paths.map(|path| path.split('.').next().unwrap_or(path)))
        }
    };
    Slot {
        shape: shape.clone(),
        pattern,
        roots: ordered.union(view_roots),
        view_roots,
        held,
    }
}

/// What one event means for shapes.
pub(super) struct Event<'a> {
    pub(super) before: Option<&'a RawDocument>,
    pub(super) after: Option<&'a RawDocument>,
    /// The roots that differ between the images, where both are known.
    pub(super) changed: RootSet,
    /// Both states of every write are known, or else every query is in doubt.
    pub(super) exact: bool,
    seen: HashMap<ShapeId, Seen<'a>, FixedState>,
}

/// A sort key; `None`: the document has none, the database would refuse to sort it.
pub(super) type Place<'a> = Option<Vec<RawBsonRef<'a>>>;

/// What was found out for one shape.
#[derive(Default)]
pub(super) struct Seen<'a> {
    before: Option<Place<'a>>,
    after: Option<Place<'a>>,
    moved: Option<bool>,
    shows: Option<bool>,
}

impl<'a> Event<'a> {
    pub(super) fn of(
        before: Option<&Facts<'a>>,
        after: Option<&Facts<'a>>,
        changed: RootSet,
        exact: bool,
    ) -> Event<'a> {
        Event {
            before: before.map(Facts::document),
            after: after.map(Facts::document),
            changed,
            exact,
            seen: HashMap::default(),
        }
    }

    pub(super) fn seen(
        &mut self,
        id: ShapeId,
    ) -> (
        &mut Seen<'a>,
        Option<&'a RawDocument>,
        Option<&'a RawDocument>,
    ) {
        (self.seen.entry(id).or_default(), self.before, self.after)
    }

    /// Whether the record's place in the order differs between the images. In doubt it does.
    pub(super) fn moved(&mut self, id: ShapeId, slot: &Slot) -> bool {
        let (seen, before, after) = self.seen(id);
        if let Some(moved) = seen.moved {
            return moved;
        }
        seen.before(before, slot);
        seen.after(after, slot);
        let moved = match (&seen.before, &seen.after) {
            (Some(Some(a)), Some(Some(b))) => compare_keys(a, b, &slot.pattern).is_ne(),
            _ => true,
        };
        *seen.moved.insert(moved)
    }

    /// Whether what an answer shows of the record differs between the images.
    pub(super) fn shows(&mut self, id: ShapeId, slot: &Slot) -> bool {
        let changed = self.changed;
        let (seen, before, after) = self.seen(id);
        if let Some(shows) = seen.shows {
            return shows;
        }
        let shows = match (before, after) {
            (Some(_), Some(_))
                if !slot.view_roots.meets(changed) && slot.view_roots != RootSet::ALL =>
            {
                false
            }
            (Some(before), Some(after)) => differs(&slot.shape.view, before, after),
            _ => true,
        };
        *seen.shows.insert(shows)
    }
}

impl<'a> Seen<'a> {
    /// The key of the image before.
    pub(super) fn before(
        &mut self,
        document: Option<&'a RawDocument>,
        slot: &Slot,
    ) -> Option<&[RawBsonRef<'a>]> {
        key(&mut self.before, document, slot)
    }

    /// The key of the image after.
    pub(super) fn after(
        &mut self,
        document: Option<&'a RawDocument>,
        slot: &Slot,
    ) -> Option<&[RawBsonRef<'a>]> {
        key(&mut self.after, document, slot)
    }

    /// The keys of both.
    pub(super) fn both(
        &mut self,
        before: Option<&'a RawDocument>,
        after: Option<&'a RawDocument>,
        slot: &Slot,
    ) -> Option<(&[RawBsonRef<'a>], &[RawBsonRef<'a>])> {
        let Seen {
            before: place_before,
            after: place_after,
            ..
        } = self;
        key(place_before, before, slot).zip(key(place_after, after, slot))
    }
}

fn key<'s, 'a>(
    place: &'s mut Option<Place<'a>>,
    document: Option<&'a RawDocument>,
    slot: &Slot,
) -> Option<&'s [RawBsonRef<'a>]> {
    let found = || document.and_then(|document| sort_key(document, &slot.pattern).ok());
    place.get_or_insert_with(found).as_deref()
}

/// Whether a view shows the images differently.
pub(super) fn differs(view: &View, before: &RawDocument, after: &RawDocument) -> bool {
    if before.as_bytes() == after.as_bytes() {
        return false;
    }
    match view {
        View::Nothing => false,
        View::Whole => true,
        View::Projection(projection) => match (projection.apply(before), projection.apply(after)) {
            (Ok(before), Ok(after)) => before.as_bytes() != after.as_bytes(),
            _ => true,
        },
        View::Fields(of) => !of.unchanged(before, after),
    }
}
