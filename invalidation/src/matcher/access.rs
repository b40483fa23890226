//! Which predicate of a query is looked up in the index: one per conjunction, the one that the fewest documents satisfy;
//! of a disjunction one per arm. A query without any, or whose best one most documents satisfy, is residual.

use foldhash::fast::RandomState;
use freshet_core::predicate::{Expr, Reach, Span};
use freshet_core::value::order_key::{OrderKey, digest};

use super::atoms::{AtomId, Atoms};
use super::index::{At, Probe};
use super::paths::{PathId, Paths};
use super::selectivity::Selectivity;

/// From this share of documents on an index saves less than asking it costs.
const RESIDUAL_FROM: f64 = 0.5;
/// The most atoms one query is listed by.
const LISTED_MAX: usize = 1_000;

/// What a query is listed by. The places in the index are found from it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listed {
    /// An atom that holds.
    By(AtomId),
    /// One that does not.
    Without(AtomId),
    /// The lower end of a range, and the upper one. Both are within one type; over an array's elements the index asks
    /// for what lies between the least and the greatest.
    Between(AtomId, AtomId),
}

/// All that a query is listed by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// Nothing: it is always a candidate.
    Residual,
    One(Listed),
    /// Each of these; none at all: nothing satisfies it.
    Many(Box<[Listed]>),
}

impl Listing {
    fn of(mut listed: Vec<Listed>) -> Listing {
        match listed.len() {
            1 => Listing::One(listed.remove(0)),
            _ => Listing::Many(listed.into()),
        }
    }

    pub(super) fn listed(&self) -> &[Listed] {
        match self {
            Listing::Residual => &[],
            Listing::One(one) => std::slice::from_ref(one),
            Listing::Many(many) => many,
        }
    }
}

/// A way to look a query up, and the share of documents that lead to it.
type Rated = (Vec<Listed>, f64);

/// A range: its path, its lower end and its upper one, each with the atom that says so.
type Range = (PathId, (OrderKey, AtomId), (OrderKey, AtomId));

/// What choosing looks at.
pub(super) struct Chooser<'a> {
    pub(super) atoms: &'a Atoms,
    pub(super) paths: &'a Paths,
    pub(super) selectivity: &'a Selectivity,
    pub(super) state: &'a RandomState,
}

impl Chooser<'_> {
    /// The access predicate of a query, and the share of documents that lead to it.
    pub(super) fn choose(&self, expr: &Expr<AtomId>) -> (Listing, f64) {
        match self.best(expr) {
            Some((listed, cost)) if cost <= RESIDUAL_FROM && listed.len() <= LISTED_MAX => {
                (Listing::of(listed), cost)
            }
            _ => (Listing::Residual, 1.0),
        }
    }

    /// Whether there is any, narrow or not.
    pub(super) fn is_indexable(&self, expr: &Expr<AtomId>) -> bool {
        self.best(expr).is_some()
    }

    fn best(&self, expr: &Expr<AtomId>) -> Option<Rated> {
        match expr {
            Expr::Is(id) => self.rated(Listed::By(*id)),
            Expr::Not(id) => self.rated(Listed::Without(*id)),
            Expr::All(of) => {
                let ranges = self.ranges(of).into_iter();
                let single = of.iter().filter_map(|one| self.best(one));
                ranges.chain(single).min_by(|a, b| a.1.total_cmp(&b.1))
            }
            Expr::Any(of) => {
                let mut all = (Vec::new(), 0.0);
                for one in of {
                    let (listed, cost) = self.best(one)?;
                    all.0.extend(listed);
                    all.1 += cost;
                }
                Some(all)
            }
        }
    }

    fn rated(&self, listed: Listed) -> Option<Rated> {
        let path = self.path(listed)?;
        let (mut share, mut count) = (0.0, 0);
        self.places(listed, &mut |_, below, at| {
            count += 1;
            share += match below.is_empty() && count <= Selectivity::PLACES_MEASURED_MAX {
                true => self.selectivity.of(path, &at),
                false => Selectivity::assumed(&at),
            };
        })?;
        Some((vec![listed], share))
    }

    /// The ranges that two atoms of one path make together.
    fn ranges(&self, of: &[Expr<AtomId>]) -> Vec<Rated> {
        // Per path and type the highest lower end and the lowest upper one.
        if of.len() < 2 {
            return Vec::new();
        }
        let mut ranges: Vec<Range> = Vec::new();
        for one in of {
            let Expr::Is(id) = one else { continue };
            let Some((path, low, high)) = self.ends(*id) else {
                continue;
            };
            let same = |known: &&mut Range| known.0 == path && known.1.0.rank() == low.rank();
            match ranges.iter_mut().find(same) {
                Some((_, l, h)) => (*l, *h) = ((*l).max((low, *id)), (*h).min((high, *id))),
                None => ranges.push((path, (low, *id), (high, *id))),
            }
        }
        let two = ranges
            .into_iter()
            .filter(|(_, low, high)| low.1 != high.1 && low.0 <= high.0);
        two.filter_map(|(_, low, high)| self.rated(Listed::Between(low.1, high.1)))
            .collect()
    }

    /// The one span of keys that an atom is satisfied within, of one type.
    fn ends(&self, id: AtomId) -> Option<(PathId, OrderKey, OrderKey)> {
        let (atom, path) = self.atoms.get(id)?;
        match atom.span()? {
            Span::Between(low, high) if low.rank() == high.rank() => Some((path, low, high)),
            _ => None,
        }
    }

    fn path(&self, listed: Listed) -> Option<PathId> {
        let (Listed::By(id) | Listed::Without(id) | Listed::Between(id, _)) = listed;
        self.atoms.get(id).map(|(_, path)| path)
    }

    /// Calls `visit` with the places of what a query is listed by: below the atom's path, and at what. `None`: there are
    /// none, every document has to be looked at.
    fn places(&self, listed: Listed, visit: &mut impl FnMut(PathId, &str, At)) -> Option<()> {
        if let Listed::Between(low, high) = listed {
            let (path, low, _) = self.ends(low)?;
            let (_, _, high) = self.ends(high)?;
            visit(path, "", At::Between(low, high));
            return Some(());
        }
        let (Listed::By(id) | Listed::Without(id) | Listed::Between(id, _)) = listed;
        let (atom, path) = self.atoms.get(id)?;
        if let Listed::By(_) = listed
            && let Some(span) = atom.span()
        {
            visit(path, "", self.at(span));
            return Some(());
        }
        let reach = match listed {
            Listed::Without(_) => atom.reach_negated()?,
            _ => atom.reach()?,
        };
        for Reach { below, span } in reach {
            visit(path, &below, self.at(span));
        }
        Some(())
    }

    fn at(&self, span: Span<'_>) -> At {
        match span {
            Span::Equal(value) => At::Digest(digest(value, self.state)),
            Span::Between(low, high) => At::Between(low, high),
            Span::Missing => At::Missing,
        }
    }

    /// The places in the index. A path below an atom's own is named by its text.
    pub(super) fn probes(&self, listing: &Listing) -> Vec<(Probe, Option<String>)> {
        let mut probes = Vec::new();
        for listed in listing.listed() {
            self.places(*listed, &mut |path, below, at| {
                let own = self.paths.path(path).filter(|_| !below.is_empty());
                let whole = own.map(|own| format!("{}.{below}", own.as_str()));
                probes.push((Probe { path, at }, whole));
            });
        }
        probes
    }
}
