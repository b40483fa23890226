//! Running a query: its predicate over a scan, in MongoDB's order, with bounded work.

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::value::compare::compare;
use freshet_core::value::path::Path;
use freshet_core::value::sort::{Direction, sort_key};
use redb::ReadableTable;

use super::super::port::StoreError;
use super::compile::{Compiled, Order};
use super::keys;
use super::plan::record_at;
use super::tables::broken;

/// What a query may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Records looked at.
    pub(super) scanned_records_max: u64,
}

/// A record in the running for the answer.
struct Candidate<'q> {
    values: Vec<RawBson>,
    key: Vec<u8>,
    pattern: &'q [(Path, Direction)],
}

impl Compiled {
    pub(super) fn run<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
    ) -> Result<Vec<RawDocumentBuf>, StoreError> {
        if self.limit == 0 {
            return Ok(Vec::new());
        }
        let found = match &self.order {
            Order::By(pattern) => self.best(documents, limits, pattern)?,
            Order::ById(direction) if self.has_others(documents)? => {
                self.best(documents, limits, &[(Path::new("_id"), *direction)])?
            }
            Order::ById(Direction::Descending) => self.first(documents, limits, true)?,
            Order::ById(Direction::Ascending) | Order::Natural => {
                self.first(documents, limits, false)?
            }
        };
        match &self.projection {
            None => Ok(found),
            Some(projection) => found
                .iter()
                .map(|document| {
                    projection
                        .apply(document)
                        .map_err(|error| StoreError::Internal(error.to_string()))
                })
                .collect(),
        }
    }

    pub(super) fn count<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        self.scan(documents, limits, false, |_, _| {
            count += 1;
            Ok(true)
        })?;
        Ok(count)
    }

    /// Whether the collection has ids whose keys are not in `_id` order.
    pub(super) fn has_others<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
    ) -> Result<bool, StoreError> {
        let (start, end) = (keys::others(&self.prefix), keys::after(&self.prefix));
        let mut others = documents.range::<&[u8]>(&*start..&*end).map_err(broken)?;
        Ok(others.next().is_some())
    }

    /// The first that match, in the order of the keys.
    fn first<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
        backwards: bool,
    ) -> Result<Vec<RawDocumentBuf>, StoreError> {
        let (mut passed_over, mut found) = (0, Vec::new());
        self.scan(documents, limits, backwards, |_, document| {
            if passed_over < self.skip {
                passed_over += 1;
            } else {
                found.push(document.to_owned());
            }
            Ok(found.len() < self.limit)
        })?;
        Ok(found)
    }

    /// The first in the order of the pattern: a heap of as many candidates as can come into the answer,
    /// which holds sort keys and no documents.
    fn best<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
        pattern: &[(Path, Direction)],
    ) -> Result<Vec<RawDocumentBuf>, StoreError> {
        let wanted = self.skip.saturating_add(self.limit);
        let mut heap: BinaryHeap<Candidate<'_>> = BinaryHeap::new();
        self.scan(documents, limits, false, |key, document| {
            let values = sort_key(document, pattern)
                .map_err(|error| StoreError::BadRequest(error.to_string()))?;
            let full = heap.len() >= wanted;
            if !full
                || heap
                    .peek()
                    .is_some_and(|worst| worst.is_after(&values, key))
            {
                heap.push(Candidate {
                    values: values.into_iter().map(RawBson::from).collect(),
                    key: key.to_vec(),
                    pattern,
                });
                if full {
                    heap.pop();
                }
            }
            Ok(true)
        })?;
        let mut found = Vec::new();
        for candidate in heap.into_sorted_vec().into_iter().skip(self.skip) {
            found.extend(record_at(documents, &candidate.key)?);
        }
        Ok(found)
    }

    /// Shows `visit` every record that matches, until it answers `false`; says how many were looked at.
    pub(super) fn scan<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
        backwards: bool,
        mut visit: impl FnMut(&[u8], &RawDocument) -> Result<bool, StoreError>,
    ) -> Result<u64, StoreError> {
        let scanned = Cell::new(0);
        let mut look = |key: &[u8], value: &[u8]| {
            scanned.set(scanned.get() + 1);
            if scanned.get() > limits.scanned_records_max {
                return Err(StoreError::Timeout(format!(
                    "the query would look at more than {} records (scanned_records_max)",
                    limits.scanned_records_max
                )));
            }
            let document = RawDocument::from_bytes(value)
                .map_err(|error| StoreError::Internal(error.to_string()))?;
            if self.predicate.matches(document) {
                visit(key, document)
            } else {
                Ok(true)
            }
        };
        if let Some(points) = &self.points {
            let mut forth = points.iter();
            let mut back = points.iter().rev();
            let next: &mut dyn Iterator<Item = &Vec<u8>> =
                if backwards { &mut back } else { &mut forth };
            for key in next {
                if let Some(value) = documents.get(&**key).map_err(broken)?
                    && !look(key, value.value())?
                {
                    break;
                }
            }
            return Ok(scanned.get());
        }
        let end = keys::after(&self.prefix);
        let mut range = documents
            .range::<&[u8]>(&*self.prefix..&*end)
            .map_err(broken)?;
        while let Some(entry) = if backwards {
            range.next_back()
        } else {
            range.next()
        } {
            let (key, value) = entry.map_err(broken)?;
            if !look(key.value(), value.value())? {
                break;
            }
        }
        Ok(scanned.get())
    }
}

impl Candidate<'_> {
    /// Whether this one comes after a record with these values under that key.
    fn is_after(&self, values: &[RawBsonRef<'_>], key: &[u8]) -> bool {
        let mine = self.values.iter().map(RawBson::as_raw_bson_ref);
        in_order(mine, values.iter().copied(), self.pattern).then_with(|| (*self.key).cmp(key))
            == Ordering::Greater
    }
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let mine = self.values.iter().map(RawBson::as_raw_bson_ref);
        let others = other.values.iter().map(RawBson::as_raw_bson_ref);
        in_order(mine, others, self.pattern).then_with(|| self.key.cmp(&other.key))
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate<'_> {}

fn in_order<'v>(
    a: impl Iterator<Item = RawBsonRef<'v>>,
    b: impl Iterator<Item = RawBsonRef<'v>>,
    pattern: &[(Path, Direction)],
) -> Ordering {
    a.zip(b)
        .zip(pattern)
        .map(|((a, b), (_, direction))| direction.apply(compare(a, b)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}
