//! The window of a sorted, limited answer, as far as invalidation needs it: where it begins and ends. No member is
//! remembered. A write beyond the end changes nothing as long as more follows anyway; a record in front of the
//! beginning shifts the window when it comes or goes, and else is not shown.

use std::cmp::Ordering;

use bson::{RawBsonRef, RawDocument};
use freshet_core::value::sort::{Pattern, SortKey, compare_keys, digest_of_key, sort_key};
use smallvec::SmallVec;

use super::places::{self, PLACES_MAX};

/// What an answer showed of the order of all that matches. Every part that is not known makes the window larger.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Window {
    /// The first record's place, where records were skipped.
    pub first: Option<SortKey>,
    /// The last record's place, where the window is full and more follows.
    pub end: Option<End>,
    /// Where the records that are shown lie, in their order. None: not known, or too many.
    pub places: Vec<SortKey>,
}

/// The end of a window that more follows.
#[derive(Clone, Debug, PartialEq)]
pub struct End {
    /// The last record that is shown.
    pub last: SortKey,
    /// Records beyond, by the digest of their places ([`digest_of_key`]): as long as one is there, there is a next page.
    /// None known: any might have been the only one.
    pub beyond: [Option<u64>; LOOK_AHEAD],
}

/// Records that a read asks for beyond its limit: one says whether there is a next page, the other stands in for it when
/// that one goes.
pub const LOOK_AHEAD: usize = 2;

impl Window {
    /// What the first `limit` of these documents, which come in the pattern's order, show of it; those beyond follow.
    /// `skips`: others came before. A document without a sort key leaves its part unknown.
    #[must_use]
    pub fn of<'d>(
        documents: impl Iterator<Item = &'d RawDocument>,
        limit: usize,
        skips: bool,
        pattern: &Pattern,
    ) -> Window {
        let key = |document| sort_key(document, pattern).ok();
        let place = |document| SortKey::of(&key(document)?);
        let (mut first, mut last, mut beyond) = (None, None, [None; LOOK_AHEAD]);
        let (mut more, mut places) = (false, Vec::new());
        for (at, document) in documents.take(limit + LOOK_AHEAD).enumerate() {
            if at == 0 && skips {
                first = place(document);
            }
            if at + 1 == limit {
                last = Some(document);
            }
            if at < limit && at <= PLACES_MAX {
                places.push(place(document));
            }
            if let Some(after) = at.checked_sub(limit) {
                more = true;
                beyond[after] = key(document).map(|key| digest_of_key(&key));
            }
        }
        let last = last.filter(|_| more).and_then(place);
        let places: Option<Vec<_>> = places.into_iter().collect();
        // All of them or none; and an end that is not known might be passed.
        let places = places.filter(|all| places::are_few(all) && more == last.is_some());
        Window {
            first,
            end: last.map(|last| End { last, beyond }),
            places: places.unwrap_or_default(),
        }
    }
}

/// Records beyond the end that are known at most.
const BEYOND_MAX: usize = 5;

/// The window of the copies that are out, followed through the changes that leave it alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Followed {
    /// In a box, since most answers skip nothing, and show it when a record moves.
    inside: Option<Box<Inside>>,
    last: Option<SortKey>,
    /// Records beyond the end: those that were read, and those that changes showed to be there. None at all: not known.
    beyond: SmallVec<[u64; 2]>,
    /// All that matches was skipped, and nothing is shown.
    nothing: bool,
}

/// What is known of the records that are shown, but for the last.
#[derive(Clone, Debug, Default, PartialEq)]
struct Inside {
    first: Option<SortKey>,
    places: Vec<SortKey>,
}

impl Inside {
    fn of(first: Option<SortKey>, places: Vec<SortKey>) -> Option<Box<Inside>> {
        let known = first.is_some() || !places.is_empty();
        known.then(|| Box::new(Inside { first, places }))
    }
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ahead,
    Inside,
    Beyond,
}

impl Followed {
    /// The window of one copy. `nothing`: it shows no record, since all that match were skipped. `moves`: a move that leaves
    /// the order as it was need not show.
    pub(super) fn of(window: Window, nothing: bool, moves: bool) -> Followed {
        let places = if moves { window.places } else { Vec::new() };
        let (last, beyond) = match window.end {
            Some(end) => (Some(end.last), end.beyond),
            None => (None, [None; LOOK_AHEAD]),
        };
        Followed {
            inside: Inside::of(window.first, places),
            last,
            beyond: beyond.into_iter().flatten().collect(),
            nothing,
        }
    }

    /// Has the window in the processor's cache soon.
    pub(super) fn glance(&self) -> u64 {
        u64::from(self.nothing)
    }

    /// The same of the key at its end.
    pub(super) fn glance_at_last(&self) -> u64 {
        self.last
            .as_ref()
            .map_or(0, |last| u64::from(last.is_empty()))
    }

    /// Whether nothing is known.
    pub(super) fn is_everything(&self) -> bool {
        self.inside.is_none() && self.last.is_none() && !self.nothing
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
        if let Some(last) = &self.last
            && last.compare(key, pattern) == Ordering::Less
        {
            return Place::Beyond;
        }
        match self.first() {
            Some(first) if first.compare(key, pattern) == Ordering::Greater => Place::Ahead,
            _ => Place::Inside,
        }
    }

    fn first(&self) -> Option<&SortKey> {
        self.inside
            .as_ref()
            .and_then(|inside| inside.first.as_ref())
    }

    /// A record that is shown moves, and is shown still. Whether it is known to leave the order as it was.
    pub(super) fn passes_none(
        &mut self,
        before: &[RawBsonRef<'_>],
        after: &[RawBsonRef<'_>],
        pattern: &Pattern,
    ) -> bool {
        let ends = self.last.is_some();
        self.inside.as_mut().is_some_and(|inside| {
            places::passes_none(&mut inside.places, before, after, pattern, ends)
        })
    }

    /// There is a record beyond the end.
    pub(super) fn arrived(&mut self, key: &[RawBsonRef<'_>]) {
        if (1..BEYOND_MAX).contains(&self.beyond.len()) {
            let key = digest_of_key(key);
            if !self.beyond.contains(&key) {
                self.beyond.push(key);
            }
        }
    }

    /// A record beyond the end went. Whether it may have been the only one; if so, nothing is changed.
    pub(super) fn left(&mut self, key: &[RawBsonRef<'_>]) -> bool {
        let key = digest_of_key(key);
        if self.beyond.iter().all(|known| *known == key) {
            return true;
        }
        self.beyond.retain(|known| *known != key);
        false
    }

    /// A record moved, and is still beyond the end. Whether it was known there.
    pub(super) fn moved(&mut self, before: &[RawBsonRef<'_>], after: &[RawBsonRef<'_>]) -> bool {
        let before = digest_of_key(before);
        let known = self.beyond.iter_mut().find(|known| **known == before);
        known.map(|known| *known = digest_of_key(after)).is_some()
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
        let order = |a: &SortKey, b: &SortKey| compare_keys(&a.values(), &b.values(), pattern);
        let (mine, others) = (
            self.inside.unwrap_or_default(),
            other.inside.unwrap_or_default(),
        );
        let first = mine
            .first
            .zip(others.first)
            .map(|(a, b)| match order(&a, &b) {
                Ordering::Greater => b,
                _ => a,
            });
        let places = match mine.places == others.places && self.last == other.last {
            true => mine.places,
            false => Vec::new(),
        };
        let (last, beyond) = match self.last.zip(other.last) {
            // What the older one knows has been followed since.
            Some((a, b)) => match order(&a, &b) {
                Ordering::Equal => (Some(a), self.beyond),
                Ordering::Greater => (Some(a), SmallVec::new()),
                Ordering::Less => (Some(b), SmallVec::new()),
            },
            None => (None, SmallVec::new()),
        };
        Followed {
            inside: Inside::of(first, places),
            last,
            beyond,
            nothing: false,
        }
    }
}
