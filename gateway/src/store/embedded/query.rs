//! Queries: a predicate over a scan, in MongoDB's order, with bounded work. A filter that the predicate cannot
//! decide exactly is refused (C14), never approximated.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::value::compare::compare;
use freshet_core::value::path::Path;
use freshet_core::value::sort::{Direction, sort_key};
use redb::ReadableTable;

use super::super::port::{Find, StoreError};
use super::keys;
use super::plan::record_at;
use super::tables::broken;

/// What a query may cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Records looked at.
    pub(super) scanned_records_max: u64,
}

/// A query made ready to run.
pub(super) struct Compiled {
    prefix: Vec<u8>,
    /// Where the filter asks for certain ids: their keys, sorted.
    points: Option<Vec<Vec<u8>>>,
    predicate: Predicate,
    order: Order,
    skip: usize,
    limit: usize,
    projection: Option<Projection>,
}

/// How the answer is ordered.
enum Order {
    /// As stored.
    Natural,
    /// By `_id` alone.
    ById(Direction),
    /// By these paths.
    By(Vec<(Path, Direction)>),
}

/// A record in the running for the answer.
struct Candidate<'q> {
    values: Vec<RawBson>,
    key: Vec<u8>,
    pattern: &'q [(Path, Direction)],
}

impl Compiled {
    pub(super) fn of(find: &Find<'_>) -> Result<Compiled, StoreError> {
        Ok(Compiled {
            points: points(find.namespace, find.filter),
            predicate: predicate(find.filter)?,
            order: find.sort.map_or(Ok(Order::Natural), order)?,
            skip: find.skip as usize,
            limit: find.limit as usize,
            projection: find.projection.map(projection).transpose()?,
            prefix: keys::prefix(find.namespace),
        })
    }

    /// For a count: everything that matches.
    pub(super) fn matching(namespace: &Namespace, filter: &RawDocument) -> Result<Compiled, StoreError> {
        Ok(Compiled {
            points: points(namespace, filter),
            predicate: predicate(filter)?,
            order: Order::Natural,
            skip: 0,
            limit: usize::MAX,
            projection: None,
            prefix: keys::prefix(namespace),
        })
    }

    /// Whether the filter names the ids it wants: then little is looked at.
    pub(super) fn is_by_id(&self) -> bool {
        self.points.is_some()
    }

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
    fn has_others<T: ReadableTable<&'static [u8], &'static [u8]>>(
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
            if !full || heap.peek().is_some_and(|worst| worst.is_after(&values, key)) {
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

    /// Shows `visit` every record that matches, until it answers `false`.
    fn scan<T: ReadableTable<&'static [u8], &'static [u8]>>(
        &self,
        documents: &T,
        limits: Limits,
        backwards: bool,
        mut visit: impl FnMut(&[u8], &RawDocument) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let mut scanned = 0;
        let mut look = |key: &[u8], value: &[u8]| {
            scanned += 1;
            if scanned > limits.scanned_records_max {
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
                    return Ok(());
                }
            }
            return Ok(());
        }
        let end = keys::after(&self.prefix);
        let mut range = documents
            .range::<&[u8]>(&*self.prefix..&*end)
            .map_err(broken)?;
        while let Some(entry) = if backwards { range.next_back() } else { range.next() } {
            let (key, value) = entry.map_err(broken)?;
            if !look(key.value(), value.value())? {
                break;
            }
        }
        Ok(())
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

fn predicate(filter: &RawDocument) -> Result<Predicate, StoreError> {
    let filter =
        Filter::parse(filter).map_err(|error| StoreError::BadRequest(error.to_string()))?;
    if let Some(operator) = filter.database_only() {
        return Err(StoreError::Unsupported(format!("the operator {operator} needs MongoDB")));
    }
    Predicate::compile(&filter)
        .map_err(|undecidable| StoreError::Unsupported(undecidable.to_string()))
}

/// The order that a sort document asks for, read through the parameter's own grammar.
fn order(sort: &RawDocument) -> Result<Order, StoreError> {
    let sort = Sort::parse(&signed(sort, false)?)
        .map_err(|error| StoreError::BadRequest(error.to_string()))?;
    let direction = |direction| match direction {
        freshet_core::query::Direction::Ascending => Direction::Ascending,
        freshet_core::query::Direction::Descending => Direction::Descending,
    };
    Ok(match sort.id_only() {
        Some(only) => Order::ById(direction(only)),
        None => Order::By(
            sort.fields()
                .iter()
                .map(|field| (Path::new(&field.path), direction(field.direction)))
                .collect(),
        ),
    })
}

fn projection(document: &RawDocument) -> Result<Projection, StoreError> {
    Projection::parse(&signed(document, true)?)
        .map_err(|error| StoreError::BadRequest(error.to_string()))
}

/// `{a: 1, b: -1}` or `{a: 1, b: 0}` as `a,-b`.
fn signed(document: &RawDocument, zero_is_minus: bool) -> Result<String, StoreError> {
    let mut parts = Vec::new();
    for field in document {
        let (path, value) = field.map_err(|error| StoreError::BadRequest(error.to_string()))?;
        let plus = match value {
            RawBsonRef::Int32(1) | RawBsonRef::Int64(1) | RawBsonRef::Boolean(true) => true,
            RawBsonRef::Int32(-1) | RawBsonRef::Int64(-1) if !zero_is_minus => false,
            RawBsonRef::Int32(0) | RawBsonRef::Boolean(false) if zero_is_minus => false,
            _ => {
                return Err(StoreError::BadRequest(format!(
                    "the value of {} is neither of the two it can be",
                    path.as_str()
                )));
            }
        };
        parts.push(format!("{}{}", if plus { "" } else { "-" }, path.as_str()));
    }
    Ok(parts.join(","))
}

/// The storage keys that alone can match: when the filter demands an `_id` or one of several.
fn points(namespace: &Namespace, filter: &RawDocument) -> Option<Vec<Vec<u8>>> {
    let ids = match filter.get("_id").ok()?? {
        RawBsonRef::Document(operators) => {
            let (operator, value) = operators.iter().next()?.ok()?;
            match (operator.as_str(), value) {
                ("$eq", value) => vec![value],
                ("$in", RawBsonRef::Array(values)) => {
                    values.into_iter().collect::<Result<Vec<_>, _>>().ok()?
                }
                _ => return None,
            }
        }
        value => vec![value],
    };
    let mut points: Vec<Vec<u8>> = ids
        .into_iter()
        .map(|id| is_compared(id).then(|| keys::record(namespace, id)))
        .collect::<Option<_>>()?;
    points.sort_unstable();
    points.dedup();
    Some(points)
}

/// Whether an `_id` in a filter is compared as a whole, and has one key.
fn is_compared(id: RawBsonRef<'_>) -> bool {
    matches!(
        id,
        RawBsonRef::String(_)
            | RawBsonRef::ObjectId(_)
            | RawBsonRef::Int32(_)
            | RawBsonRef::Int64(_)
            | RawBsonRef::Double(_)
            | RawBsonRef::Decimal128(_)
            | RawBsonRef::Boolean(_)
            | RawBsonRef::DateTime(_)
            | RawBsonRef::Binary(_)
    )
}
