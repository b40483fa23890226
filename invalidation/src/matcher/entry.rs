//! One active query: its filter over shared atoms, where it is listed, and what is known of the copies of its answer
//! that are out. A query of which no copy is good any more is dormant: it is matched again once it is read again.

use std::collections::HashMap;

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::predicate::Expr;
use freshet_core::time::{Moment, Position};
use freshet_core::value::sort::Pattern;

use super::atoms::AtomId;
use super::index::Probe;
use super::paths::RootSet;
use super::shapes::ShapeId;
use super::window::{Followed, Window};

/// The entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) expr: Expr<AtomId>,
    /// Where it is listed; `None`: it is residual.
    pub(super) probes: Option<Box<[Probe]>>,
    /// The roots that the filter looks at, and those that anything of it does.
    pub(super) filter_roots: RootSet,
    pub(super) roots: RootSet,
    pub(super) shape: ShapeId,
    /// The last event that it was a candidate of.
    pub(super) mark: u32,
    pub(super) skips: bool,
    pub(crate) copies: Copies,
    /// The resource that is touched.
    pub(crate) key: Key,
    /// Its collection, where that is not the one whose changes are matched.
    pub(crate) home: Option<Box<Namespace>>,
    pub(crate) keep_until: Moment,
}

/// The copies that are out, and the reads under way.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Reads under way, of which nobody knows yet what they show, and until when they can still be settled.
    pending: u32,
    pending_until: Moment,
    /// The latest position that a copy was read at. `None`: every copy that is out is stale.
    latest: Option<Position>,
    /// Unknown: the whole order.
    pub(super) window: Option<Box<Followed>>,
    members: Members,
}

#[derive(Debug)]
enum Members {
    /// Those of every outstanding copy, with the latest position they were read at.
    Known(Option<Box<HashMap<Key, Position>>>),
    /// A copy is outstanding whose members are not known.
    Unknown,
}

/// What a copy shows, as far as it matters to later writes.
#[derive(Clone, Debug, Default)]
pub struct Shown<'a> {
    /// The keys of the records in it, and of the look-ahead. `None`: not known. That it shows none is always told.
    pub members: Option<&'a [Key]>,
    /// Where it begins and ends.
    pub window: Window,
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            pending: 0,
            pending_until: Moment(0),
            latest: None,
            window: None,
            members: Members::Known(None),
        }
    }
}

impl Copies {
    pub(crate) fn begin(&mut self, until: Moment) {
        self.pending += 1;
        self.pending_until = self.pending_until.max(until);
    }

    pub(crate) fn release(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    /// A copy goes out. Members beyond `members_max` are not remembered one by one.
    pub(crate) fn settle(
        &mut self,
        shown: &Shown<'_>,
        position: Position,
        members_max: usize,
        pattern: &Pattern,
        skips: bool,
    ) {
        // What skips and shows nothing skipped all there is.
        let nothing = skips && shown.members.is_some_and(<[Key]>::is_empty);
        let new = Followed::of(shown.window.clone(), nothing);
        let window = match (self.latest, self.window.take()) {
            (None, _) => new,
            // A write that both copies were made before or after may lie between them and not be matched yet.
            (Some(_), Some(known)) => known.union(new, pattern),
            (Some(_), None) => Followed::default(),
        };
        self.window = (!window.is_everything()).then(|| Box::new(window));
        self.latest = self.latest.max(Some(position));
        match (shown.members, &mut self.members) {
            (Some(members), Members::Known(known)) => {
                let known = known.get_or_insert_default();
                if known.len() + members.len() > members_max {
                    self.members = Members::Unknown;
                    return;
                }
                for member in members {
                    let at = known.entry(member.clone()).or_insert(position);
                    *at = (*at).max(position);
                }
            }
            _ => self.members = Members::Unknown,
        }
    }

    /// Copies read before `position` are stale: what they show matters no more. Whether none is left.
    pub(crate) fn invalidated(&mut self, position: Position) {
        if self.latest.is_some_and(|latest| latest >= position) {
            if let Members::Known(Some(members)) = &mut self.members {
                members.retain(|_, read_at| *read_at >= position);
            }
            return;
        }
        self.latest = None;
        self.window = None;
        self.members = Members::Known(None);
    }

    /// Whether anything that happens can matter.
    pub(super) fn is_live(&self, now: Moment) -> bool {
        self.latest.is_some() || self.is_pending(now)
    }

    pub(crate) fn is_pending(&self, now: Moment) -> bool {
        self.pending > 0 && now < self.pending_until
    }

    /// Whether reads or copies are out whose members nobody knows.
    pub(crate) fn is_doubtful(&self, now: Moment) -> bool {
        self.is_pending(now) || matches!(self.members, Members::Unknown)
    }

    /// Whether the record may be in a copy that is out, or in an answer being read.
    pub(super) fn may_hold(&self, record: &Key, now: Moment) -> bool {
        self.is_pending(now)
            || match &self.members {
                Members::Known(Some(members)) => members.contains_key(record.as_str()),
                Members::Known(None) => false,
                Members::Unknown => true,
            }
    }

    /// The records known to be in copies.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Key> {
        match &self.members {
            Members::Known(members) => members.as_deref(),
            Members::Unknown => None,
        }
        .into_iter()
        .flat_map(HashMap::keys)
    }
}
