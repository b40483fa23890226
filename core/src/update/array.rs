//! The array operators: `$push` with its modifiers, `$addToSet`, `$pull`, `$pop`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};

use super::edit::Node;
use super::{Conditions, Reason, UpdateError};
use crate::value::compare::{compare, equal};
use crate::value::path::{Path, elements, field};
use crate::value::sort::Direction;

/// `$push`: insert, then sort, then slice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Push {
    /// An array; its elements are pushed.
    pub(super) each: RawBson,
    /// Where; from the end if negative; at the end if absent.
    pub(super) position: Option<i64>,
    pub(super) sort: Option<PushSort>,
    /// How many are kept: the first ones, or the last ones if negative.
    pub(super) slice: Option<i64>,
}

/// `$sort` of `$push`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum PushSort {
    /// Elements by their own value.
    Whole(Direction),
    /// Elements by fields, which an element that is no document lacks.
    Fields(Vec<(Path, Direction)>),
}

/// What `$pull` removes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Pull {
    /// Every element equal to it.
    Value(RawBson),
    /// Every element that is a document which the filter matches.
    Filter(RawDocumentBuf),
    /// Every element that the filter matches as the field [`ELEMENT`] of a document.
    Element(RawDocumentBuf),
}

/// The name an element gets when it is looked at as a field, as a condition like `{$gte: 6}` does.
pub(super) const ELEMENT: &bson::raw::CStr = bson::cstr!("element");

impl Push {
    pub(super) fn apply<'a>(&'a self, items: &mut Vec<Node<'a>>) {
        let at = self
            .position
            .map_or(items.len(), |position| place(position, items.len()));
        items.splice(at..at, members(&self.each).map(Node::Raw));
        if let Some(sort) = &self.sort {
            items.sort_by(|a, b| sort.compare(raw(a), raw(b)));
        }
        if let Some(slice) = self.slice {
            let keep = usize::try_from(slice.unsigned_abs()).unwrap_or(usize::MAX);
            if slice >= 0 {
                items.truncate(keep);
            } else {
                items.drain(..items.len().saturating_sub(keep));
            }
        }
    }
}

/// The position in an array of `len` that a number means.
fn place(position: i64, len: usize) -> usize {
    let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    if position >= 0 {
        distance.min(len)
    } else {
        len.saturating_sub(distance)
    }
}

impl PushSort {
    fn compare(&self, a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Ordering {
        match self {
            PushSort::Whole(direction) => direction.apply(compare(a, b)),
            PushSort::Fields(pattern) => pattern
                .iter()
                .map(|(path, direction)| direction.apply(compare(at(a, path), at(b, path))))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal),
        }
    }
}

/// The value at a path, arrays entered by index only; null where there is none.
fn at<'a>(element: RawBsonRef<'a>, path: &Path) -> RawBsonRef<'a> {
    let RawBsonRef::Document(_) = element else {
        return RawBsonRef::Null;
    };
    let mut value = Some(element);
    for name in path.names() {
        value = match value {
            Some(RawBsonRef::Document(document)) => field(document, name),
            Some(RawBsonRef::Array(array)) => {
                super::edit::array_index(name).and_then(|at| elements(array).nth(at))
            }
            _ => None,
        };
    }
    value.unwrap_or(RawBsonRef::Null)
}

/// Appends the members of the array `values` that are not there yet.
pub(super) fn add_to_set<'a>(items: &mut Vec<Node<'a>>, values: &'a RawBson) {
    let mut known: BTreeSet<Ordered<'_>> = items.iter().map(|item| Ordered(raw(item))).collect();
    for value in members(values) {
        if known.insert(Ordered(value)) {
            items.push(Node::Raw(value));
        }
    }
}

/// A value in MongoDB's order.
struct Ordered<'a>(RawBsonRef<'a>);

impl Ord for Ordered<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0, other.0)
    }
}

impl PartialOrd for Ordered<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered<'_> {}

/// Removes what the pattern matches.
pub(super) fn pull(
    items: &mut Vec<Node<'_>>,
    pattern: &Pull,
    conditions: &Conditions<'_>,
) -> Result<(), UpdateError> {
    let mut error = None;
    items.retain(|item| match pattern.matches(raw(item), conditions) {
        Ok(matches) => !matches,
        Err(detail) => {
            error.get_or_insert(detail);
            true
        }
    });
    match error {
        None => Ok(()),
        Some(detail) => Err(UpdateError::new(Reason::Unsupported, detail)),
    }
}

impl Pull {
    fn matches(&self, item: RawBsonRef<'_>, conditions: &Conditions<'_>) -> Result<bool, String> {
        match self {
            Pull::Value(value) => Ok(equal(item, value.as_raw_bson_ref())),
            Pull::Filter(filter) => match item {
                RawBsonRef::Document(document) => conditions(filter, document),
                _ => Ok(false),
            },
            Pull::Element(filter) => {
                let mut document = RawDocumentBuf::new();
                document.append(ELEMENT, item);
                conditions(filter, &document)
            }
        }
    }
}

/// Removes the first or the last element.
pub(super) fn pop(items: &mut Vec<Node<'_>>, first: bool) {
    if first && !items.is_empty() {
        items.remove(0);
    } else if !first {
        items.pop();
    }
}

fn members(array: &RawBson) -> impl Iterator<Item = RawBsonRef<'_>> {
    array
        .as_raw_bson_ref()
        .as_array()
        .into_iter()
        .flat_map(elements)
}

/// An element. Those of an array that an operator changes as a whole were never opened: a path into
/// one of them would be a conflict.
fn raw<'a>(node: &Node<'a>) -> RawBsonRef<'a> {
    match node {
        Node::Raw(value) => *value,
        Node::Document(_) | Node::Array(_) => RawBsonRef::Null,
    }
}
