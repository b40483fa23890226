//! One test of one value. `None` is a missing field.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocument};

use super::bits::Bits;
use super::path::{Leaf, Malformed};
use super::regex::Matcher;
use super::{Condition, Node};
use crate::query::TypeSet;
use crate::value::compare::{compare, type_rank};

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
    pub(super) fn leaf(&self) -> Leaf {
        match self {
            Test::Size(_) | Test::ElementMatches(_) | Test::ElementIs(_) => Leaf::Whole,
            _ => Leaf::Elements,
        }
    }

    /// Whether a value passes.
    pub(super) fn holds(&self, value: Option<RawBsonRef<'_>>) -> Result<bool, Malformed> {
        if let Test::Compare(comparison, operand) = self {
            return Ok(comparison.holds(value, operand));
        }
        if let Test::In(members) = self {
            return Ok(members.contain(value));
        }
        let Some(value) = value else {
            return Ok(false);
        };
        Ok(match self {
            Test::Compare(..) | Test::In(_) => false,
            Test::Exists => true,
            Test::Type(types) => types.contains(value.element_type()),
            Test::Regex(matcher) => matcher.matches(value),
            Test::Mod { divisor, remainder } => crate::query::truncated(value)
                // The one overflow, i64::MIN by -1, leaves no remainder.
                .is_some_and(|n| n.checked_rem(*divisor).unwrap_or(0) == *remainder),
            Test::Size(size) => match value {
                RawBsonRef::Array(array) => has_size(array.iter_elements(), *size)?,
                _ => false,
            },
            Test::Bits(bits) => bits.hold(value),
            Test::ElementMatches(node) => return element(value, |e| matches_inside(node, e)),
            Test::ElementIs(condition) => return element(value, |e| condition.of(e)),
        })
    }
}

fn has_size(
    elements: impl Iterator<Item = Result<impl Sized, bson::error::Error>>,
    size: i64,
) -> Result<bool, Malformed> {
    let mut count = 0;
    for element in elements {
        element?;
        count += 1;
    }
    Ok(count == size)
}

fn element(
    value: RawBsonRef<'_>,
    holds: impl Fn(RawBsonRef<'_>) -> Result<bool, Malformed>,
) -> Result<bool, Malformed> {
    if let RawBsonRef::Array(array) = value {
        for element in array {
            if holds(element?)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// A filter inside `$elemMatch` sees an array as the document of its positions.
fn matches_inside(node: &Node, element: RawBsonRef<'_>) -> Result<bool, Malformed> {
    match element {
        RawBsonRef::Document(document) => node.matches(document),
        RawBsonRef::Array(array) => node.matches(RawDocument::from_bytes(array.as_bytes())?),
        _ => Ok(false),
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
    match value {
        RawBsonRef::Double(n) => n.is_nan(),
        // IEEE 754-2008 §3.5.2: a combination field that begins with five ones.
        RawBsonRef::Decimal128(n) => n.bytes()[15] & 0x7c == 0x7c,
        _ => false,
    }
}
