//! The window of a sorted, limited answer, as far as invalidation needs it: where it begins and ends. No member is
//! remembered. A write beyond the end changes nothing as long as more follows anyway; a record in front of the
//! beginning shifts the window when it comes or goes, and else is not shown.

use std::cmp::Ordering;

use bson::RawBsonRef;
use freshet_core::value::sort::{Pattern, SortKey, compare_keys, digest_of_key};

/// What an answer showed of the order of all that matches. Every part that is not known makes the window larger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The first record's place, where records were skipped.
    pub first: Option<SortKey>,
    /// The last record's place, where the window is full and more follows.
    pub end: Option<End>,
}

/// The end of a window that more follows.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The last record that is shown.
    pub last: SortKey,
    /// A record beyond, by the digest of its place ([`digest_of_key`]): as long as it is there, there is a next page. Not
    /// known: any might have been the only one.
    pub witness: Option<u64>,
}

/// Records beyond the end that are known besides the witness, at most.
const SPARES_MAX: usize = 4;

/// The window of the copies that are out, followed through the changes that leave it alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Followed {
    window: Window,
    /// Records that changes showed to be beyond the end: each can be the witness when that one goes.
    spares: Vec<u64>,
    /// All that matches was skipped, and nothing is shown.
    nothing: bool,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ahead,
    Inside,
    Beyond,
}

impl Followed {
    /// The window of one copy. `nothing`: it shows no record, since all that match were skipped.
    pub(super) fn of(window: Window, nothing: bool) -> Followed {
        Followed {
            window,
            spares: Vec::new(),
            nothing,
        }
    }

    /// Whether nothing is known.
    pub(super) fn is_everything(&self) -> bool {
        self.window == Window::default() && !self.nothing
    }

    /// Whether no record is shown, so that none that goes or changes can matter.
    pub(super) fn shows_nothing(&self) -> bool {
        self.nothing
    }

    /// Where a record with this sort key is.
    pub(super) fn place(&self, key: &[RawBsonRef<'_>], pattern: &Pattern) -> Place {
        if self.nothing {
            return Place::Ahead;
        }
        if let Some(end) = &self.window.end
            && end.last.compare(key, pattern) == Ordering::Less
        {
            return Place::Beyond;
        }
        match &self.window.first {
            Some(first) if first.compare(key, pattern) == Ordering::Greater => Place::Ahead,
            _ => Place::Inside,
        }
    }

    /// There is a record beyond the end.
    pub(super) fn arrived(&mut self, key: &[RawBsonRef<'_>]) {
        let Some(witness) = self.witness().copied() else {
            return;
        };
        let key = digest_of_key(key);
        if self.spares.len() < SPARES_MAX && key != witness && !self.spares.contains(&key) {
            self.spares.push(key);
        }
    }

    /// A record beyond the end went. Whether it may have been the only one; if so, nothing is changed.
    pub(super) fn left(&mut self, key: &[RawBsonRef<'_>]) -> bool {
        let key = digest_of_key(key);
        match self.witness().copied() {
            None => return true,
            Some(witness) if witness == key => {
                let spare = self.spares.pop();
                match (self.witness(), spare) {
                    (Some(witness), Some(spare)) => *witness = spare,
                    _ => return true,
                }
            }
            Some(_) => self.spares.retain(|spare| *spare != key),
        }
        false
    }

    /// A record moved, and is still beyond the end. Whether it was known there.
    pub(super) fn moved(&mut self, before: &[RawBsonRef<'_>], after: &[RawBsonRef<'_>]) -> bool {
        let (before, after) = (digest_of_key(before), digest_of_key(after));
        if let Some(witness) = self.witness()
            && *witness == before
        {
            *witness = after;
            return true;
        }
        let known = self.spares.iter_mut().find(|spare| **spare == before);
        known.map(|spare| *spare = after).is_some()
    }

    fn witness(&mut self) -> Option<&mut u64> {
        self.window.end.as_mut()?.witness.as_mut()
    }

    /// The window of which a write outside leaves both answers alone. They are of one query, which may have changed
    /// between them unnoticed yet.
    pub(super) fn union(self, other: Followed, pattern: &Pattern) -> Followed {
        if self.nothing && other.nothing {
            return self;
        }
        if self.nothing || other.nothing {
            return Followed::default();
        }
        let ends = (&self.window.end, &other.window.end);
        let spares = match ends {
            // The older one's has been followed since.
            (Some(a), Some(b)) if a.last.compare(&b.last.values(), pattern).is_eq() => self.spares,
            _ => Vec::new(),
        };
        Followed {
            window: self.window.union(other.window, pattern),
            spares,
            nothing: false,
        }
    }
}

impl Window {
    fn union(self, other: Window, pattern: &Pattern) -> Window {
        let (first, end) = (self.first.zip(other.first), self.end.zip(other.end));
        let order = |a: &SortKey, b: &SortKey| compare_keys(&a.values(), &b.values(), pattern);
        Window {
            first: first.map(|(a, b)| match order(&a, &b) {
                Ordering::Greater => b,
                _ => a,
            }),
            end: end.map(|(a, b)| match order(&a.last, &b.last) {
                // The older one's has been followed since.
                Ordering::Equal => a,
                Ordering::Greater => End {
                    last: a.last,
                    witness: None,
                },
                Ordering::Less => End {
                    last: b.last,
                    witness: None,
                },
            }),
        }
    }
}
