//! One collection's part of the sketch: outstanding copies, stale keys, recent changes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::counting::{BITS_MAX, BITS_MIN, CountingFilter, bits_for, keys_at_target};
use super::hash::Halves;
use super::machine::{NewCopy, Refused};
use super::recent::Recent;
use crate::key::Key;
use crate::time::{Moment, Position};

/// How long a copy may be handed out and used, and how long used alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    pub(super) span_ms: u64,
    pub(super) client_ms: u64,
}

/// Copies of one key that live and die together.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// The horizon: the latest t0 + S + M, or what a confirmed purge made of it (rule C3).
    until: Moment,
    /// The horizon of copies inside other responses: purging this key does not reach those (rule C4).
    embedded_until: Moment,
    /// The greatest M, with the way to the client.
    client_ms: u64,
    /// Fresh: the least position read at. Stale: the latest change that made some of them stale.
    position: Position,
}

#[derive(Debug)]
struct Entry {
    halves: Halves,
    fresh: Option<Copies>,
    stale: Option<Copies>,
    /// It stands in the filter.
    counted: bool,
    /// When the queue looks at it again; queued items of another time are void.
    due: Moment,
}

#[derive(Debug)]
pub(super) struct Space {
    recent: Recent,
    entries: HashMap<Key, Entry>,
    /// When to look at an entry again. Void items are swept out when they are the most.
    due: BinaryHeap<Reverse<(Moment, Key)>>,
    /// None while nothing is stale: most collections need no counters most of the time.
    filter: Option<CountingFilter>,
    stale_keys: usize,
}

impl Space {
    pub(super) fn new(recent: Recent) -> Space {
        Space {
            recent,
            entries: HashMap::new(),
            due: BinaryHeap::new(),
            filter: None,
            stale_keys: 0,
        }
    }

    /// `room`: the epoch's salt, when one more key may come in.
    pub(super) fn settle(
        &mut self,
        copy: NewCopy<'_>,
        issued: Issued,
        room: Option<&[u8; 16]>,
        now: Moment,
    ) -> Result<(), Refused> {
        self.recent.forget(now);
        if let Some(at) = self.recent.changed_after(copy.key, copy.position) {
            return Err(Refused::InvalidatedAt(at));
        }
        let until = now.after_ms(issued.span_ms);
        if until == now {
            return Ok(());
        }
        let issued = Copies {
            until,
            embedded_until: if copy.embedded { until } else { now },
            client_ms: issued.client_ms,
            position: copy.position,
        };
        match self.entries.get_mut(copy.key.as_str()) {
            Some(entry) => {
                entry.fresh = Some(match entry.fresh {
                    Some(fresh) if fresh.until > now => Copies {
                        position: fresh.position.min(issued.position),
                        ..fresh.or_later(issued)
                    },
                    _ => issued,
                });
            }
            None => {
                let Some(salt) = room else {
                    return Err(Refused::Full);
                };
                let entry = Entry {
                    halves: Halves::of(copy.key.as_str(), salt),
                    fresh: Some(issued),
                    stale: None,
                    counted: false,
                    due: until,
                };
                self.entries.insert(copy.key.clone(), entry);
                self.due.push(Reverse((until, copy.key.clone())));
            }
        }
        Ok(())
    }

    pub(super) fn report_write(&mut self, key: &Key, position: Position, now: Moment) -> bool {
        self.recent.note(key, position, now);
        let Some(entry) = self.entries.get_mut(key.as_str()) else {
            return false;
        };
        if !entry.invalidate(position, now) {
            return false;
        }
        self.take_in(key);
        true
    }

    /// Makes what is out of a key stale, whenever it was read: nobody knows whether it changed.
    pub(super) fn report_lost(&mut self, key: &Key, position: Position, now: Moment) -> bool {
        let Some(entry) = self.entries.get_mut(key.as_str()) else {
            return false;
        };
        let read_at = entry.fresh.map_or(Position::ZERO, |fresh| fresh.position);
        let after = Position(read_at.0.saturating_add(1));
        if !entry.invalidate(position.max(after), now) {
            return false;
        }
        self.take_in(key);
        true
    }

    pub(super) fn report_all(&mut self, position: Position, now: Moment) {
        self.recent.note_all(position);
        let hit: Vec<Key> = self
            .entries
            .iter_mut()
            .filter_map(|(key, entry)| entry.invalidate(position, now).then(|| key.clone()))
            .collect();
        hit.iter().for_each(|key| self.take_in(key));
    }

    /// Puts a key that just became stale into the filter, unless it is there.
    fn take_in(&mut self, key: &Key) {
        let Some(entry) = self.entries.get_mut(key.as_str()) else {
            return;
        };
        if entry.counted {
            return;
        }
        entry.counted = true;
        let filter = self
            .filter
            .get_or_insert_with(|| CountingFilter::new(BITS_MIN));
        filter.insert(entry.halves);
        self.stale_keys += 1;
        let m = filter.m();
        if self.stale_keys > keys_at_target(m) && m < BITS_MAX {
            self.rebuild(bits_for(self.stale_keys));
        }
    }

    pub(super) fn confirm_purge(&mut self, key: &Key, position: Position, now: Moment) {
        let Some(entry) = self.entries.get_mut(key.as_str()) else {
            return;
        };
        let Some(stale) = entry.stale.as_mut() else {
            return;
        };
        // A later change has a purge of its own, whose repeat is still to come.
        if stale.position > position {
            return;
        }
        let until = now.after_ms(stale.client_ms).max(stale.embedded_until);
        if until < stale.until {
            stale.until = until;
        }
        if until < entry.due {
            entry.due = until;
            self.due.push(Reverse((until, key.clone())));
            self.sweep_queue();
        }
    }

    fn sweep_queue(&mut self) {
        if self.due.len() > 64 + 2 * self.entries.len() {
            self.due = self
                .entries
                .iter()
                .map(|(key, entry)| Reverse((entry.due, key.clone())))
                .collect();
        }
    }

    /// Takes out what is past its horizon; looks at `entries_max` entries.
    pub(super) fn expire(&mut self, now: Moment, entries_max: usize) {
        for _ in 0..entries_max {
            match self.due.peek() {
                Some(Reverse((at, _))) if *at <= now => {}
                _ => break,
            }
            let Some(Reverse((at, key))) = self.due.pop() else {
                break;
            };
            let Some(entry) = self.entries.get_mut(key.as_str()) else {
                continue;
            };
            if entry.due != at {
                continue;
            }
            entry.fresh = entry.fresh.filter(|fresh| fresh.until > now);
            entry.stale = entry.stale.filter(|stale| stale.until > now);
            if entry.stale.is_none() && entry.counted {
                entry.counted = false;
                if let Some(filter) = &mut self.filter {
                    filter.remove(entry.halves);
                }
                self.stale_keys -= 1;
            }
            let next = [entry.fresh, entry.stale]
                .into_iter()
                .flatten()
                .map(|copies| copies.until)
                .min();
            match next {
                Some(at) => {
                    entry.due = at;
                    self.due.push(Reverse((at, key)));
                }
                None => {
                    self.entries.remove(key.as_str());
                }
            }
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        let Some(filter) = &self.filter else { return };
        let m = filter.m();
        if self.stale_keys == 0 {
            self.filter = None;
        } else if m > BITS_MIN && self.stale_keys < keys_at_target(m) / 16 {
            self.rebuild(bits_for(self.stale_keys * 2));
        }
    }

    /// Makes the filter larger, for a union that needs it.
    pub(super) fn grow_to(&mut self, m: u32) {
        if self.filter.as_ref().is_some_and(|filter| filter.m() < m) {
            self.rebuild(m);
        }
    }

    /// None: nothing is stale.
    pub(super) fn filter(&self) -> Option<&CountingFilter> {
        self.filter.as_ref()
    }

    /// Whether nothing would be lost with it but the floor, which is answered.
    pub(super) fn idle_above(&mut self, now: Moment) -> Option<Position> {
        self.recent.forget(now);
        (self.entries.is_empty() && self.recent.is_empty()).then(|| self.recent.floor())
    }

    pub(super) fn stale_keys(&self) -> usize {
        self.stale_keys
    }

    /// Keys with copies.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn rebuild(&mut self, m: u32) {
        let mut filter = CountingFilter::new(m);
        for entry in self.entries.values().filter(|entry| entry.counted) {
            filter.insert(entry.halves);
        }
        self.filter = Some(filter);
    }
}

impl Entry {
    /// Turns fresh copies that were read before `position` stale; whether there were any.
    fn invalidate(&mut self, position: Position, now: Moment) -> bool {
        let Some(fresh) = self.fresh.filter(|fresh| fresh.until > now) else {
            return false;
        };
        if fresh.position >= position {
            return false;
        }
        self.fresh = None;
        let lapsed = Copies { position, ..fresh };
        self.stale = Some(match self.stale.filter(|stale| stale.until > now) {
            Some(stale) => Copies {
                position: stale.position.max(position),
                ..stale.or_later(lapsed)
            },
            None => lapsed,
        });
        true
    }
}

impl Copies {
    /// The greater of every bound.
    fn or_later(self, other: Copies) -> Copies {
        Copies {
            until: self.until.max(other.until),
            embedded_until: self.embedded_until.max(other.embedded_until),
            client_ms: self.client_ms.max(other.client_ms),
            position: self.position,
        }
    }
}
