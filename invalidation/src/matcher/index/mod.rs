//! The predicate index: from the values of a document to the queries it can satisfy. Per path an index over the access
//! predicates of the queries: equalities by digest, spans of order keys (ranges, prefixes, types) in an interval tree,
//! and the queries that want nothing there. Paths through arrays lead to many values, as in MongoDB's multikey
//! indexes.
//!
//! What comes out is a superset: a candidate is still evaluated.

mod list;
mod postings;
mod spans;

use std::collections::HashMap;
use std::hash::Hash;

use foldhash::fast::FixedState;
use freshet_core::value::order_key::OrderKey;
use freshet_core::value::path::Leaf;

use self::list::IdList;
use self::postings::Postings;
use self::spans::Spans;
use super::paths::PathId;

/// Where one query is listed: at one place per alternative of its access predicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) path: PathId,
    pub(super) at: At,
}

/// A place under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// A value with this digest.
    Digest(u64),
    /// A key between these, both included.
    Between(OrderKey, OrderKey),
    /// Nothing.
    Missing,
}

/// The index of one path.
#[derive(Debug, Default)]
struct Field {
    equal: HashMap<u64, Postings, FixedState>,
    spans: Spans,
    /// Spans of all values of a type.
    ranks: HashMap<u8, Postings, FixedState>,
    missing: Postings,
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    fields: Vec<Option<Box<Field>>>,
    /// Paths that have a field.
    used: Vec<PathId>,
    /// What cannot be indexed: always a candidate.
    residual: IdList,
    /// Per rank of types the least and the greatest key that a path leads to. Two ends of a range may be satisfied by
    /// two elements of an array: what lies between counts. Kept for its memory only.
    hulls: Vec<(OrderKey, OrderKey)>,
}

impl Index {
    pub(super) fn insert(&mut self, probe: Probe, id: u32) {
        let at = probe.path as usize;
        if self.fields.len() <= at {
            self.fields.resize_with(at + 1, || None);
        }
        let used = &mut self.used;
        let field = self.fields[at].get_or_insert_with(|| {
            used.push(probe.path);
            Box::default()
        });
        match probe.at {
            At::Digest(digest) => field.equal.entry(digest).or_default().insert(id),
            At::Between(low, high) => match whole_rank(low, high) {
                Some(rank) => field.ranks.entry(rank).or_default().insert(id),
                None => field.spans.insert(low, high, id),
            },
            At::Missing => field.missing.insert(id),
        }
    }

    pub(super) fn remove(&mut self, probe: Probe, id: u32) {
        let Some(slot) = self.fields.get_mut(probe.path as usize) else {
            return;
        };
        let Some(field) = slot else { return };
        match probe.at {
            At::Digest(digest) => take_out(&mut field.equal, digest, id),
            At::Between(low, high) => match whole_rank(low, high) {
                Some(rank) => take_out(&mut field.ranks, rank, id),
                None => field.spans.remove(low, high, id),
            },
            At::Missing => field.missing.remove(id),
        }
        if field.is_empty() {
            *slot = None;
            self.used.retain(|path| *path != probe.path);
        }
    }

    pub(super) fn insert_residual(&mut self, id: u32) {
        self.residual.insert(id);
    }

    pub(super) fn remove_residual(&mut self, id: u32) {
        self.residual.remove(id);
    }

    /// How many are always candidates.
    pub(super) fn residuals(&self) -> usize {
        self.residual.len()
    }

    /// The paths to ask about.
    pub(super) fn paths(&self) -> &[PathId] {
        &self.used
    }

    /// What is always a candidate.
    pub(super) fn each_residual(&self, visit: &mut impl FnMut(u32)) {
        self.residual.each(visit);
    }

    /// The candidates for what one path leads to in a document.
    pub(super) fn candidates(
        &mut self,
        path: PathId,
        leaves: &[Leaf<'_>],
        digest: impl Fn(bson::RawBsonRef<'_>) -> u64,
        visit: &mut impl FnMut(u32),
    ) {
        let Some(Some(field)) = self.fields.get_mut(path as usize) else {
            return;
        };
        let mut missing = leaves.is_empty();
        let hulls = &mut self.hulls;
        hulls.clear();
        for leaf in leaves {
            let value = match leaf {
                Leaf::Missing => {
                    missing = true;
                    continue;
                }
                Leaf::Value(value) | Leaf::Element(value) => *value,
            };
            if !field.equal.is_empty()
                && let Some(postings) = field.equal.get(&digest(value))
            {
                postings.each(visit);
            }
            if !field.spans.is_empty() || !field.ranks.is_empty() {
                let key = OrderKey::of(value);
                match hulls.iter_mut().find(|(low, _)| low.rank() == key.rank()) {
                    Some((low, high)) => (*low, *high) = ((*low).min(key), (*high).max(key)),
                    None => hulls.push((key, key)),
                }
            }
        }
        for (low, high) in hulls.iter().copied() {
            if let Some(postings) = field.ranks.get(&low.rank()) {
                postings.each(visit);
            }
            match low < high {
                true => field.spans.overlapping(low, high, visit),
                false => field.spans.containing(low, visit),
            }
        }
        if missing {
            field.missing.each(visit);
        }
    }
}

impl Field {
    fn is_empty(&self) -> bool {
        self.equal.is_empty()
            && self.spans.is_empty()
            && self.ranks.is_empty()
            && self.missing.is_empty()
    }
}

/// The rank, where a span is all of one.
fn whole_rank(low: OrderKey, high: OrderKey) -> Option<u8> {
    let rank = low.rank();
    (low == OrderKey::rank_min(rank) && high == OrderKey::rank_max(rank)).then_some(rank)
}

fn take_out<K: Eq + Hash>(of: &mut HashMap<K, Postings, FixedState>, key: K, id: u32) {
    if let Some(postings) = of.get_mut(&key) {
        postings.remove(id);
        if postings.is_empty() {
            of.remove(&key);
        }
    }
}
