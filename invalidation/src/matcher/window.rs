//! The window of a sorted, limited answer, as far as invalidation needs it: where it begins and ends. No member is
//! remembered. A write beyond the end changes nothing as long as more follows anyway; a record in front of the
//! beginning shifts the window when it comes or goes, and else is not shown.

use std::cmp::Ordering;

use bson::RawBsonRef;
use freshet_core::value::sort::{Pattern, SortKey, compare_keys};

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
    /// A record beyond: as long as it is there, there is a next page. Not known: any might have been the only one.
    pub witness: Option<SortKey>,
}

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ahead,
    Inside,
    Beyond { witness: bool },
}

impl Window {
    /// Where a record with this sort key is.
    pub(super) fn place(&self, key: &[RawBsonRef<'_>], pattern: &Pattern) -> Place {
        if let Some(end) = &self.end
            && end.last.compare(key, pattern) == Ordering::Less
        {
            let witness = end
                .witness
                .as_ref()
                .is_none_or(|witness| witness.compare(key, pattern) == Ordering::Equal);
            return Place::Beyond { witness };
        }
        match &self.first {
            Some(first) if first.compare(key, pattern) == Ordering::Greater => Place::Ahead,
            _ => Place::Inside,
        }
    }

    /// The witness moved, and is still beyond.
    pub(super) fn witness_moved(&mut self, key: &[RawBsonRef<'_>]) {
        if let Some(end) = &mut self.end
            && end.witness.is_some()
        {
            end.witness = SortKey::of(key);
        }
    }

    /// The window of which a write outside leaves both answers alone. They are of one query, which may have changed
    /// between them unnoticed yet.
    pub(super) fn union(self, other: Window, pattern: &Pattern) -> Window {
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
