//! What is active in one collection: queries, in the matching engine, and the forms of records that are asked for.

use std::collections::HashMap;
use std::hash::BuildHasher;

use bson::RawBson;
use foldhash::fast::RandomState;
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::notification::Effect;
use freshet_core::time::{Moment, Position};
use hashbrown::HashTable;

use super::join::{self, Join};
use super::{Images, Resource, Watched, seconds};
use crate::matcher::{Coverage, Entry, Happened, Matcher, QueryId};

/// The collection.
#[derive(Debug, Default)]
pub struct Collection {
    pub(super) images: Images,
    matcher: Matcher,
    /// The queries by key; the keys are the matcher's.
    queries: HashTable<QueryId>,
    state: RandomState,
    /// A record's other forms, by its own key.
    forms: HashMap<Key, HashMap<Key, Form, RandomState>, RandomState>,
}

/// A record's form that is read.
#[derive(Debug, Default)]
pub(super) struct Form {
    pub(super) keep_until: Moment,
}

/// A query that was touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Touched {
    pub(crate) key: Key,
    pub(crate) home: Option<freshet_core::name::Namespace>,
    pub(crate) effect: Effect,
}

impl Collection {
    /// The query with this key.
    pub(super) fn find(&self, key: &Key) -> Option<QueryId> {
        let same = |id: &QueryId| self.matcher.entry(*id).is_some_and(|one| one.key == *key);
        self.queries
            .find(self.state.hash_one(key.as_str()), same)
            .copied()
    }

    pub(super) fn entry(&self, id: QueryId) -> Option<&Entry> {
        self.matcher.entry(id)
    }

    pub(crate) fn matcher(&mut self) -> &mut Matcher {
        &mut self.matcher
    }

    /// How many of its own queries there are, without the other sides of joins.
    pub(super) fn queries(&self) -> usize {
        self.queries.len() - self.matcher.joins().len()
    }

    /// Lists a query that the matcher has.
    pub(super) fn list(&mut self, key: &Key, id: QueryId, now: Moment) {
        if let Some(entry) = self.matcher.entry_mut(id) {
            entry.born_s = seconds(now);
        }
        let (matcher, state) = (&self.matcher, &self.state);
        let hash = |key: &Key| state.hash_one(key.as_str());
        let rehash = |id: &QueryId| matcher.entry(*id).map_or(0, |one| hash(&one.key));
        self.queries.insert_unique(hash(key), id, rehash);
    }

    /// Lets the other side of a join look for these values only, and for those of the copies that are out.
    pub(super) fn narrow(&mut self, id: QueryId, join: &Join, values: Option<Vec<RawBson>>) {
        let all = self.matcher.saw(id, values, join::union);
        let Some(entry) = self.matcher.entry(id) else {
            return;
        };
        // Another read that is under way may see other values.
        if entry.copies.pending() <= 1 {
            self.look_for(id, join, all.as_deref());
        }
    }

    /// Any record of a join's other side counts while a read is under way.
    pub(super) fn widen(&mut self, id: QueryId, join: &Join) {
        self.look_for(id, join, None);
    }

    fn look_for(&mut self, id: QueryId, join: &Join, values: Option<&[RawBson]>) {
        // A filter of values is always decidable; were it not, any record would go on to count.
        let _ = self.matcher.replace(id, &join.watch(values));
    }

    /// Takes a query out.
    pub(super) fn remove(&mut self, id: QueryId) {
        if let Some(entry) = self.matcher.entry(id)
            && let Ok(listed) = self
                .queries
                .find_entry(self.state.hash_one(entry.key.as_str()), |one| *one == id)
        {
            listed.remove();
        }
        self.matcher.remove(id);
    }

    /// The form of a record, made where it is missing; `None`: the record itself, which is always matched.
    pub(super) fn form(&mut self, resource: &Resource) -> Option<&mut Form> {
        let record = resource.form_of()?;
        let forms = self.forms.entry(record).or_default();
        Some(forms.entry(resource.key.clone()).or_default())
    }

    pub(super) fn known_form(&mut self, resource: &Resource) -> Option<&mut Form> {
        let forms = self.forms.get_mut(resource.form_of()?.as_str())?;
        forms.get_mut(resource.key.as_str())
    }

    /// Takes a form out once its time is over; until when it is kept, if it is.
    pub(super) fn sweep_form(&mut self, record: &Key, key: &Key, now: Moment) -> Option<Moment> {
        let forms = self.forms.get_mut(record.as_str())?;
        let keep_until = forms.get(key.as_str())?.keep_until;
        if keep_until > now {
            return Some(keep_until);
        }
        forms.remove(key.as_str());
        if forms.is_empty() {
            self.forms.remove(record.as_str());
        }
        None
    }

    /// Whether nothing is active.
    pub(super) fn is_empty(&self) -> bool {
        self.matcher.is_empty() && self.forms.is_empty()
    }

    /// The active forms of a record, beside the record itself.
    pub(crate) fn forms(&self, record: &Key) -> impl Iterator<Item = &Key> {
        let forms = self.forms.get(record.as_str());
        forms.into_iter().flat_map(HashMap::keys)
    }

    /// The queries that a change of a record touches: copies of them that were read before it are stale.
    pub(crate) fn touched(
        &mut self,
        before: &Image,
        after: &Image,
        record: Option<&Key>,
        position: Position,
        now: Moment,
    ) -> Vec<Touched> {
        let happened = Happened {
            before,
            after,
            record,
            members: self.images == Images::AfterOnly,
        };
        let mut found = Vec::new();
        self.matcher
            .touched(happened, now, &mut |id, effect| found.push((id, effect)));
        let touched = found.into_iter().filter_map(|(id, effect)| {
            self.matcher.invalidated(id, position, now);
            let entry = self.matcher.entry(id)?;
            let home = self.matcher.home(id);
            Some(Touched {
                key: home.map_or(&entry.key, |home| &home.key).clone(),
                home: home.map(|home| home.namespace.clone()),
                effect,
            })
        });
        touched.collect()
    }

    /// The results of other collections that look records up here, whatever changed.
    pub(super) fn joined(&mut self, position: Position, now: Moment) -> Vec<Touched> {
        let ids: Vec<QueryId> = self.matcher.joins().collect();
        let touched = ids.into_iter().filter_map(|id| {
            self.matcher.invalidated(id, position, now);
            let home = self.matcher.home(id)?;
            Some(Touched {
                key: home.key.clone(),
                home: Some(home.namespace.clone()),
                effect: Effect::Maybe,
            })
        });
        touched.collect()
    }

    /// How many queries there are, and how many the index does not find.
    pub(super) fn coverage(&self) -> Coverage {
        self.matcher.coverage()
    }

    /// Queries that failed so far and were taken for touched.
    pub(crate) fn faults(&self) -> u64 {
        self.matcher.work().faults
    }
}

impl Resource {
    /// What has to be matched besides the record itself.
    pub(crate) fn needs_place(&self) -> bool {
        match self.watched {
            Watched::Record => self.form_of().is_some(),
            Watched::Query(_) => true,
        }
    }
}
