//! One test of one value. `None` is a missing field.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocument};

use super::bits::Bits;
use super::regex::Matcher;
use super::{Condition, Node};
use crate::query::TypeSet;
use crate::value::compare::{compare, type_rank};
use crate::value::number::Number;
use crate::value::path::{ArrayLeaf, elements};

/// A test.
#[derive(Clone, Debug)]
pub(super) enum Test {
    Compare(Comparison, Operand),
    In(Members),
    Exists,
    Type(TypeSet),
    Regex(Matcher),
    Mod {
        divisor: i64,
        remainder: i64,
    },
    Size(i64),
    Bits(Bits),
    /// Some element of the array, itself a document or an array, satisfies this.
    ElementMatches(Box<Node>),
    /// Some element of the array satisfies this.
    ElementIs(Box<Condition>),
}

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    Gt,
    Gte,
    Lt,
    Lte,
}

/// What a comparison compares with.
#[derive(Clone, Debug)]
pub(super) struct Operand {
    value: RawBson,
    rank: u8,
    nan: bool,
}

/// What `$in` looks for.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// In BSON order.
    pub(super) values: Vec<RawBson>,
    pub(super) patterns: Vec<Matcher>,
    pub(super) null: bool,
}

impl Operand {
    pub(super) fn new(value: RawBson) -> Operand {
        let rank = type_rank(&value.as_raw_bson_ref());
        let nan = is_nan(value.as_raw_bson_ref());
        Operand { value, rank, nan }
    }
}

impl Test {
    /// Whether the test looks at the elements of an array at the path's end.
    pub(super) fn arrays(&self) -> ArrayLeaf {
        match self {
            Test::Size(_) | Test::ElementMatches(_) | Test::ElementIs(_) => ArrayLeaf::Whole,
            _ => ArrayLeaf::Elements,
        }
    }

    /// Whether a value passes.
    pub(super) fn holds(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match (self, value) {
            (Test::Compare(comparison, operand), value) => comparison.holds(value, operand),
            (Test::In(members), value) => members.contain(value),
            (_, None) => false,
            (Test::Exists, Some(_)) => true,
            (Test::Type(types), Some(value)) => types.contains(value.element_type()),
            (Test::Regex(matcher), Some(value)) => matcher.matches(value),
            (Test::Mod { divisor, remainder }, Some(value)) => crate::query::truncated(value)
                // The one overflow, i64::MIN by -1, leaves no remainder.
                .is_some_and(|n| n.checked_rem(*divisor).unwrap_or(0) == *remainder),
            (Test::Bits(bits), Some(value)) => bits.hold(value),
            (Test::Size(size), Some(RawBsonRef::Array(array))) => {
                i64::try_from(array.iter_elements().count()) == Ok(*size)
            }
            (Test::ElementMatches(node), Some(RawBsonRef::Array(array))) => {
                elements(array).any(|element| matches_inside(node, element))
            }
            (Test::ElementIs(condition), Some(RawBsonRef::Array(array))) => {
                elements(array).any(|element| condition.of(element))
            }
            (Test::Size(_) | Test::ElementMatches(_) | Test::ElementIs(_), Some(_)) => false,
        }
    }
}

/// A filter inside `$elemMatch` sees an array as the document of its positions.
fn matches_inside(node: &Node, element: RawBsonRef<'_>) -> bool {
    match element {
        RawBsonRef::Document(document) => node.matches(document),
        RawBsonRef::Array(array) => {
            RawDocument::from_bytes(array.as_bytes()).is_ok_and(|positions| node.matches(positions))
        }
        _ => false,
    }
}

impl Comparison {
    fn holds(self, value: Option<RawBsonRef<'_>>, operand: &Operand) -> bool {
        let value = value.unwrap_or(RawBsonRef::Undefined);
        let orders_equal = matches!(self, Comparison::Eq | Comparison::Gte | Comparison::Lte);
        match operand.value {
            // Null is equal to null, undefined and missing (servers before 9.0), and in no order with anything.
            RawBson::Null => {
                return orders_equal && matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
            }
            // The ends of the order compare with every type.
            RawBson::MinKey | RawBson::MaxKey => {}
            _ if type_rank(&value) != operand.rank => return false,
            // NaN is equal to NaN and in no order with other numbers.
            _ if operand.nan || is_nan(value) => {
                return orders_equal && operand.nan && is_nan(value);
            }
            _ => {}
        }
        let order = compare(value, operand.value.as_raw_bson_ref());
        match self {
            Comparison::Eq => order == Ordering::Equal,
            Comparison::Gt => order == Ordering::Greater,
            Comparison::Gte => order != Ordering::Less,
            Comparison::Lt => order == Ordering::Less,
            Comparison::Lte => order != Ordering::Greater,
        }
    }
}

impl Members {
    fn contain(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let Some(value) = value else {
            return self.null;
        };
        if self.null && matches!(value, RawBsonRef::Undefined) {
            return true;
        }
        let found = self
            .values
            .binary_search_by(|member| compare(member.as_raw_bson_ref(), value));
        found.is_ok() || self.patterns.iter().any(|pattern| pattern.matches(value))
    }
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    Number::of(value).is_some_and(|number| number.is_nan())
}
