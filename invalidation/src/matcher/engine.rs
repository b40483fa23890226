//! The matching engine of one collection: queries in and out, and for each event the queries that it touches. Both
//! images are asked of the index and the candidates united; each is then evaluated on atoms that are computed once
//! per image, held against its window, and against what it shows.

use std::collections::{HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use foldhash::fast::FixedState;
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::notification::Effect;
use freshet_core::predicate::{Predicate, Undecidable};
use freshet_core::time::Moment;
use freshet_core::value::order_key::digest;
use freshet_core::value::path::Path;

use super::access::{Chooser, Listing};
use super::atoms::{Atoms, Side};
use super::entry::{Asked, Copies, Entry, Home};
use super::facts::{Facts, changed};
use super::index::Index;
use super::paths::{PathId, Paths, RootSet};
use super::relation::{In, judge};
use super::selectivity::Selectivity;
use super::shapes::{Event, Shapes};
use super::watch::Watch;
use crate::registry::Worth;

/// Of so many events one is learned from.
const LEARN_EVERY: u32 = 8;

/// A query's number.
pub type QueryId = u32;

/// The queries that hold a record.
pub(super) type Holders = HashMap<Key, HashSet<QueryId, FixedState>, FixedState>;

/// The engine.
#[derive(Debug, Default)]
pub struct Matcher {
    paths: Paths,
    atoms: Atoms,
    pub(super) shapes: Shapes,
    index: Index,
    selectivity: Selectivity,
    state: FixedState,
    pub(super) entries: Vec<Option<Entry>>,
    free: Vec<QueryId>,
    /// Where members are remembered: the queries that hold a record, and those of which nobody knows what they hold.
    pub(super) holders: Holders,
    pub(super) doubtful: HashSet<QueryId, FixedState>,
    event: u32,
    /// By query the last event that it was a candidate of.
    marks: Vec<u32>,
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
pub struct Happened<'a> {
    /// Its state before.
    pub before: &'a Image,
    /// Its state after.
    pub after: &'a Image,
    /// Its key, when it can be named.
    pub record: Option<&'a Key>,
    /// Whether members are remembered.
    pub members: bool,
}

impl Matcher {
    /// A query more; `home`: whose, where it is the other side of a join.
    ///
    /// # Errors
    /// The filter cannot be decided exactly as the database would.
    pub fn insert(
        &mut self,
        key: Key,
        watch: &Watch,
        home: Option<Home>,
    ) -> Result<QueryId, Undecidable> {
        let asked = self.compile(watch)?;
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.marks.push(0);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        self.list(id, &asked.listing);
        self.entries[id as usize] = Some(Entry {
            asked,
            copies: Copies::default(),
            key,
            home: home.map(Box::new),
            keep_until: Moment(0),
            worth: Worth::default(),
            retiring: false,
        });
        Ok(id)
    }

    /// The query looks for something else from now on; its copies stay as they are.
    ///
    /// # Errors
    /// The filter cannot be decided: the query stays as it is.
    pub(crate) fn replace(&mut self, id: QueryId, watch: &Watch) -> Result<(), Undecidable> {
        let asked = self.compile(watch)?;
        let Some(entry) = self.entry_mut(id) else {
            self.let_go(&asked);
            return Ok(());
        };
        let earlier = std::mem::replace(&mut entry.asked, asked);
        self.unlist(id, &earlier.listing);
        self.let_go(&earlier);
        if let Some(listing) = self.entry(id).map(|entry| entry.asked.listing.clone()) {
            self.list(id, &listing);
        }
        Ok(())
    }

    /// A query less.
    pub fn remove(&mut self, id: QueryId) {
        let Some(entry) = self.entries.get_mut(id as usize).and_then(Option::take) else {
            return;
        };
        self.forget_holder(id, &entry);
        self.unlist(id, &entry.asked.listing);
        self.let_go(&entry.asked);
        self.free.push(id);
    }

    fn compile(&mut self, watch: &Watch) -> Result<Asked, Undecidable> {
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
        let (listing, _) = self.chooser().choose(&expr);
        Ok(Asked {
            expr,
            listing,
            filter_roots,
            shape,
            skips: watch.skips,
        })
    }

    fn let_go(&mut self, asked: &Asked) {
        let (atoms, paths) = (&mut self.atoms, &mut self.paths);
        asked.expr.each(&mut |atom| atoms.release(*atom, paths));
        self.shapes.release(asked.shape, &mut self.paths);
    }

    fn list(&mut self, id: QueryId, listing: &Listing) {
        if *listing == Listing::Residual {
            return self.index.insert_residual(id);
        }
        for (mut probe, below) in self.chooser().probes(listing) {
            if let Some(below) = below {
                probe.path = self.paths.intern(&Path::new(&below));
            }
            self.index.insert(probe, id);
        }
    }

    fn unlist(&mut self, id: QueryId, listing: &Listing) {
        if *listing == Listing::Residual {
            return self.index.remove_residual(id);
        }
        for (mut probe, below) in self.chooser().probes(listing) {
            if let Some(below) = below {
                let Some(path) = self.paths.known(&below) else {
                    continue;
                };
                probe.path = path;
                self.paths.release(path);
            }
            self.index.remove(probe, id);
        }
    }

    /// The query.
    pub(crate) fn entry(&self, id: QueryId) -> Option<&Entry> {
        self.entries.get(id as usize)?.as_ref()
    }

    pub(crate) fn entry_mut(&mut self, id: QueryId) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)?.as_mut()
    }

    /// The queries that an event touches, and how.
    pub fn touched(
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
        let mut event = Event::of(before.as_ref(), after.as_ref(), differing);
        let candidates = std::mem::take(&mut self.candidates);
        let mut next = 0;
        while next < candidates.len() {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                while let Some(id) = candidates.get(next) {
                    next += 1;
                    if let Some(effect) =
                        self.effect(*id, happened, now, &mut event, &mut before, &mut after)
                    {
                        touched(*id, effect);
                    }
                }
            }));
            if outcome.is_err() {
                // One query's failure must not harm the others: it counts as touched, and they go on.
                self.work.faults += 1;
                touched(candidates[next - 1], Effect::Maybe);
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
            self.marks.fill(0);
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
            marks,
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
            if let Some(mark) = marks.get_mut(id as usize)
                && *mark != *event
            {
                *mark = *event;
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
        let asked = &entry.asked;
        let both = before.is_some() && after.is_some();
        let slot = shapes.get(asked.shape)?;
        let looked_at = asked.filter_roots.union(slot.roots);
        if both && !looked_at.meets(event.changed) && slot.roots != RootSet::ALL {
            return None;
        }
        let mut matches = |side, facts: &mut Facts<'_>| {
            In::from(
                asked
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
            _ if both && !asked.filter_roots.meets(event.changed) => is,
            (Image::Absent, _) => In::No,
            (Image::Known(_), Some(facts)) => matches(Side::Before, facts),
            _ => match happened.record {
                // What was in front of a window, or in a number, no member list tells.
                Some(record) if happened.members && !asked.skips && slot.lists() => {
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
        judge(was, is, asked.shape, slot, window, event)
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

    pub(super) fn path_text(&self, path: PathId) -> String {
        self.paths
            .path(path)
            .map_or_else(String::new, |path| path.as_str().to_owned())
    }

    pub(super) fn chooser(&self) -> Chooser<'_> {
        Chooser {
            atoms: &self.atoms,
            paths: &self.paths,
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

fn is_unknown(image: &Image) -> bool {
    matches!(image, Image::Unknown | Image::Later(_))
}
