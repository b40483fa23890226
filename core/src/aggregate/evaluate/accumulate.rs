//! `$group`: the groups seen so far, and what their accumulators hold.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use bson::{RawArrayBuf, RawBson, RawDocument, RawDocumentBuf};

use super::super::sum::Sum;
use super::super::write::document;
use super::super::{Accumulator, Group};
use super::run::Budget;
use super::{Failure, Value, evaluate};
use crate::value::compare::compare;

/// A value in BSON order.
#[derive(Clone, Debug)]
pub(super) struct Ordered(pub(super) RawBson);

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.as_raw_bson_ref(), other.0.as_raw_bson_ref())
    }
}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

/// The groups of a `$group`.
pub(super) struct Groups<'p> {
    group: &'p Group,
    groups: BTreeMap<Ordered, Vec<Held>>,
}

/// What an accumulator holds.
enum Held {
    Sum(Sum),
    Extreme(Value),
    Array(RawArrayBuf),
    Set(BTreeMap<Ordered, ()>),
    One(Option<Value>),
}

/// What a group costs besides its values.
const GROUP_BYTES: usize = 128;

impl<'p> Groups<'p> {
    pub(super) fn new(group: &'p Group) -> Groups<'p> {
        Groups {
            group,
            groups: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, root: &RawDocument, budget: &mut Budget) -> Result<(), Failure> {
        let id = evaluate(&self.group.id, root)?.unwrap_or(RawBson::Null);
        let bytes = size(&id);
        let mut fresh = false;
        let held = self.groups.entry(Ordered(id)).or_insert_with(|| {
            fresh = true;
            let fields = self.group.fields.iter();
            fields
                .map(|(_, accumulator, _)| Held::new(*accumulator))
                .collect()
        });
        if fresh {
            budget.take(bytes + GROUP_BYTES * (1 + held.len()))?;
        }
        for (held, (_, accumulator, operand)) in held.iter_mut().zip(&self.group.fields) {
            let value = evaluate(operand, root)?;
            held.add(*accumulator, value, budget)?;
        }
        Ok(())
    }

    /// The groups as documents.
    pub(super) fn finish(self) -> impl Iterator<Item = RawDocumentBuf> {
        let fields = &self.group.fields;
        self.groups.into_iter().map(move |(id, held)| {
            let values = held.into_iter().zip(fields);
            let values = values.map(|(held, (name, accumulator, _))| {
                (&**name, held.value(*accumulator).unwrap_or(RawBson::Null))
            });
            document([("_id", id.0)].into_iter().chain(values))
        })
    }
}

impl Held {
    fn new(accumulator: Accumulator) -> Held {
        match accumulator {
            Accumulator::Sum | Accumulator::Avg => Held::Sum(Sum::default()),
            Accumulator::Min | Accumulator::Max => Held::Extreme(None),
            Accumulator::Push => Held::Array(RawArrayBuf::new()),
            Accumulator::AddToSet => Held::Set(BTreeMap::new()),
            Accumulator::First | Accumulator::Last => Held::One(None),
        }
    }

    fn add(
        &mut self,
        accumulator: Accumulator,
        value: Value,
        budget: &mut Budget,
    ) -> Result<(), Failure> {
        let bytes = value.as_ref().map_or(0, size);
        match (self, value) {
            (Held::Sum(sum), Some(value)) => {
                sum.add(value.as_raw_bson_ref());
            }
            (Held::Extreme(extreme), Some(value)) => {
                if accumulator.takes(extreme.as_ref(), &value) {
                    budget.take(bytes)?;
                    *extreme = Some(value);
                }
            }
            (Held::Array(array), Some(value)) => {
                budget.take(bytes)?;
                array.push(value);
            }
            (Held::Set(set), Some(value)) => {
                // The first of equal ones stays.
                if let std::collections::btree_map::Entry::Vacant(new) = set.entry(Ordered(value)) {
                    budget.take(bytes + GROUP_BYTES)?;
                    new.insert(());
                }
            }
            (Held::One(one), value) => {
                if one.is_none() || accumulator == Accumulator::Last {
                    budget.take(bytes)?;
                    *one = Some(value);
                }
            }
            (_, None) => {}
        }
        Ok(())
    }

    fn value(self, accumulator: Accumulator) -> Value {
        match self {
            Held::Sum(sum) if accumulator == Accumulator::Avg => Some(sum.average()),
            Held::Sum(sum) => Some(sum.total()),
            Held::Extreme(value) => value,
            Held::Array(array) => Some(RawBson::Array(array)),
            Held::Set(set) => Some(RawBson::Array(set.into_keys().map(|key| key.0).collect())),
            Held::One(value) => value.flatten(),
        }
    }
}

impl Accumulator {
    /// Whether `$min` or `$max` takes a value in place of what it has: the first of equal ones stays.
    pub(in crate::aggregate) fn takes(self, held: Option<&RawBson>, value: &RawBson) -> bool {
        if matches!(value, RawBson::Null | RawBson::Undefined) {
            return false;
        }
        let Some(held) = held else { return true };
        let order = compare(value.as_raw_bson_ref(), held.as_raw_bson_ref());
        match self {
            Accumulator::Min => order.is_lt(),
            _ => order.is_gt(),
        }
    }
}

/// Bytes that a value takes, about.
pub(super) fn size(value: &RawBson) -> usize {
    size_of::<RawBson>()
        + match value {
            RawBson::Document(document) => document.as_bytes().len(),
            RawBson::Array(array) => array.as_bytes().len(),
            RawBson::String(text) => text.len(),
            RawBson::Binary(binary) => binary.bytes.len(),
            _ => 0,
        }
}
