//! The active list: what is matched, and for how long. A resource is active from before its read (rule C1)
//! until no copy can be outstanding; within that time no change of it goes unmatched.

mod collection;
mod due;
mod explain;
mod join;
mod outlook;
mod room;
mod watched;
mod worth;

use std::collections::HashMap;

use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::predicate::Undecidable;
use freshet_core::time::{Moment, Position};

use self::due::Due;
use self::worth::Demand;
use crate::matcher::{Home, Notification, QueryId, Shown, Watch};

pub use collection::Collection;
pub(crate) use collection::Touched;
pub use explain::Explained;
pub use join::Join;
pub use room::Retiring;
pub use watched::{Images, Resource, Watched};
pub(crate) use worth::{Worth, seconds};

/// What may be active.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegistryLimits {
    /// Queries, counts and record forms, over all collections.
    pub active_max: usize,
    /// Members known per query; beyond it any change of unknown origin touches the query.
    pub members_max: usize,
    /// Of one database at most.
    pub database_active_max: usize,
    /// How long a ticket can be settled, milliseconds.
    pub ticket_ms: u64,
}

/// Why a resource is not active.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No room for one more.
    #[error("as many resources are active as may be")]
    Full,
    /// No room for one more of this database.
    #[error("as many resources of the database are active as may be")]
    Quota,
    /// It makes room for another one.
    #[error("other queries are worth more")]
    Retiring,
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
    by_database: HashMap<Box<str>, usize>,
    /// Of those that found no room.
    demand: Demand,
    /// Where the last query to retire was looked for.
    looked: u32,
    retiring: Vec<(Namespace, QueryId)>,
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
            by_database: HashMap::new(),
            demand: Demand::default(),
            looked: 0,
            retiring: Vec::new(),
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
            Watched::Query(watch) => {
                // All of them are there before one is begun: what is refused leaves nothing pending.
                let (namespace, key) = (&resource.namespace, &resource.key);
                let id = self.activate(resource, namespace, key, now, || (watch.clone(), None))?;
                let mut begun = vec![(namespace, id)];
                for (index, join) in resource.joins.iter().enumerate() {
                    let key = join::listed_as(resource, index);
                    let new = || (join.watch(None), Some(join::home(resource)));
                    let id = self.activate(resource, &join.from, &key, now, new)?;
                    begun.push((&join.from, id));
                }
                for (index, (namespace, id)) in begun.into_iter().enumerate() {
                    if let Some(collection) = self.collections.get_mut(namespace) {
                        if let Some(join) = index.checked_sub(1) {
                            collection.widen(id, &resource.joins[join]);
                        }
                        collection.matcher().begin(id, until, now);
                    }
                }
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
        self.make_room(resource, now)?;
        let collection = self
            .collections
            .entry(resource.namespace.clone())
            .or_default();
        if let (Some(form), Some(record)) = (collection.form(resource), resource.form_of()) {
            form.keep_until = until;
            self.count(&resource.namespace, 1);
            let listed = Listed::Form(resource.namespace.clone(), record, resource.key.clone());
            self.due.put(until, listed);
        }
        Ok(())
    }

    /// The query's number in a collection; the matcher learns of it where it is new.
    fn activate(
        &mut self,
        resource: &Resource,
        namespace: &Namespace,
        key: &Key,
        now: Moment,
        new: impl FnOnce() -> (Watch, Option<Home>),
    ) -> Result<QueryId, Refused> {
        let known = self.collections.get(namespace);
        if let Some((collection, id)) = known.and_then(|c| Some((c, c.find(key)?))) {
            let retiring = collection.entry(id).is_some_and(|entry| entry.retiring);
            return if retiring {
                Err(Refused::Retiring)
            } else {
                Ok(id)
            };
        }
        self.make_room(resource, now)?;
        let collection = self.collections.entry(namespace.clone()).or_default();
        let (watch, home) = new();
        let id = collection.matcher().insert(key.clone(), &watch, home)?;
        collection.list(key, id, now);
        self.count(namespace, 1);
        let due = now.after_ms(self.limits.ticket_ms);
        self.due.put(due, Listed::Query(namespace.clone(), id));
        Ok(id)
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
        for (index, (namespace, key)) in join::places(resource).enumerate() {
            let place = self.collections.get_mut(namespace);
            let Some((collection, id)) = place.and_then(|c| c.find(&key).map(|id| (c, id))) else {
                return false;
            };
            if let Some(join) = index.checked_sub(1) {
                let values = shown.joined.get(join).cloned().flatten();
                collection.narrow(id, &resource.joins[join], values);
            }
            let shown = Shown {
                // Without them what the database says of the state before is enough. That there are none says where
                // a page lies that skips.
                members: shown.members.filter(|members| {
                    let needed = collection.images == Images::AfterOnly || members.is_empty();
                    needed && index == 0
                }),
                window: shown.window.clone(),
                joined: Vec::new(),
            };
            let members_max = self.limits.members_max;
            let matcher = collection.matcher();
            matcher.settle(id, &shown, position, members_max, until);
        }
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
        self.release(resource, now);
        Ok(())
    }

    /// The ticket given at `started` is gone: its read is settled, or came to nothing.
    pub fn release(&mut self, resource: &Resource, started: Moment) {
        let Watched::Query(_) = resource.watched else {
            return;
        };
        for (namespace, key) in join::places(resource) {
            if let Some(collection) = self.collections.get_mut(namespace)
                && let Some(id) = collection.find(&key)
            {
                collection.matcher().release(id, started);
            }
        }
    }

    /// What the change feed says about a collection. When it promises less than before, members are not
    /// known until copies were settled anew: such resources are touched by any change of unknown origin.
    pub fn declare(&mut self, namespace: &Namespace, images: Images) {
        let collection = self.collections.entry(namespace.clone()).or_default();
        collection.images = images;
    }

    /// What the change feed says about a collection, as far as is known.
    #[must_use]
    pub fn images(&self, namespace: &Namespace) -> Images {
        let known = self.collections.get(namespace);
        known.map_or_else(Images::default, |collection| collection.images)
    }

    /// Changes were lost: nothing that is active can be trusted any more, neither what it shows nor whether it still is
    /// what it was. What is read from now on begins anew.
    pub fn forget(&mut self) {
        let (limits, matched, shape) = (self.limits, self.matched, self.shape);
        *self = Registry {
            matched,
            shape: shape + 1,
            ..Registry::new(limits)
        };
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

    /// The results of other collections that look records up in this one, which changed as a whole: their copies read
    /// before `position` are stale.
    pub(crate) fn joined(
        &mut self,
        namespace: &Namespace,
        position: Position,
        now: Moment,
    ) -> Vec<Notification> {
        let collection = self.collections.get_mut(namespace);
        let touched = collection.map_or_else(Vec::new, |c| c.joined(position, now));
        let notified = touched.into_iter().filter_map(|one| {
            Some(Notification {
                namespace: one.home?,
                key: one.key,
                kind: ResourceKind::Query,
                effect: one.effect,
                position,
            })
        });
        notified.collect()
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry() -> Registry {
        Registry::new(RegistryLimits {
            active_max: 10,
            members_max: 10,
            database_active_max: 10,
            ticket_ms: 1_000,
        })
    }

    #[test]
    fn c8_what_was_active_before_changes_were_lost_is_not_trusted_after() {
        let mut registry = registry();
        let namespace = Namespace::new("shop", "products").expect("a name");
        let resource = Resource {
            key: Key::from("/v1/shop/products"),
            namespace: namespace.clone(),
            watched: Watched::Query(Watch::count(freshet_core::query::Filter::all())),
            joins: Vec::new(),
            hinted: false,
        };
        registry.begin(&resource, Moment(0)).expect("room");
        registry.matched_through(Position(7));
        let shape = registry.shape();
        registry.forget();
        assert!(registry.is_empty());
        assert!(registry.shape() > shape);
        assert_eq!(registry.matched(), Position(7));
        let shown = Shown::default();
        assert!(!registry.settle(&resource, shown, Position(7), 1_000, Moment(1)));
    }

    #[test]
    fn idle_collections_are_forgotten_whatever_the_feed_promised() {
        let mut registry = registry();
        let namespace = Namespace::new("shop", "products").expect("a name");
        let resource = Resource {
            key: Key::from("/v1/shop/products/a?fields=n"),
            namespace: namespace.clone(),
            watched: Watched::Record,
            joins: Vec::new(),
            hinted: false,
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
