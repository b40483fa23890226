//! One active query: its filter over shared atoms, where it is listed, and what is known of the copies of its answer
//! that are out. A query of which no copy is good any more is dormant: it is matched again once it is read again.

use std::collections::HashMap;

use bson::RawBson;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Moment, Position};
use freshet_core::value::sort::Pattern;

use super::access::Listing;
use super::flat::Flat;
use super::paths::RootSet;
use super::shapes::ShapeId;
use super::window::{Followed, Window};
use crate::registry::Worth;

/// What is looked for.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) conditions: Flat,
    pub(super) listing: Listing,
    /// The roots that the filter looks at.
    pub(super) filter_roots: RootSet,
    pub(super) shape: ShapeId,
    pub(super) skips: bool,
}

/// The entry.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) asked: Asked,
    pub(crate) copies: Copies,
    /// The resource that is touched.
    pub(crate) key: Key,
    /// The second in which it was listed.
    pub(crate) born_s: u32,
    pub(crate) keep_until: Moment,
    pub(crate) worth: Worth,
    /// It makes room for another one: it is not read anew.
    pub(crate) retiring: bool,
}

/// The resource that a join belongs to.
#[derive(Clone, Debug)]
pub struct Home {
    /// Its collection.
    pub namespace: Namespace,
    /// Its key.
    pub key: Key,
    /// The local values that its copies saw; `None`: not known.
    pub(crate) values: Option<Vec<RawBson>>,
}

/// The copies that are out, and the reads under way.
#[derive(Debug)]
pub(crate) struct Copies {
    /// Reads under way, of which nobody knows yet what they show, and until when they can still be settled.
    pending: u32,
    pending_until: Moment,
    /// Whether a copy is out that is not stale, and the latest position that one was read at.
    fresh: bool,
    latest: Position,
    /// Unknown: the whole order.
    pub(super) window: Option<Box<Followed>>,
    /// The records in every copy that is out, with the latest position they were read at.
    #[allow(
        clippy::box_collection,
        reason = "there are millions of entries, few of them with members"
    )]
    members: Option<Box<HashMap<Key, Position>>>,
    /// A copy is out whose members are not known.
    unknown: bool,
}

/// What a copy shows, as far as it matters to later writes.
#[derive(Clone, Debug, Default)]
pub struct Shown<'a> {
    /// The keys of the records in it, and of the look-ahead. `None`: not known. That it shows none is always told.
    pub members: Option<&'a [Key]>,
    /// Where it begins and ends.
    pub window: Window,
    /// Of each join the local values that were looked for; `None`: not known.
    pub joined: Vec<Option<Vec<RawBson>>>,
}

impl Default for Copies {
    fn default() -> Copies {
        Copies {
            pending: 0,
            pending_until: Moment(0),
            fresh: false,
            latest: Position::ZERO,
            window: None,
            members: None,
            unknown: false,
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
        moves: bool,
    ) {
        // What skips and shows nothing skipped all there is.
        let nothing = skips && shown.members.is_some_and(<[Key]>::is_empty);
        // A beginning that is not known might be passed.
        let begins = !skips || shown.window.first.is_some();
        let new = Followed::of(shown.window.clone(), nothing, moves && begins);
        let window = match (self.fresh, self.window.take()) {
            (false, _) => new,
            // A write that lies between the two copies may not be matched yet.
            (true, Some(known)) => known.union(new, pattern),
            (true, None) => Followed::default(),
        };
        self.window = (!window.is_everything()).then(|| Box::new(window));
        self.latest = match self.fresh {
            true => self.latest.max(position),
            false => position,
        };
        self.fresh = true;
        match shown.members {
            Some(members) if !self.unknown => {
                let known = self.members.get_or_insert_default();
                if known.len() + members.len() > members_max {
                    self.members = None;
                    self.unknown = true;
                    return;
                }
                for member in members {
                    let at = known.entry(member.clone()).or_insert(position);
                    *at = (*at).max(position);
                }
            }
            _ => {
                self.members = None;
                self.unknown = true;
            }
        }
    }

    /// Copies read before `position` are stale: what they show matters no more. Whether none is left.
    pub(crate) fn invalidated(&mut self, position: Position) {
        if self.fresh && self.latest >= position {
            if let Some(members) = &mut self.members {
                members.retain(|_, read_at| *read_at >= position);
            }
            return;
        }
        self.fresh = false;
        self.window = None;
        self.members = None;
        self.unknown = false;
    }

    /// Reads under way.
    pub(crate) fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether a copy is out that is not stale.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// The latest position that a copy was read at.
    pub(crate) fn latest(&self) -> Position {
        self.latest
    }

    /// Whether anything that happens can matter.
    pub(super) fn is_live(&self, now: Moment) -> bool {
        self.fresh || self.is_pending(now)
    }

    pub(crate) fn is_pending(&self, now: Moment) -> bool {
        self.pending > 0 && now < self.pending_until
    }

    /// Whether reads or copies are out whose members nobody knows.
    pub(crate) fn is_doubtful(&self, now: Moment) -> bool {
        self.is_pending(now) || self.unknown
    }

    /// Whether the record may be in a copy that is out, or in an answer being read.
    pub(super) fn may_hold(&self, record: &Key, now: Moment) -> bool {
        self.is_pending(now)
            || self.unknown
            || self
                .members
                .as_ref()
                .is_some_and(|members| members.contains_key(record.as_str()))
    }

    /// The records known to be in copies.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Key> {
        let members = self.members.iter();
        members.flat_map(|members| members.keys())
    }
}
