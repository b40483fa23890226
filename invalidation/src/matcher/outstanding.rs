//! The copies of answers that are out, and the reads under way: what the engine knows of them, and which queries it has
//! to ask where a change does not say what a record was before.

use std::collections::HashSet;

use freshet_core::key::Key;
use freshet_core::time::{Moment, Position};

use super::engine::{Holders, Matcher, QueryId};
use super::entry::{Entry, Shown};
use super::shapes::Slot;
use crate::registry::seconds;

impl Matcher {
    /// A read of the query begins.
    pub(crate) fn begin(&mut self, id: QueryId, until: Moment, now: Moment) {
        if let Some(entry) = self.entry_mut(id) {
            entry.copies.begin(until);
            entry.worth.read(now);
            entry.keep_until = entry.keep_until.max(until);
            self.doubtful.insert(id);
        }
    }

    /// A read that began at `started` ended, one way or the other. One that was held so long that its query was taken out
    /// meanwhile is not among the reads of the query that took its place.
    pub(crate) fn release(&mut self, id: QueryId, started: Moment) {
        if let Some(entry) = self.entry_mut(id)
            && entry.born_s <= seconds(started)
        {
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
        let (pattern, moves) = self
            .shapes
            .get(entry.asked.shape)
            .map_or((&[][..], false), |slot| (&slot.pattern, slot.hides_moves()));
        let skips = entry.asked.skips;
        let copies = &mut entry.copies;
        copies.settle(shown, position, members_max, pattern, skips, moves);
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
    pub(crate) fn invalidated(&mut self, id: QueryId, position: Position, now: Moment) {
        let Some(Some(entry)) = self.entries.get_mut(id as usize) else {
            return;
        };
        for member in entry.copies.members() {
            forget(&mut self.holders, member, id);
        }
        entry.copies.invalidated(position);
        entry.worth.changed(now);
        for member in entry.copies.members() {
            self.holders.entry(member.clone()).or_default().insert(id);
        }
        self.doubt(id);
    }

    /// Of `count` queries from number `from` on, wrapping, the one that is worth least, and what. The other side of a join
    /// is none: it is worth what its result is.
    pub(crate) fn least_of(&self, from: u32, count: u32, now: Moment) -> Option<(QueryId, f32)> {
        let all = u32::try_from(self.entries.len()).unwrap_or(u32::MAX).max(1);
        let looked_at = (0..count.min(all)).map(|at| from.wrapping_add(at) % all);
        let rated = looked_at.filter_map(|id| {
            let entry = self.entry(id)?;
            let joined = self.home(id).is_some();
            let free = !joined && !entry.retiring && !entry.copies.is_pending(now);
            free.then(|| (id, entry.worth.score(now)))
        });
        rated.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The query is not read anew.
    pub(crate) fn retire(&mut self, id: QueryId) {
        if let Some(entry) = self.entry_mut(id) {
            entry.retiring = true;
        }
    }

    /// Keeps the list of those who may hold anything.
    fn doubt(&mut self, id: QueryId) {
        let Some(Some(entry)) = self.entries.get(id as usize) else {
            return;
        };
        let lists = self.shapes.get(entry.asked.shape).is_some_and(Slot::lists);
        if entry.asked.skips || !lists || entry.copies.is_doubtful(Moment(0)) {
            self.doubtful.insert(id);
        } else {
            self.doubtful.remove(&id);
        }
    }

    /// The query is gone.
    pub(super) fn forget_holder(&mut self, id: QueryId, entry: &Entry) {
        for member in entry.copies.members() {
            forget(&mut self.holders, member, id);
        }
        self.doubtful.remove(&id);
    }
}

fn forget(holders: &mut Holders, member: &Key, id: QueryId) {
    if let Some(of) = holders.get_mut(member.as_str()) {
        of.remove(&id);
        if of.is_empty() {
            holders.remove(member.as_str());
        }
    }
}
