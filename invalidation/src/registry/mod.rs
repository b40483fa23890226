//! The active list: what is matched, and for how long. A resource is active from before its read (rule C1)
//! until no copy can be outstanding; within that time no change of it goes unmatched.

mod collection;
mod due;
mod watched;

use std::collections::HashMap;

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::predicate::Undecidable;
use freshet_core::time::{Moment, Position};

use self::due::Due;
use crate::matcher::{QueryId, Shown};

pub use collection::Collection;
pub(crate) use collection::Touched;
pub use watched::{Images, Resource, Watched};

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

/// Why a resource is not active.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No room for one more.
    #[error("as many resources are active as may be")]
    Full,
    /// The matcher cannot decide it (rule C14).
    #[error(transparent)]
    Undecidable(#[from] Undecidable),
}

/// The active list.
#[derive(Debug)]
pub struct Registry {
    limits: RegistryLimits,
    collections: HashMap<Namespace, Collection>,
    due: Due<Listed>,
    active: usize,
    /// Every change at or before it is matched, with what was active then.
    matched: Position,
    shape: u64,
}

/// Something with a term.
#[derive(Clone, Debug)]
enum Listed {
    Query(Namespace, QueryId),
    Form(Namespace, Key, Key),
}

impl Registry {
    /// Nothing is active.
    #[must_use]
    pub fn new(limits: RegistryLimits) -> Registry {
        Registry {
            limits,
            collections: HashMap::new(),
            due: Due::default(),
            active: 0,
            matched: Position::ZERO,
            shape: 0,
        }
    }

    /// Activates a resource; answers the position after which every change is matched with it. One step:
    /// no change is matched in between.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn begin(&mut self, resource: &Resource, now: Moment) -> Result<Position, Refused> {
        let until = now.after_ms(self.limits.ticket_ms);
        match &resource.watched {
            _ if !resource.needs_place() => {}
            Watched::Record => self.begin_form(resource, until, now)?,
            Watched::Query(_) => {
                let id = self.activate(resource, until, now)?;
                let collection = self.collections.get_mut(&resource.namespace);
                collection
                    .into_iter()
                    .for_each(|c| c.matcher().begin(id, until));
            }
        }
        Ok(self.matched)
    }

    fn begin_form(
        &mut self,
        resource: &Resource,
        until: Moment,
        now: Moment,
    ) -> Result<(), Refused> {
        let collection = self.collections.get_mut(&resource.namespace);
        if let Some(form) = collection.and_then(|c| c.known_form(resource)) {
            form.keep_until = form.keep_until.max(until);
            return Ok(());
        }
        self.make_room(now)?;
        let collection = self
            .collections
            .entry(resource.namespace.clone())
            .or_default();
        if let (Some(form), Some(record)) = (collection.form(resource), resource.form_of()) {
            form.keep_until = until;
            self.active += 1;
            let listed = Listed::Form(resource.namespace.clone(), record, resource.key.clone());
            self.due.put(until, listed);
        }
        Ok(())
    }

    /// The query's number; the matcher learns of it where it is new.
    fn activate(
        &mut self,
        resource: &Resource,
        until: Moment,
        now: Moment,
    ) -> Result<QueryId, Refused> {
        let Watched::Query(watch) = &resource.watched else {
            return Err(Refused::Full);
        };
        let known = self.collections.get(&resource.namespace);
        if let Some(id) = known.and_then(|collection| collection.find(&resource.key)) {
            return Ok(id);
        }
        self.make_room(now)?;
        let collection = self
            .collections
            .entry(resource.namespace.clone())
            .or_default();
        let id = collection
            .matcher()
            .insert(resource.key.clone(), watch, None)?;
        collection.list(&resource.key, id);
        self.active += 1;
        self.due
            .put(until, Listed::Query(resource.namespace.clone(), id));
        Ok(id)
    }

    fn make_room(&mut self, now: Moment) -> Result<(), Refused> {
        if self.active >= self.limits.active_max {
            self.sweep(now);
        }
        match self.active < self.limits.active_max {
            true => Ok(()),
            false => Err(Refused::Full),
        }
    }

    /// A copy is about to be issued that may live for `span_ms`: keeps the resource active until it is gone,
    /// and learns what it shows. False: it is not active any more.
    #[must_use]
    pub fn settle(
        &mut self,
        resource: &Resource,
        shown: Shown<'_>,
        position: Position,
        span_ms: u64,
        now: Moment,
    ) -> bool {
        if !resource.needs_place() {
            return true; // the record itself is always matched
        }
        // The sketch's clock may be another one's; the ticket's term is slack enough for the way there.
        let until = now.after_ms(span_ms.saturating_add(self.limits.ticket_ms));
        let Some(collection) = self.collections.get_mut(&resource.namespace) else {
            return false;
        };
        if let Watched::Record = resource.watched {
            return match collection.known_form(resource) {
                Some(form) => {
                    form.keep_until = form.keep_until.max(until);
                    true
                }
                None => false,
            };
        }
        let Some(id) = collection.find(&resource.key) else {
            return false;
        };
        let known = collection.images == Images::AfterOnly;
        let shown = Shown {
            members: shown.members.filter(|of| known || of.is_empty()),
            ..shown
        };
        let members_max = self.limits.members_max;
        collection
            .matcher()
            .settle(id, &shown, position, members_max, until);
        true
    }

    /// Activates a resource of which an earlier life of this process issued copies that may live until
    /// `until`; what they show is not known.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn revive(
        &mut self,
        resource: &Resource,
        until: Moment,
        now: Moment,
    ) -> Result<(), Refused> {
        self.begin(resource, now)?;
        let span_ms = until.since(now);
        let _ = self.settle(resource, Shown::default(), Position::ZERO, span_ms, now);
        self.release(resource);
        Ok(())
    }

    /// The ticket is gone: its read is settled, or came to nothing.
    pub fn release(&mut self, resource: &Resource) {
        if let Watched::Query(_) = resource.watched
            && let Some(collection) = self.collections.get_mut(&resource.namespace)
            && let Some(id) = collection.find(&resource.key)
        {
            collection.matcher().release(id);
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
        for listed in self.due.take(now) {
            match self.sweep_one(&listed, now) {
                Some(keep_until) => self.due.put(keep_until, listed),
                None => self.active -= 1,
            }
        }
        // Idle names make room. What the feed says about one is declared anew before its next read; until then the
        // least is assumed.
        self.collections
            .retain(|_, collection| !collection.is_empty());
    }

    /// Until when it is kept; `None`: it was taken out.
    fn sweep_one(&mut self, listed: &Listed, now: Moment) -> Option<Moment> {
        match listed {
            Listed::Query(namespace, id) => {
                let collection = self.collections.get_mut(namespace)?;
                let keep_until = collection.entry(*id)?.keep_until;
                if keep_until > now {
                    return Some(keep_until);
                }
                collection.remove(*id);
                None
            }
            Listed::Form(namespace, record, key) => {
                let collection = self.collections.get_mut(namespace)?;
                collection.sweep_form(record, key, now)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_collections_are_forgotten_whatever_the_feed_promised() {
        let mut registry = Registry::new(RegistryLimits {
            active_max: 10,
            members_max: 10,
            ticket_ms: 1_000,
        });
        let namespace = Namespace::new("shop", "products").expect("a name");
        let resource = Resource {
            key: Key::from("/v1/shop/products/a?fields=n"),
            namespace: namespace.clone(),
            watched: Watched::Record,
        };
        registry.declare(&namespace, Images::Both);
        registry.begin(&resource, Moment(0)).expect("room");
        registry.sweep(Moment(999));
        assert!(registry.collection(&namespace).is_some());
        registry.sweep(Moment(1_000));
        assert!(registry.collection(&namespace).is_none());
        assert!(registry.is_empty());
    }
}
