//! Room in the active list: bounds, quotas, and which query makes room for one that is worth more. And the end of what
//! nobody can hold any more.

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Moment, Position};

use super::{Listed, Refused, Registry, Resource};

/// Queries looked at for one to retire.
const LOOKED_AT: u32 = 16;
/// Queries that may be on their way out at a time.
const RETIRING_MAX: usize = 256;

/// A query that makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retiring {
    /// Its collection.
    pub namespace: Namespace,
    /// Its key.
    pub key: Key,
    /// The latest position that a copy of it was read at.
    pub after: Position,
}

impl Registry {
    /// # Errors
    /// There is none. A query that is asked for often may have made another one retire: then there will be.
    pub(super) fn make_room(&mut self, resource: &Resource, now: Moment) -> Result<(), Refused> {
        self.room(resource, now).inspect_err(|refused| {
            if *refused == Refused::Full {
                let wanted = f32::from(self.demand.ask(&resource.key));
                self.retire_below(wanted, now);
            }
        })
    }

    /// Lets the least of some queries retire if it is worth less.
    fn retire_below(&mut self, wanted: f32, now: Moment) {
        if self.retiring.len() >= RETIRING_MAX {
            return;
        }
        let largest = self.collections.iter_mut().max_by_key(|(_, c)| c.queries());
        let Some((namespace, collection)) = largest else {
            return;
        };
        let found = collection.matcher().least_of(self.looked, LOOKED_AT, now);
        self.looked = self.looked.wrapping_add(LOOKED_AT);
        if let Some((id, score)) = found
            && score < wanted
        {
            collection.matcher().retire(id);
            self.retiring.push((namespace.clone(), id));
        }
    }

    /// The queries that make room for others: their copies have to be stale before they are taken out.
    pub fn retiring(&mut self) -> Vec<Retiring> {
        let retiring = std::mem::take(&mut self.retiring).into_iter();
        let known = retiring.filter_map(|(namespace, id)| {
            let entry = self.collections.get(&namespace)?.entry(id)?;
            Some(Retiring {
                key: entry.key.clone(),
                after: entry.copies.latest(),
                namespace,
            })
        });
        known.collect()
    }

    /// Its copies are stale now.
    pub fn retire(&mut self, retired: &Retiring) {
        if let Some(collection) = self.collections.get_mut(&retired.namespace)
            && let Some(id) = collection.find(&retired.key)
            // One that was taken out meanwhile and came back has copies of its own.
            && collection.entry(id).is_some_and(|entry| entry.retiring)
        {
            collection.remove(id);
            self.count(&retired.namespace, -1);
        }
    }

    pub(super) fn count(&mut self, namespace: &Namespace, change: isize) {
        self.active = self.active.saturating_add_signed(change);
        let of_database = self.by_database.entry(namespace.db().into()).or_default();
        *of_database = of_database.saturating_add_signed(change);
        if *of_database == 0 {
            self.by_database.remove(namespace.db());
        }
    }

    /// Deactivates what no copy can be outstanding of.
    pub fn sweep(&mut self, now: Moment) {
        for listed in self.due.take(now) {
            match self.sweep_one(&listed, now) {
                Swept::Kept(until) => self.due.put(until, listed),
                Swept::TakenOut => {
                    let (Listed::Query(namespace, _) | Listed::Form(namespace, ..)) = &listed;
                    self.count(namespace, -1);
                }
                Swept::Unknown => {}
            }
        }
        // Idle names make room. What the feed says about one is declared anew before its next read; until then the
        // least is assumed.
        self.collections
            .retain(|_, collection| !collection.is_empty());
    }

    fn sweep_one(&mut self, listed: &Listed, now: Moment) -> Swept {
        let (Listed::Query(namespace, _) | Listed::Form(namespace, ..)) = listed;
        let Some(collection) = self.collections.get_mut(namespace) else {
            return Swept::Unknown;
        };
        match listed {
            Listed::Query(_, id) => match collection.entry(*id).map(|entry| entry.keep_until) {
                Some(keep_until) if keep_until > now => Swept::Kept(keep_until),
                Some(_) => {
                    collection.remove(*id);
                    Swept::TakenOut
                }
                None => Swept::Unknown,
            },
            Listed::Form(_, record, key) => match collection.sweep_form(record, key, now) {
                Some(keep_until) => Swept::Kept(keep_until),
                None => Swept::TakenOut,
            },
        }
    }
}

/// What sweeping came to. A query that retired is not known any more; its number may be another one's by now, which is
/// then listed twice: harmless, since it is kept as long as it has to be.
enum Swept {
    Kept(Moment),
    TakenOut,
    Unknown,
}
