//! What changed lately: each key's last change for a retention time, and the position up to which this
//! memory is silent. It answers "did this key change after that position?", and says yes where it
//! cannot know (rule C2).
//!
//! This is what makes a ticket a lease without storing one: whatever happens between a read and its
//! settling is either remembered here or below the floor, and both refuse the read
//! (`docs/decisions/0003-ticket-as-lease.md`).

use std::collections::{HashMap, VecDeque};

use crate::key::Key;
use crate::time::{Moment, Position};

/// The memory.
#[derive(Debug)]
pub struct Recent {
    last: HashMap<Key, Position>,
    queue: VecDeque<(Moment, Key, Position)>,
    floor: Position,
    retention_ms: u64,
    changes_max: usize,
}

impl Recent {
    /// Remembers at most `changes_max` changes for `retention_ms`; knows nothing at or before `floor`.
    #[must_use]
    pub fn new(floor: Position, retention_ms: u64, changes_max: usize) -> Recent {
        Recent {
            last: HashMap::new(),
            queue: VecDeque::new(),
            floor,
            retention_ms,
            changes_max,
        }
    }

    /// The key changed at `position`.
    pub fn note(&mut self, key: &Key, position: Position, now: Moment) {
        if position <= self.floor {
            return;
        }
        match self.last.get_mut(key.as_str()) {
            Some(last) if *last >= position => return,
            Some(last) => *last = position,
            None => {
                self.last.insert(key.clone(), position);
            }
        }
        self.queue.push_back((now, key.clone(), position));
        self.forget(now);
    }

    /// Everything may have changed at `position`.
    pub fn note_all(&mut self, position: Position) {
        self.floor = self.floor.max(position);
    }

    /// The position after `position` at which the key changed, or may have.
    #[must_use]
    pub fn changed_after(&self, key: &Key, position: Position) -> Option<Position> {
        if position < self.floor {
            return Some(self.floor);
        }
        self.last
            .get(key.as_str())
            .copied()
            .filter(|last| *last > position)
    }

    /// Nothing is known at or before it.
    #[must_use]
    pub fn floor(&self) -> Position {
        self.floor
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Forgets what is older than the retention, or too much; the floor rises with it.
    pub fn forget(&mut self, now: Moment) {
        while let Some((at, key, position)) = self.queue.front() {
            let old = now.since(*at) >= self.retention_ms;
            if !old && self.queue.len() <= self.changes_max {
                return;
            }
            if self.last.get(key.as_str()) == Some(position) {
                self.floor = self.floor.max(*position);
                self.last.remove(key.as_str());
            }
            self.queue.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(i: usize) -> Key {
        Key::from(format!("/v1/d/c/{i}"))
    }

    #[test]
    fn c2_refuses_later_changes_and_passes_equal_ones() {
        let mut recent = Recent::new(Position(10), 30_000, 100);
        recent.note(&key(1), Position(20), Moment(0));
        assert_eq!(
            recent.changed_after(&key(1), Position(19)),
            Some(Position(20))
        );
        assert_eq!(recent.changed_after(&key(1), Position(20)), None);
        assert_eq!(recent.changed_after(&key(2), Position(10)), None);
        assert_eq!(
            recent.changed_after(&key(2), Position(9)),
            Some(Position(10))
        );
    }

    #[test]
    fn c2_what_is_forgotten_refuses_every_earlier_read() {
        let mut recent = Recent::new(Position(0), 30_000, 100);
        recent.note(&key(1), Position(20), Moment(0));
        recent.note(&key(1), Position(30), Moment(10_000));
        recent.forget(Moment(30_000));
        assert_eq!(
            recent.floor(),
            Position(0),
            "the later change is still known"
        );
        recent.forget(Moment(40_000));
        assert_eq!(recent.floor(), Position(30));
        assert_eq!(
            recent.changed_after(&key(1), Position(29)),
            Some(Position(30))
        );
        assert_eq!(recent.changed_after(&key(1), Position(30)), None);
    }

    #[test]
    fn c2_overflow_raises_the_floor_and_loses_nothing() {
        let mut recent = Recent::new(Position(0), 30_000, 10);
        for i in 0..1_000 {
            recent.note(&key(i), Position(i as u64 + 1), Moment(0));
        }
        for i in 0..1_000 {
            assert!(recent.changed_after(&key(i), Position(i as u64)).is_some());
        }
        assert_eq!(recent.floor(), Position(990));
    }
}
