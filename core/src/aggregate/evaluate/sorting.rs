//! `$sort`: the documents that wait, and only as many of them as what follows lets through.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::super::{Sort, Stage, Tie};
use super::Failure;
use super::accumulate::Ordered;
use super::reshape::nested;
use super::run::Budget;
use crate::value::compare::compare;
use crate::value::path::Path;
use crate::value::sort::{Direction, sort_key};

/// Documents waiting to be sorted.
pub(super) struct Sorting {
    tie: Tie,
    pattern: Vec<(Path, Direction)>,
    waiting: Vec<Waiting>,
    /// How many of them are wanted.
    wanted: usize,
}

struct Waiting {
    key: Vec<RawBson>,
    id: Ordered,
    document: RawDocumentBuf,
}

/// So many wait at least before those that are not wanted are let go.
const SURPLUS_MIN: usize = 16;

impl Sorting {
    /// With the stages that follow.
    pub(super) fn new(sort: &Sort, rest: &[Stage]) -> Sorting {
        let fields = sort.fields.iter();
        Sorting {
            tie: sort.tie,
            pattern: fields
                .map(|(path, direction)| (Path::new(path), *direction))
                .collect(),
            waiting: Vec::new(),
            wanted: wanted(rest),
        }
    }

    pub(super) fn add(
        &mut self,
        document: RawDocumentBuf,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        let key = sort_key(&document, &self.pattern)
            .map_err(|error| Failure::invalid(error.to_string()))?;
        let key: Vec<RawBson> = key.into_iter().map(RawBson::from).collect();
        let id = match self.tie {
            Tie::Open => RawBson::Null,
            Tie::Id | Tie::WholeId => {
                nested(&document, "_id").map_or(RawBson::Undefined, RawBson::from)
            }
        };
        let id = Ordered(id);
        let waiting = Waiting { key, id, document };
        budget.take(waiting.bytes())?;
        self.waiting.push(waiting);
        if self.waiting.len() >= self.wanted.saturating_mul(2).max(SURPLUS_MIN) {
            self.sort();
            for unwanted in self.waiting.drain(self.wanted.min(self.waiting.len())..) {
                budget.give(unwanted.bytes());
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> impl Iterator<Item = RawDocumentBuf> {
        self.sort();
        self.waiting.into_iter().map(|waiting| waiting.document)
    }

    fn sort(&mut self) {
        let pattern = &self.pattern;
        self.waiting.sort_by(|a, b| a.order(b, pattern));
    }
}

impl Waiting {
    fn order(&self, other: &Waiting, pattern: &[(Path, Direction)]) -> Ordering {
        let values = self.key.iter().zip(&other.key).zip(pattern);
        values
            .map(|((a, b), (_, direction))| {
                let (a, b): (RawBsonRef<'_>, RawBsonRef<'_>) =
                    (a.as_raw_bson_ref(), b.as_raw_bson_ref());
                direction.apply(compare(a, b))
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| self.id.cmp(&other.id))
    }

    /// The document, and its key, which is a part of it.
    fn bytes(&self) -> usize {
        self.document.as_bytes().len() * 2
    }
}

/// How many documents the next stages let through.
fn wanted(rest: &[Stage]) -> usize {
    let mut skipped: u64 = 0;
    for stage in rest {
        match stage {
            Stage::Skip(n) => skipped = skipped.saturating_add(*n),
            Stage::Limit(n) => {
                return usize::try_from(skipped.saturating_add(*n)).unwrap_or(usize::MAX);
            }
            // One comes out for each that goes in.
            Stage::Reshape(_) | Stage::Lookup(_) => {}
            _ => break,
        }
    }
    usize::MAX
}
