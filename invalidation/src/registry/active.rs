//! One active resource: its filter, how long it is kept, and who is in it where the change feed does not say
//! what a record was before.

use std::collections::HashMap;

use freshet_core::key::Key;
use freshet_core::time::{Moment, Position};

use super::Watched;

/// The entry.
#[derive(Debug)]
pub struct Active {
    watched: Watched,
    keep_until: Moment,
    /// Reads under way, whose members nobody knows yet, and until when they can still be settled.
    pending: u32,
    pending_until: Moment,
    members: Members,
}

#[derive(Debug)]
enum Members {
    /// Those of every outstanding copy, with the latest position they were read at.
    Known(HashMap<Key, Position>),
    /// A copy is outstanding whose members are not known.
    Unknown,
}

impl Active {
    pub(super) fn new(watched: Watched) -> Active {
        Active {
            watched,
            keep_until: Moment(0),
            pending: 0,
            pending_until: Moment(0),
            members: Members::Known(HashMap::new()),
        }
    }

    pub(super) fn begin(&mut self, until: Moment) {
        self.pending += 1;
        self.pending_until = self.pending_until.max(until);
        self.keep_until = self.keep_until.max(until);
    }

    pub(super) fn release(&mut self) {
        self.pending = self.pending.saturating_sub(1);
    }

    pub(super) fn settle(
        &mut self,
        members: Option<&[Key]>,
        position: Position,
        members_max: usize,
        until: Moment,
    ) {
        self.keep_until = self.keep_until.max(until);
        match (members, &mut self.members) {
            (Some(members), Members::Known(known))
                if known.len() + members.len() <= members_max =>
            {
                for member in members {
                    let at = known.entry(member.clone()).or_insert(position);
                    *at = (*at).max(position);
                }
            }
            _ => self.members = Members::Unknown,
        }
    }

    pub(super) fn is_kept(&self, now: Moment) -> bool {
        self.keep_until > now
    }

    /// How it is matched.
    #[must_use]
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// Whether the record may be in a copy that is outstanding, or in an answer being read.
    #[must_use]
    pub fn may_hold(&self, record: &Key, now: Moment) -> bool {
        if let Watched::Count(_) | Watched::Query { skips: true, .. } = self.watched {
            return true;
        }
        if self.pending > 0 && now < self.pending_until {
            return true;
        }
        match &self.members {
            Members::Known(members) => members.contains_key(record.as_str()),
            Members::Unknown => true,
        }
    }

    /// Copies read before `position` are stale: what was in them matters no more.
    pub fn invalidated(&mut self, position: Position) {
        if let Members::Known(members) = &mut self.members {
            members.retain(|_, read_at| *read_at >= position);
        }
    }
}
