//! The matching engine of one collection: queries in and out, and for each event the queries that it touches. Both
//! images are asked of the index and the candidates united; each is then evaluated on atoms that are computed once
//! per image, held against its window, and against what it shows.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use foldhash::fast::FixedState;
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Effect;
use freshet_core::predicate::{Predicate, Undecidable};
use freshet_core::time::{Moment, Position};
use freshet_core::value::order_key::digest;

use super::access::Chooser;
use super::atoms::{Atoms, Side};
use super::entry::{Copies, Entry, Shown};
use super::facts::{Facts, changed};
use super::index::Index;
use super::paths::{Paths, RootSet};
use super::relation::{In, judge};
use super::selectivity::Selectivity;
use super::shapes::{Event, Shapes, Slot};
use super::watch::Watch;

/// Of so many events one is learned from.
const LEARN_EVERY: u32 = 8;

/// A query's number.
pub(crate) type QueryId = u32;

/// The engine.
#[derive(Debug, Default)]
pub struct Matcher {
    paths: Paths,
    atoms: Atoms,
    shapes: Shapes,
    index: Index,
    selectivity: Selectivity,
    state: FixedState,
    entries: Vec<Option<Entry>>,
    free: Vec<QueryId>,
    /// Where members are remembered: the queries that hold a record, and those of which nobody knows what they hold.
    holders: HashMap<Key, HashSet<QueryId, FixedState>, FixedState>,
    doubtful: HashSet<QueryId, FixedState>,
    event: u32,
    candidates: Vec<QueryId>,
    work: Work,
}

/// What matching came to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Events.
    pub events: u64,
    /// Queries that were looked at.
    pub candidates: u64,
    /// Atoms that were evaluated.
    pub evaluations: u64,
    /// Queries that failed and were taken for touched.
    pub faults: u64,
}

/// How many queries there are, and how many of them are looked at whatever is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// All.
    pub queries: usize,
    /// Those that cannot be indexed.
    pub residual: usize,
    /// Different atoms.
    pub atoms: usize,
}

/// What happened to a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Happened<'a> {
    pub(crate) before: &'a Image,
    pub(crate) after: &'a Image,
    /// The record's key, when it can be named.
    pub(crate) record: Option<&'a Key>,
    /// Whether members are remembered.
    pub(crate) members: bool,
}

impl Matcher {
    /// A query more; `home`: its collection, where that is another one.
    ///
    /// # Errors
    /// The filter cannot be decided exactly as the database would.
    pub fn insert(
        &mut self,
        key: Key,
        watch: &Watch,
        home: Option<Namespace>,
    ) -> Result<u32, Undecidable> {
        let expr = Predicate::compile(&watch.filter)?.into_expr();
        let mut filter_roots = RootSet::default();
        let (atoms, paths) = (&mut self.atoms, &mut self.paths);
        let expr = expr.map(&mut |atom| {
            let id = atoms.intern(atom, paths);
            if let Some((_, path)) = atoms.get(id) {
                filter_roots.insert(paths.root_of(path));
            }
            id
        });
        let shape = self.shapes.intern(&watch.shape, &mut self.paths);
        let shape_roots = self
            .shapes
            .get(shape)
            .map_or(RootSet::ALL, |slot| slot.roots);
        let probes = self.chooser().choose(&expr).map(|access| access.probes);
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        match &probes {
            Some(probes) => probes
                .iter()
                .for_each(|probe| self.index.insert(*probe, id)),
            None => self.index.insert_residual(id),
        }
        self.entries[id as usize] = Some(Entry {
            expr,
            probes: probes.map(Vec::into_boxed_slice),
            filter_roots,
            roots: filter_roots.union(shape_roots),
            shape,
            mark: self.event,
            skips: watch.skips,
            copies: Copies::default(),
            key,
            home: home.map(Box::new),
            keep_until: Moment(0),
        });
        Ok(id)
    }

    /// A query less.
    pub fn remove(&mut self, id: u32) {
        let Some(entry) = self.entries.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        for member in entry.copies.members() {
            forget(&mut self.holders, member, id);
        }
        self.doubtful.remove(&id);
        match &entry.probes {
            Some(probes) => {
                for probe in probes {
                    self.index.remove(*probe, id);
                    self.paths.release(probe.path);
                }
            }
            None => self.index.remove_residual(id),
        }
        let (atoms, paths) = (&mut self.atoms, &mut self.paths);
        entry.expr.each(&mut |atom| atoms.release(*atom, paths));
        self.shapes.release(entry.shape, &mut self.paths);
        self.free.push(id);
    }

    /// A read of the query begins.
    pub(crate) fn begin(&mut self, id: QueryId, until: Moment) {
        if let Some(entry) = self.entry_mut(id) {
            entry.copies.begin(until);
            entry.keep_until = entry.keep_until.max(until);
            self.doubtful.insert(id);
        }
    }

    /// A read of the query ended, one way or the other.
    pub(crate) fn release(&mut self, id: QueryId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.copies.release();
            self.doubt(id);
        }
    }

    /// A copy goes out that is kept until then.
    pub fn settle(
        &mut self,
        id: u32,
        shown: &Shown<'_>,
        position: Position,
        members_max: usize,
        until: Moment,
    ) {
        let Some(Some(entry)) = self.entries.get_mut(id as usize) else {
            return;
        };
        let pattern = self
            .shapes
            .get(entry.shape)
            .map_or(&[][..], |slot| &slot.pattern);
        let skips = entry.skips;
        entry
            .copies
            .settle(shown, position, members_max, pattern, skips);
        entry.keep_until = entry.keep_until.max(until);
        for member in entry.copies.members() {
            match self.holders.get_mut(member.as_str()) {
                Some(holders) => drop(holders.insert(id)),
                None => drop(
                    self.holders
                        .insert(member.clone(), HashSet::from_iter([id])),
                ),
            }
        }
        self.doubt(id);
    }

    /// Copies read before `position` are stale.
    pub(crate) fn invalidated(&mut self, id: QueryId, position: Position) {
        let Some(Some(entry)) = self.entries.get_mut(id as usize) else {
            return;
        };
        for member in entry.copies.members() {
            forget(&mut self.holders, member, id);
        }
        entry.copies.invalidated(position);
        for member in entry.copies.members() {
            self.holders.entry(member.clone()).or_default().insert(id);
        }
        self.doubt(id);
    }

    /// The query.
    pub(crate) fn entry(&self, id: QueryId) -> Option<&Entry> {
        self.entries.get(id as usize)?.as_ref()
    }

    fn entry_mut(&mut self, id: QueryId) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// Keeps the list of those who may hold anything.
    fn doubt(&mut self, id: QueryId) {
        let Some(Some(entry)) = self.entries.get(id as usize) else {
            return;
        };
        let lists = self.shapes.get(entry.shape).is_some_and(Slot::lists);
        if entry.skips || !lists || entry.copies.is_doubtful(Moment(0)) {
            self.doubtful.insert(id);
        } else {
            self.doubtful.remove(&id);
        }
    }

    /// The queries that an event touches, and how.
    pub(crate) fn touched(
        &mut self,
        happened: Happened<'_>,
        now: Moment,
        touched: &mut impl FnMut(QueryId, Effect),
    ) {
        self.next_event();
        let before = match happened.before {
            Image::Known(document) => Some(&**document),
            _ => None,
        };
        // A state that was looked up later is taken for the state after: see `relation`.
        let after = match happened.after {
            Image::Known(document) | Image::Later(Some(document)) => Some(&**document),
            _ => None,
        };
        let mut before = before.map(|document| Facts::of(document, &self.paths));
        let mut after = after.map(|document| Facts::of(document, &self.paths));
        let differing = match (&before, &after) {
            (Some(before), Some(after)) => changed(before, after),
            _ => RootSet::ALL,
        };
        self.gather(happened, differing, &mut before, &mut after);
        let mut event = Event::of(
            before.as_ref(),
            after.as_ref(),
            differing,
            !happened.members,
        );
        let candidates = std::mem::take(&mut self.candidates);
        for id in &candidates {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                self.effect(*id, happened, now, &mut event, &mut before, &mut after)
            }));
            let effect = match outcome {
                Ok(effect) => effect,
                // One query's failure must not harm the others: it counts as touched.
                Err(_) => {
                    self.work.faults += 1;
                    Some(Effect::Maybe)
                }
            };
            if let Some(effect) = effect {
                touched(*id, effect);
            }
        }
        self.work.candidates += candidates.len() as u64;
        self.candidates = candidates;
        if self.event.is_multiple_of(LEARN_EVERY) {
            self.learn(after.as_mut());
        }
    }

    fn next_event(&mut self) {
        self.work.events += 1;
        self.atoms.next_event();
        self.event = self.event.wrapping_add(1);
        if self.event == 0 {
            self.entries
                .iter_mut()
                .flatten()
                .for_each(|entry| entry.mark = 0);
            self.event = 1;
        }
        self.candidates.clear();
    }

    /// Collects the candidates, each once.
    fn gather(
        &mut self,
        happened: Happened<'_>,
        differing: RootSet,
        before: &mut Option<Facts<'_>>,
        after: &mut Option<Facts<'_>>,
    ) {
        let Matcher {
            index,
            paths,
            entries,
            candidates,
            event,
            state,
            ..
        } = self;
        if matches!(happened.after, Image::Unknown)
            || !happened.members && is_unknown(happened.before)
        {
            // Nothing says which: all of them.
            candidates.extend((0..).take(entries.len()));
            return;
        }
        let mut add = |id: QueryId| {
            if let Some(Some(entry)) = entries.get_mut(id as usize)
                && entry.mark != *event
            {
                entry.mark = *event;
                candidates.push(id);
            }
        };
        if is_unknown(happened.before) {
            let holders = happened
                .record
                .and_then(|record| self.holders.get(record.as_str()));
            holders.into_iter().flatten().copied().for_each(&mut add);
            self.doubtful.iter().copied().for_each(&mut add);
        }
        let digest = |value: bson::RawBsonRef<'_>| digest(value, &*state);
        for at in 0..index.paths().len() {
            let path = index.paths()[at];
            let mut same = false;
            if let Some(facts) = after {
                index.candidates(path, facts.leaves(path, paths), digest, &mut add);
                let mut root = RootSet::default();
                root.insert(paths.root_of(path));
                same = before.is_some() && !differing.meets(root);
            }
            if let Some(facts) = before
                && !same
            {
                index.candidates(path, facts.leaves(path, paths), digest, &mut add);
            }
        }
        index.each_residual(&mut add);
    }

    fn effect(
        &mut self,
        id: QueryId,
        happened: Happened<'_>,
        now: Moment,
        event: &mut Event<'_>,
        before: &mut Option<Facts<'_>>,
        after: &mut Option<Facts<'_>>,
    ) -> Option<Effect> {
        let Matcher {
            entries,
            atoms,
            paths,
            shapes,
            ..
        } = self;
        let entry = entries.get_mut(id as usize)?.as_mut()?;
        if !entry.copies.is_live(now) {
            return None;
        }
        let both = before.is_some() && after.is_some();
        let untouched = !entry.roots.meets(event.changed) && entry.roots != RootSet::ALL;
        if both && untouched {
            return None;
        }
        let slot = shapes.get(entry.shape)?;
        let mut matches = |side, facts: &mut Facts<'_>| {
            In::from(
                entry
                    .expr
                    .holds(&mut |atom| atoms.holds(*atom, side, facts, paths)),
            )
        };
        let is = match (happened.after, after) {
            (Image::Unknown, _) => In::Maybe,
            (_, Some(facts)) => matches(Side::After, facts),
            _ => In::No,
        };
        let was = match (happened.before, before) {
            _ if both && !entry.filter_roots.meets(event.changed) => is,
            (Image::Absent, _) => In::No,
            (Image::Known(_), Some(facts)) => matches(Side::Before, facts),
            _ => match happened.record {
                // What was in front of a window, or in a number, no member list tells.
                Some(record) if happened.members && !entry.skips && slot.lists() => {
                    match entry.copies.may_hold(record, now) {
                        true => In::Maybe,
                        false => In::No,
                    }
                }
                _ => In::Maybe,
            },
        };
        let window = match entry.copies.is_pending(now) {
            true => None,
            false => entry.copies.window.as_deref_mut(),
        };
        judge(was, is, entry.shape, slot, window, event)
    }

    /// Keeps what the paths led to, for choosing access predicates.
    fn learn(&mut self, facts: Option<&mut Facts<'_>>) {
        let Some(facts) = facts else { return };
        let state = &self.state;
        for path in 0..u32::try_from(self.paths.len()).unwrap_or(u32::MAX) {
            if self.paths.path(path).is_some() {
                let leaves = facts.leaves(path, &self.paths);
                self.selectivity
                    .learn(path, leaves, |value| digest(value, state));
            }
        }
        self.selectivity.turn();
    }

    fn chooser(&mut self) -> Chooser<'_> {
        Chooser {
            atoms: &self.atoms,
            paths: &mut self.paths,
            selectivity: &self.selectivity,
            state: &self.state,
        }
    }

    /// From now on whatever looks at a path fails.
    #[cfg(test)]
    pub(crate) fn fail_at(&mut self, path: &str) {
        self.atoms.failing = Some(path.to_owned());
    }

    /// What matching came to.
    #[must_use]
    pub fn work(&self) -> Work {
        Work {
            evaluations: self.atoms.evaluations(),
            ..self.work
        }
    }

    /// How many queries are indexed.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        Coverage {
            queries: self.len(),
            residual: self.index.residuals(),
            atoms: self.atoms.len(),
        }
    }

    /// Queries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn forget(
    holders: &mut HashMap<Key, HashSet<QueryId, FixedState>, FixedState>,
    member: &Key,
    id: QueryId,
) {
    if let Some(of) = holders.get_mut(member.as_str()) {
        of.remove(&id);
        if of.is_empty() {
            holders.remove(member.as_str());
        }
    }
}

fn is_unknown(image: &Image) -> bool {
    matches!(image, Image::Unknown | Image::Later(_))
}
