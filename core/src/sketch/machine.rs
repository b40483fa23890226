//! The sketch as a pure state machine: what is outstanding, what of it is stale and until when, and what
//! changed lately (rules C2–C4, C8). The moment is an argument; calls are serialised by whoever owns it.
//!
//! A key's copies are fresh or stale. A change turns the fresh ones stale; they stay in the filter until
//! their horizon. The same change twice finds no fresh copy and does nothing (set semantics).

use std::collections::HashMap;

use super::Epoch;
use super::counting::{BITS_MIN, CountingFilter, bits_for, unite};
use super::recent::Recent;
use super::space::{Issued, Space};
use crate::freshness::Lifetimes;
use crate::key::Key;
use crate::name::Namespace;
use crate::time::{Moment, Position};

/// What the sketch may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Keys with outstanding copies, over all collections.
    pub keys_max: usize,
    /// Remembered changes per collection; beyond it the floor rises.
    pub changes_max: usize,
    /// Collections.
    pub collections_max: usize,
    /// How long a change is remembered, milliseconds: longer than any permitted read.
    pub retention_ms: u64,
    /// The greatest M and S that are ever given out.
    pub caps: Lifetimes,
    /// The longest way of an answer from its settling into a cache, or from one cache into the next: a
    /// lifetime begins when the answer arrives. The fill time F of rule C5.
    pub transfer_ms: u64,
}

impl Limits {
    /// M with the way to the client before it.
    #[must_use]
    pub fn client_ms(&self, lifetimes: Lifetimes) -> u64 {
        lifetimes.m.as_ms() + self.transfer_ms
    }

    /// S + M with the ways before them: the span of the horizon (rule C3). Zero for what nobody may keep.
    #[must_use]
    pub fn span_ms(&self, lifetimes: Lifetimes) -> u64 {
        if lifetimes.is_zero() {
            return 0;
        }
        lifetimes.span_ms() + self.transfer_ms
    }
}

/// A copy about to be issued.
#[derive(Clone, Copy, Debug)]
pub struct NewCopy<'a> {
    /// The resource.
    pub key: &'a Key,
    /// Where it was read.
    pub position: Position,
    /// What it is given.
    pub lifetimes: Lifetimes,
    /// It travels inside another resource's response.
    pub embedded: bool,
}

/// Why a copy cannot be accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The key changed at this position, or may have.
    InvalidatedAt(Position),
    /// No room.
    Full,
}

/// The union of some collections' filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Contains everything; no bits.
    pub saturated: bool,
    /// Bits.
    pub m: u32,
    /// ⌈m/8⌉ bytes in wire order.
    pub bits: Vec<u8>,
    /// Keys in it.
    pub stale_keys: usize,
}

/// The machine.
#[derive(Debug)]
pub struct Sketch {
    limits: Limits,
    epoch: Epoch,
    saturated_until: Moment,
    floor: Position,
    spaces: HashMap<Namespace, Space>,
    keys: usize,
}

impl Sketch {
    /// A whole sketch: nothing was ever issued.
    #[must_use]
    pub fn new(limits: Limits, epoch: Epoch) -> Sketch {
        Sketch {
            limits,
            epoch,
            saturated_until: Moment(0),
            floor: Position::ZERO,
            spaces: HashMap::new(),
            keys: 0,
        }
    }

    /// The current epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Begins a new epoch that knows nothing: it contains everything until no older copy can be left, and
    /// refuses reads before `through`.
    pub fn saturate(&mut self, epoch: Epoch, through: Position, now: Moment) {
        self.epoch = epoch;
        self.floor = self.floor.max(through);
        self.spaces.clear();
        self.keys = 0;
        self.saturated_until = now.after_ms(self.limits.span_ms(self.limits.caps));
    }

    /// Every shared cache dropped what it held when the epoch began: now + max M is enough.
    pub fn confirm_saturation(&mut self, now: Moment) {
        let short = now.after_ms(self.limits.client_ms(self.limits.caps));
        self.saturated_until = self.saturated_until.min(short);
    }

    /// Accounts for a copy before it is issued.
    ///
    /// # Errors
    /// [`Refused`]: the answer must not be cached.
    pub fn settle(
        &mut self,
        namespace: &Namespace,
        copy: NewCopy<'_>,
        now: Moment,
    ) -> Result<(), Refused> {
        let salt = self.epoch.salt;
        let issued = Issued {
            span_ms: self.limits.span_ms(copy.lifetimes),
            client_ms: self.limits.client_ms(copy.lifetimes),
        };
        let full = self.keys >= self.limits.keys_max;
        let Some(space) = self.space(namespace, now) else {
            return Err(Refused::Full);
        };
        let before = space.len();
        space.expire(now, EXPIRED_PER_CALL_MAX);
        let room = !full || space.len() < before;
        let settled = space.settle(copy, issued, room.then_some(&salt), now);
        let after = space.len();
        self.keys = self.keys + after - before;
        settled
    }

    /// A change of `key`; whether it made a copy stale.
    pub fn report_write(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        position: Position,
        now: Moment,
    ) -> bool {
        if let Some(space) = self.space(namespace, now) {
            return space.report_write(key, position, now);
        }
        // No room to remember it: nothing read before it may be cached anywhere new.
        self.floor = self.floor.max(position);
        false
    }

    /// Nobody matched `key` for a while: what is out of it counts as stale, wherever it was read; whether that was any.
    pub fn report_lost(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        position: Position,
        now: Moment,
    ) -> bool {
        let space = self.spaces.get_mut(namespace);
        space.is_some_and(|space| space.report_lost(key, position, now))
    }

    /// The whole collection changed.
    pub fn report_collection(&mut self, namespace: &Namespace, position: Position, now: Moment) {
        match self.space(namespace, now) {
            Some(space) => space.report_all(position, now),
            None => self.floor = self.floor.max(position),
        }
    }

    /// Every shared cache confirmed, after the repeat, the purge that answers to the change at `position`.
    pub fn confirm_purge(
        &mut self,
        namespace: &Namespace,
        key: &Key,
        position: Position,
        now: Moment,
    ) {
        if let Some(space) = self.spaces.get_mut(namespace) {
            space.confirm_purge(key, position, now);
        }
    }

    /// The collections of a database that it knows of.
    #[must_use]
    pub fn collections(&self, db: &str) -> Vec<Namespace> {
        let known = self.spaces.keys();
        known.filter(|space| space.db() == db).cloned().collect()
    }

    /// The union of the filters of `namespaces`, exact as of `now`.
    pub fn union(&mut self, namespaces: &[Namespace], now: Moment) -> Union {
        if now < self.saturated_until {
            return Union {
                saturated: true,
                m: BITS_MIN,
                bits: Vec::new(),
                stale_keys: 0,
            };
        }
        self.expire(now);
        let stale_keys = namespaces
            .iter()
            .filter_map(|n| self.spaces.get(n))
            .map(Space::stale_keys)
            .sum();
        // The sum decides: many half-full filters would make a full union.
        let mut m = bits_for(stale_keys);
        for namespace in namespaces {
            if let Some(space) = self.spaces.get_mut(namespace) {
                space.grow_to(m);
                m = m.max(space.filter().map_or(0, CountingFilter::m));
            }
        }
        let mut bits = vec![0; m as usize / 8];
        let spaces = namespaces.iter().filter_map(|n| self.spaces.get(n));
        for filter in spaces.filter_map(Space::filter) {
            unite(&mut bits, m, filter.bits(), filter.m());
        }
        Union {
            saturated: false,
            m,
            bits,
            stale_keys,
        }
    }

    /// Takes out all that is past its horizon, and collections of which nothing is left.
    fn expire(&mut self, now: Moment) {
        self.keys = 0;
        let (keys, floor) = (&mut self.keys, &mut self.floor);
        self.spaces.retain(|_, space| {
            space.expire(now, usize::MAX);
            *keys += space.len();
            match space.idle_above(now) {
                Some(below) => {
                    *floor = below.max(*floor);
                    false
                }
                None => true,
            }
        });
    }

    fn space(&mut self, namespace: &Namespace, now: Moment) -> Option<&mut Space> {
        if !self.spaces.contains_key(namespace) {
            if self.spaces.len() >= self.limits.collections_max {
                self.expire(now);
            }
            if self.spaces.len() >= self.limits.collections_max {
                return None;
            }
            let recent = Recent::new(
                self.floor,
                self.limits.retention_ms,
                self.limits.changes_max,
            );
            self.spaces.insert(namespace.clone(), Space::new(recent));
        }
        self.spaces.get_mut(namespace)
    }
}

/// Entries looked at for expiry by one call, so that no caller pays for many others.
const EXPIRED_PER_CALL_MAX: usize = 4;
