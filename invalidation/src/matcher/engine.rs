//! The matching engine of one collection: queries in and out, and for each event the queries that it touches. Both
//! images are asked of the index and the candidates united; each is then evaluated on atoms that are computed once
//! per image, held against its window, and against what it shows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bson::RawBson;
use foldhash::fast::RandomState;
use freshet_core::change::Image;
use freshet_core::key::Key;
use freshet_core::predicate::{Predicate, Undecidable};
use freshet_core::time::Moment;
use freshet_core::value::path::Path;

use super::access::{Chooser, Listing};
use super::atoms::{AtomId, Atoms};
use super::entry::{Asked, Copies, Entry, Home};
use super::flat::Flat;
use super::index::Index;
use super::paths::{PathId, Paths, RootSet};
use super::selectivity::Selectivity;
use super::shapes::Shapes;
use super::watch::Watch;
use crate::registry::Worth;

/// A query's number.
pub type QueryId = u32;

/// The queries that hold a record.
pub(super) type Holders = HashMap<Key, HashSet<QueryId, RandomState>, RandomState>;

/// The engine.
#[derive(Debug, Default)]
pub struct Matcher {
    pub(super) paths: Paths,
    pub(super) atoms: Atoms,
    pub(super) shapes: Shapes,
    pub(super) index: Index,
    pub(super) selectivity: Selectivity,
    pub(super) state: RandomState,
    pub(super) entries: Vec<Option<Entry>>,
    free: Vec<QueryId>,
    /// Whose the other sides of joins are.
    pub(super) homes: HashMap<QueryId, Home, RandomState>,
    /// Where members are remembered: the queries that hold a record, and those of which nobody knows what they hold.
    pub(super) holders: Holders,
    pub(super) doubtful: HashSet<QueryId, RandomState>,
    pub(super) event: u32,
    /// By query the last event that it was a candidate of.
    pub(super) marks: Vec<u32>,
    pub(super) candidates: Vec<QueryId>,
    /// The atoms that the candidates ask for. Kept for its memory only.
    pub(super) asked_atoms: Vec<AtomId>,
    pub(super) work: Work,
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
        if let Some(home) = home {
            self.homes.insert(id, home);
        }
        self.entries[id as usize] = Some(Entry {
            asked,
            copies: Copies::default(),
            key,
            born_s: 0,
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
        self.homes.remove(&id);
        self.unlist(id, &entry.asked.listing);
        self.let_go(&entry.asked);
        self.free.push(id);
    }

    fn compile(&mut self, watch: &Watch) -> Result<Asked, Undecidable> {
        let paths = &self.paths;
        let mut shared = |text: &str| match paths.known(text).and_then(|id| paths.path(id)) {
            Some(path) => Arc::clone(path),
            None => Arc::new(Path::new(text)),
        };
        let expr = Predicate::compile_sharing(&watch.filter, &mut shared)?.into_expr();
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
            conditions: Flat::of(&expr),
            listing,
            filter_roots,
            shape,
            skips: watch.skips,
        })
    }

    fn let_go(&mut self, asked: &Asked) {
        let (atoms, paths) = (&mut self.atoms, &mut self.paths);
        let of = asked.conditions.atoms();
        of.for_each(|atom| atoms.release(atom, paths));
        self.shapes.release(asked.shape, &mut self.paths);
    }

    fn list(&mut self, id: QueryId, listing: &Listing) {
        if *listing == Listing::Residual {
            return self.index.insert_residual(id);
        }
        for (mut probe, below) in self.chooser().probes(listing) {
            if let Some(below) = below {
                probe.path = self.paths.intern(&Arc::new(Path::new(&below)));
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

    /// Whose the query is, where it is the other side of a join.
    pub(crate) fn home(&self, id: QueryId) -> Option<&Home> {
        self.homes.get(&id)
    }

    /// The other sides of joins.
    pub(crate) fn joins(&self) -> impl ExactSizeIterator<Item = QueryId> {
        self.homes.keys().copied()
    }

    /// Keeps the local values that the copies of a join saw; those of copies that are out count as well. What all of
    /// them saw.
    pub(crate) fn saw(
        &mut self,
        id: QueryId,
        values: Option<Vec<RawBson>>,
        union: impl FnOnce(Option<Vec<RawBson>>, Option<Vec<RawBson>>) -> Option<Vec<RawBson>>,
    ) -> Option<Vec<RawBson>> {
        let fresh = self.entry(id).is_some_and(|entry| entry.copies.is_fresh());
        let home = self.homes.get_mut(&id)?;
        let all = match fresh {
            true => union(home.values.take(), values),
            false => values,
        };
        home.values.clone_from(&all);
        all
    }

    pub(crate) fn entry_mut(&mut self, id: QueryId) -> Option<&mut Entry> {
        self.entries.get_mut(id as usize)?.as_mut()
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
