//! Which predicate of a query is looked up in the index: one per conjunction, the one that the fewest documents satisfy;
//! of a disjunction one per arm. A query without any, or whose best one most documents satisfy, is residual.

use foldhash::fast::FixedState;
use freshet_core::predicate::{Atom, Expr, Reach, Span};
use freshet_core::value::order_key::{OrderKey, digest};
use freshet_core::value::path::Path;

use super::atoms::{AtomId, Atoms};
use super::index::{At, Probe};
use super::paths::{PathId, Paths};
use super::selectivity::Selectivity;

/// From this share of documents on an index saves less than asking it costs.
const RESIDUAL_FROM: f64 = 0.5;
/// The most places one query is listed at.
const PROBES_MAX: usize = 4_096;

/// A way to look a query up.
#[derive(Debug, Default)]
pub(super) struct Access {
    pub(super) probes: Vec<Probe>,
    /// The share of documents that lead to it.
    pub(super) cost: f64,
}

/// What choosing looks at.
pub(super) struct Chooser<'a> {
    pub(super) atoms: &'a Atoms,
    pub(super) paths: &'a mut Paths,
    pub(super) selectivity: &'a Selectivity,
    pub(super) state: &'a FixedState,
}

impl Chooser<'_> {
    /// The access predicate of a query. Its paths have a user more each. `None`: residual.
    pub(super) fn choose(&mut self, expr: &Expr<AtomId>) -> Option<Access> {
        let access = self.best(expr)?;
        if access.cost > RESIDUAL_FROM || access.probes.len() > PROBES_MAX {
            self.give_up(&access);
            return None;
        }
        Some(access)
    }

    fn give_up(&mut self, access: &Access) {
        access
            .probes
            .iter()
            .for_each(|probe| self.paths.release(probe.path));
    }

    fn best(&mut self, expr: &Expr<AtomId>) -> Option<Access> {
        let atoms = self.atoms;
        match expr {
            Expr::Is(id) => {
                let (atom, path) = atoms.get(*id)?;
                Some(self.access(atom, path, atom.reach()?))
            }
            Expr::Not(id) => {
                let (atom, path) = atoms.get(*id)?;
                Some(self.access(atom, path, atom.reach_negated()?))
            }
            Expr::All(of) => self.conjunction(of),
            Expr::Any(of) => {
                let mut all = Access::default();
                for one in of {
                    let Some(access) = self.best(one) else {
                        self.give_up(&all);
                        return None;
                    };
                    all.probes.extend(access.probes);
                    all.cost += access.cost;
                }
                Some(all)
            }
        }
    }

    fn conjunction(&mut self, of: &[Expr<AtomId>]) -> Option<Access> {
        let mut best: Option<Access> = self.range(of);
        for one in of {
            let Some(access) = self.best(one) else {
                continue;
            };
            match &best {
                Some(known) if known.cost <= access.cost => self.give_up(&access),
                _ => {
                    if let Some(worse) = best.replace(access) {
                        self.give_up(&worse);
                    }
                }
            }
        }
        best
    }

    /// Two ends of one range. Both are within one type; over an array's elements the index asks for what lies
    /// between the least and the greatest.
    fn range(&mut self, of: &[Expr<AtomId>]) -> Option<Access> {
        let atoms = self.atoms;
        let mut ranges: Vec<(PathId, OrderKey, OrderKey, bool)> = Vec::new();
        for one in of {
            let Expr::Is(id) = one else { continue };
            let Some((atom, path)) = atoms.get(*id) else {
                continue;
            };
            let Some(reach) = atom.reach() else { continue };
            let [
                Reach {
                    span: Span::Between(low, high),
                    below,
                },
            ] = &reach[..]
            else {
                continue;
            };
            if !below.is_empty() || low.rank() != high.rank() {
                continue;
            }
            let same = |known: &&mut (PathId, OrderKey, OrderKey, bool)| {
                known.0 == path && known.1.rank() == low.rank()
            };
            match ranges.iter_mut().find(same) {
                Some((_, l, h, both)) => (*l, *h, *both) = ((*l).max(*low), (*h).min(*high), true),
                None => ranges.push((path, *low, *high, false)),
            }
        }
        let narrow = ranges
            .into_iter()
            .filter(|(_, low, high, both)| *both && low <= high);
        let rated = narrow.map(|(path, low, high, _)| {
            let probe = Probe {
                path,
                at: At::Between(low, high),
            };
            (self.selectivity.of(&probe), probe)
        });
        let (cost, probe) = rated.min_by(|a, b| a.0.total_cmp(&b.0))?;
        self.paths.share(probe.path);
        Some(Access {
            probes: vec![probe],
            cost,
        })
    }

    fn access(&mut self, atom: &Atom, path: PathId, reach: Vec<Reach<'_>>) -> Access {
        let mut access = Access::default();
        let many = reach.len() > Selectivity::PROBES_MEASURED_MAX;
        for Reach { below, span } in reach {
            let path = match below.as_str() {
                "" => {
                    self.paths.share(path);
                    path
                }
                below => {
                    let whole = format!("{}.{below}", atom.path().as_str());
                    self.paths.intern(&Path::new(&whole))
                }
            };
            let at = match span {
                Span::Equal(value) => At::Digest(digest(value, self.state)),
                Span::Between(low, high) => At::Between(low, high),
                Span::Missing => At::Missing,
            };
            let probe = Probe { path, at };
            access.cost += match many {
                true => Selectivity::assumed(&probe),
                false => self.selectivity.of(&probe),
            };
            access.probes.push(probe);
        }
        access
    }
}
