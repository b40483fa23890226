//! The active list: what is matched, and for how long. A resource is active from before its read (rule C1)
//! until no copy can be outstanding; within that time no change of it goes unmatched.

mod active;
mod watched;

use std::collections::HashMap;

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Moment, Position};

pub use active::Active;
pub use watched::{Images, Matches, Order, Resource, Watched};

/// What may be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Queries, counts and record forms, over all collections.
    pub active_max: usize,
    /// Members known per query; beyond it any change of unknown origin touches the query.
    pub members_max: usize,
    /// How long a ticket can be settled, milliseconds.
    pub ticket_ms: u64,
}

/// No room for one more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("as many resources are active as may be")]
pub struct Full;

/// The active list.
#[derive(Debug)]
pub struct Registry {
    limits: RegistryLimits,
    collections: HashMap<Namespace, Collection>,
    active: usize,
    /// Every change at or before it is matched, with what was active then.
    matched: Position,
    shape: u64,
}

/// What is active in one collection.
#[derive(Debug, Default)]
pub struct Collection {
    images: Images,
    queries: HashMap<Key, Active>,
    /// A record's other forms, by its own key.
    forms: HashMap<Key, HashMap<Key, Active>>,
}

impl Registry {
    /// Nothing is active.
    #[must_use]
    pub fn new(limits: RegistryLimits) -> Registry {
        Registry {
            limits,
            collections: HashMap::new(),
            active: 0,
            matched: Position::ZERO,
            shape: 0,
        }
    }

    /// Activates a resource; answers the position after which every change is matched with it. One step:
    /// no change is matched in between.
    ///
    /// # Errors
    /// [`Full`].
    pub fn begin(&mut self, resource: &Resource, now: Moment) -> Result<Position, Full> {
        if self.active >= self.limits.active_max {
            self.sweep(now);
        }
        let room = self.active < self.limits.active_max;
        let until = now.after_ms(self.limits.ticket_ms);
        let collection = self
            .collections
            .entry(resource.namespace.clone())
            .or_default();
        let Some(place) = collection.place(resource) else {
            return Ok(self.matched); // the record itself is always matched
        };
        if let Some(active) = place.get_mut(resource.key.as_str()) {
            active.begin(until);
            return Ok(self.matched);
        }
        if !room {
            return Err(Full);
        }
        let mut active = Active::new(resource.watched.clone());
        active.begin(until);
        place.insert(resource.key.clone(), active);
        self.active += 1;
        Ok(self.matched)
    }

    /// A copy is about to be issued that may live for `span_ms`: keeps the resource active until it is gone,
    /// and learns its members. False: it is not active any more.
    #[must_use]
    pub fn settle(
        &mut self,
        resource: &Resource,
        members: &[Key],
        position: Position,
        span_ms: u64,
        now: Moment,
    ) -> bool {
        // The sketch's clock may be another one's; the ticket's term is slack enough for the way there.
        let until = now.after_ms(span_ms.saturating_add(self.limits.ticket_ms));
        let Some(collection) = self.collections.get_mut(&resource.namespace) else {
            return matches!(resource.watched, Watched::Record) && resource.form_of().is_none();
        };
        let known = collection.images == Images::AfterOnly;
        let members_max = self.limits.members_max;
        let Some(place) = collection.place(resource) else {
            return true; // the record itself is always matched
        };
        match place.get_mut(resource.key.as_str()) {
            Some(active) => {
                active.settle(known.then_some(members), position, members_max, until);
                true
            }
            None => false,
        }
    }

    /// Activates a resource of which an earlier life of this process issued copies that may live until
    /// `until`; their members are not known.
    ///
    /// # Errors
    /// [`Full`].
    pub fn revive(&mut self, resource: &Resource, until: Moment, now: Moment) -> Result<(), Full> {
        self.begin(resource, now)?;
        let collection = self.collections.get_mut(&resource.namespace);
        if let Some(active) = collection
            .and_then(|collection| collection.place(resource))
            .and_then(|place| place.get_mut(resource.key.as_str()))
        {
            active.settle(None, Position::ZERO, 0, until);
            active.release();
        }
        Ok(())
    }

    /// The ticket is gone: its read is settled, or came to nothing.
    pub fn release(&mut self, resource: &Resource) {
        if let Some(active) = self
            .collections
            .get_mut(&resource.namespace)
            .and_then(|collection| collection.place(resource))
            .and_then(|place| place.get_mut(resource.key.as_str()))
        {
            active.release();
        }
    }

    /// What the change feed says about a collection. When it promises less than before, members are not
    /// known until copies were settled anew: such resources are touched by any change of unknown origin.
    pub fn declare(&mut self, namespace: &Namespace, images: Images) {
        let collection = self.collections.entry(namespace.clone()).or_default();
        collection.images = images;
    }

    /// A collection was created, dropped or renamed, or may have been.
    pub fn reshape(&mut self) {
        self.shape += 1;
    }

    /// How often that was so.
    #[must_use]
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// The collection's active resources, to match a change with.
    pub fn collection(&mut self, namespace: &Namespace) -> Option<&mut Collection> {
        self.collections.get_mut(namespace)
    }

    /// Every change at or before `position` is matched.
    pub fn matched_through(&mut self, position: Position) {
        self.matched = self.matched.max(position);
    }

    /// Every change at or before it is matched.
    #[must_use]
    pub fn matched(&self) -> Position {
        self.matched
    }

    /// How many are active.
    #[must_use]
    pub fn len(&self) -> usize {
        self.active
    }

    /// Whether nothing is active.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.active == 0
    }

    /// Deactivates what no copy can be outstanding of.
    pub fn sweep(&mut self, now: Moment) {
        self.active = 0;
        for collection in self.collections.values_mut() {
            collection.queries.retain(|_, active| active.is_kept(now));
            collection.forms.retain(|_, forms| {
                forms.retain(|_, active| active.is_kept(now));
                !forms.is_empty()
            });
            let forms = collection.forms.values().map(HashMap::len).sum::<usize>();
            self.active += collection.queries.len() + forms;
        }
        // Names that were only asked for make room; a promise of images is remembered.
        self.collections.retain(|_, collection| {
            let idle = collection.queries.is_empty() && collection.forms.is_empty();
            !idle || collection.images == Images::Both
        });
    }
}

impl Collection {
    /// Where the resource stands when it is active; `None`: it needs no place.
    fn place(&mut self, resource: &Resource) -> Option<&mut HashMap<Key, Active>> {
        match &resource.watched {
            Watched::Record => Some(self.forms.entry(resource.form_of()?).or_default()),
            Watched::Query { .. } | Watched::Count(_) => Some(&mut self.queries),
        }
    }

    /// Active queries and counts.
    pub fn queries(&mut self) -> impl Iterator<Item = (&Key, &mut Active)> {
        self.queries.iter_mut()
    }

    /// The active forms of a record, beside the record itself.
    pub fn forms(&self, record: &Key) -> impl Iterator<Item = &Key> {
        self.forms
            .get(record.as_str())
            .into_iter()
            .flat_map(HashMap::keys)
    }
}
