//! One event: its candidates, and which of them it touches.

use std::panic::{AssertUnwindSafe, catch_unwind};

use freshet_core::change::Image;
use freshet_core::notification::Effect;
use freshet_core::time::Moment;
use freshet_core::value::order_key::digest;

use super::atoms::Side;
use super::engine::{Happened, Matcher, QueryId};
use super::facts::{Facts, changed};
use super::paths::RootSet;
use super::relation::{In, judge};
use super::selectivity::Selectivity;
use super::shapes::Event;

/// More candidates than this push one another out of the caches.
const FETCH_MAX: usize = 1_024;
/// Of so many events one is learned from.
const LEARN_EVERY: u32 = 8;

impl Matcher {
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
        let mut event = Event::of(
            before.as_ref(),
            after.as_ref(),
            differing,
            !happened.members,
        );
        self.work.candidates += self.candidates.len() as u64;
        self.candidates.retain(|id| {
            let entry = self.entries.get(*id as usize).and_then(Option::as_ref);
            entry.is_some_and(|entry| entry.copies.is_live(now))
        });
        self.fetch();
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
        self.candidates = candidates;
        if self.event.is_multiple_of(LEARN_EVERY) {
            self.learn(after.as_mut());
        }
    }

    /// Reads a little of everything that judging the candidates will read. With a million queries hardly anything of it
    /// is in the processor's caches; read in short loops, none of which waits for what the same loop reads, many of these
    /// reads wait side by side instead of one after the other.
    fn fetch(&mut self) {
        if self.candidates.len() > FETCH_MAX {
            return;
        }
        let Matcher {
            entries,
            candidates,
            atoms,
            asked_atoms,
            ..
        } = self;
        let entries = || {
            let entry = |id: &QueryId| entries.get(*id as usize)?.as_ref();
            candidates.iter().filter_map(entry)
        };
        let windows = || entries().filter_map(|entry| entry.copies.window.as_deref());
        let mut read = 0_u64;
        let mut see = |seen: u64| read = read.wrapping_add(seen);
        entries().for_each(|entry| see(entry.asked.conditions.glance()));
        windows().for_each(|window| see(window.glance()));
        asked_atoms.clear();
        for entry in entries() {
            asked_atoms.extend(entry.asked.conditions.atoms());
        }
        asked_atoms.iter().for_each(|atom| see(atoms.glance(*atom)));
        windows().for_each(|window| see(window.glance_at_last()));
        let atoms = asked_atoms
            .iter()
            .map(|atom| atoms.glance_at_operand(*atom));
        atoms.for_each(&mut see);
        std::hint::black_box(read);
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
            || is_unknown(happened.before) && (!happened.members || happened.record.is_none())
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
        let asked = &entry.asked;
        let both = before.is_some() && after.is_some();
        let slot = shapes.get(asked.shape)?;
        let looked_at = asked.filter_roots.union(slot.roots);
        if both && !looked_at.meets(event.changed) && slot.roots != RootSet::ALL {
            return None;
        }
        let mut matches = |side, facts: &mut Facts<'_>| {
            let mut holds = |atom| atoms.holds(atom, side, facts, paths);
            In::from(asked.conditions.holds(&mut holds))
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
        for path in 0..Selectivity::paths(self.paths.len()) {
            if self.paths.path(path).is_some() {
                let leaves = facts.leaves(path, &self.paths);
                self.selectivity
                    .learn(path, leaves, |value| digest(value, state));
            }
        }
        self.selectivity.turn();
    }
}

fn is_unknown(image: &Image) -> bool {
    matches!(image, Image::Unknown | Image::Later(_))
}
