//! A query made ready to run: filter, order and projection read once, before anything is looked at. A filter
//! that the predicate cannot decide exactly is refused (C14), never approximated.

use bson::{RawBsonRef, RawDocument};
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::value::path::Path;
use freshet_core::value::sort::Direction;

use super::super::port::{Find, StoreError};
use super::keys;

/// A query made ready to run.
pub(super) struct Compiled {
    pub(super) prefix: Vec<u8>,
    /// Where the filter asks for certain ids: their keys, sorted.
    pub(super) points: Option<Vec<Vec<u8>>>,
    pub(super) predicate: Predicate,
    pub(super) order: Order,
    pub(super) skip: usize,
    pub(super) limit: usize,
    pub(super) projection: Option<Projection>,
}

/// How the answer is ordered.
pub(super) enum Order {
    /// As stored.
    Natural,
    /// By `_id` alone.
    ById(Direction),
    /// By these paths.
    By(Vec<(Path, Direction)>),
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
    pub(super) fn matching(
        namespace: &Namespace,
        filter: &RawDocument,
    ) -> Result<Compiled, StoreError> {
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
}

fn predicate(filter: &RawDocument) -> Result<Predicate, StoreError> {
    let filter =
        Filter::parse(filter).map_err(|error| StoreError::BadRequest(error.to_string()))?;
    if let Some(operator) = filter.database_only() {
        return Err(StoreError::Unsupported(format!(
            "the operator {operator} needs MongoDB"
        )));
    }
    Predicate::compile(&filter)
        .map_err(|undecidable| StoreError::Unsupported(undecidable.to_string()))
}

/// Whether a document matches a condition of `$pull`.
pub(super) fn matches(filter: &RawDocument, document: &RawDocument) -> Result<bool, String> {
    predicate(filter)
        .map(|predicate| predicate.matches(document))
        .map_err(|error| error.to_string())
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
