//! Why a query is or is not found by the index, for whoever asks about one.

use std::collections::BTreeSet;

use freshet_core::key::Key;
use freshet_core::predicate::Undecidable;

use super::access::Listing;
use super::engine::{Matcher, QueryId};
use super::index::At;
use super::watch::Watch;

/// How a query is found.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// What it is listed by; empty: it is not indexed.
    pub by: Vec<Access>,
    /// The share of documents that lead to it, as far as recent writes tell.
    pub share: f64,
    /// Why it is not indexed: every write is held against it.
    pub not_indexed: Option<NotIndexed>,
}

/// One place in the index.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The path that is looked at.
    pub path: String,
    /// `equality`, `range` or `missing`.
    pub kind: &'static str,
}

/// Why a query is not indexed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum NotIndexed {
    /// Only negations and the like, in one of its alternatives at least.
    #[error("no-indexable-condition")]
    NoCondition,
    /// Most documents satisfy even its narrowest condition.
    #[error("too-common")]
    TooCommon,
}

impl NotIndexed {
    /// The stable word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            NotIndexed::NoCondition => "no-indexable-condition",
            NotIndexed::TooCommon => "too-common",
        }
    }
}

impl Matcher {
    /// How a query is found, or would be.
    ///
    /// # Errors
    /// It cannot be decided as the database would.
    pub fn explain(&mut self, watch: &Watch) -> Result<Explanation, Undecidable> {
        let id = self.insert(Key::from(""), watch, None)?;
        let explanation = self.explain_known(id);
        self.remove(id);
        Ok(explanation)
    }

    fn explain_known(&self, id: QueryId) -> Explanation {
        let Some(entry) = self.entry(id) else {
            return Explanation {
                by: Vec::new(),
                share: 1.0,
                not_indexed: Some(NotIndexed::NoCondition),
            };
        };
        let chooser = self.chooser();
        let not_indexed = (entry.asked.listing == Listing::Residual).then(|| {
            match chooser.is_indexable(&entry.asked.conditions.expr()) {
                true => NotIndexed::TooCommon,
                false => NotIndexed::NoCondition,
            }
        });
        let places: BTreeSet<Access> = chooser
            .probes(&entry.asked.listing)
            .into_iter()
            .map(|(probe, below)| Access {
                path: below.unwrap_or_else(|| self.path_text(probe.path)),
                kind: match probe.at {
                    At::Digest(_) => "equality",
                    At::Between(..) => "range",
                    At::Missing => "missing",
                },
            })
            .collect();
        let share = match &entry.asked.listing {
            Listing::Residual => 1.0,
            _ => chooser.choose(&entry.asked.conditions.expr()).1,
        };
        Explanation {
            by: places.into_iter().collect(),
            share,
            not_indexed,
        }
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawDocumentBuf, doc};
    use freshet_core::query::Filter;

    use super::*;

    fn explained(filter: bson::Document) -> Explanation {
        let filter = RawDocumentBuf::try_from(&filter).expect("encodes");
        let watch = Watch::count(Filter::parse(&filter).expect("a filter"));
        let mut matcher = Matcher::default();
        let explained = matcher.explain(&watch).expect("decidable");
        assert!(matcher.is_empty());
        assert_eq!(matcher.coverage().atoms, 0, "nothing is left behind");
        explained
    }

    #[test]
    fn the_narrowest_condition_is_listed() {
        let cases: [(bson::Document, &[(&str, &str)]); 9] = [
            (doc! {"a": 1}, &[("a", "equality")]),
            (doc! {"a": 1, "b": {"$gt": 5}}, &[("a", "equality")]),
            (doc! {"b": {"$gt": 5, "$lt": 7}}, &[("b", "range")]),
            (doc! {"a.b": {"$in": [1, 2]}}, &[("a.b", "equality")]),
            (
                doc! {"s": {"$regex": "^ab", "$ne": "abc"}},
                &[("s", "range")],
            ),
            (
                doc! {"$or": [{"a": 1}, {"b": {"$lt": 3}}]},
                &[("a", "equality"), ("b", "range")],
            ),
            (
                doc! {"a": {"$elemMatch": {"b": 1, "c": {"$ne": 2}}}},
                &[("a.b", "equality")],
            ),
            (doc! {"a": {"$exists": false}}, &[("a", "missing")]),
            (doc! {"a": null}, &[("a", "equality"), ("a", "missing")]),
        ];
        for (filter, expected) in cases {
            let got = explained(filter.clone());
            let by: Vec<_> = got.by.iter().map(|one| (&*one.path, one.kind)).collect();
            assert_eq!(by, expected, "{filter}");
            assert_eq!(got.not_indexed, None);
        }
        let cases = [
            (doc! {"a": {"$ne": 1}}, NotIndexed::NoCondition),
            (doc! {}, NotIndexed::NoCondition),
            (
                doc! {"$or": [{"a": 1}, {"b": {"$nin": [1]}}]},
                NotIndexed::NoCondition,
            ),
            (doc! {"a": {"$exists": true}}, NotIndexed::TooCommon),
            (doc! {"s": {"$regex": "b"}}, NotIndexed::TooCommon),
        ];
        for (filter, expected) in cases {
            let got = explained(filter.clone());
            assert_eq!(got.not_indexed, Some(expected), "{filter}");
            assert!(got.by.is_empty());
        }
    }
}
