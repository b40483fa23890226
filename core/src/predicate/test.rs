//! One test of one value. `None` is a missing field.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use bson::{RawBson, RawBsonRef, RawDocument};

use super::bits::Bits;
use super::literal::Literal;
use super::regex::Matcher;
use super::{Atom, Expr, atom};
use crate::query::TypeSet;
use crate::value::compare::{compare, type_rank};
use crate::value::number::Number;
use crate::value::order_key::OrderKey;
use crate::value::path::{ArrayLeaf, elements};

/// A test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Test {
    Compare(Compared),
    In(Box<Members>),
    Exists,
    Type(TypeSet),
    Regex(Box<Matcher>),
    Mod {
        divisor: i64,
        remainder: i64,
    },
    Size(i64),
    Bits(Box<Bits>),
    /// Some element of the array, itself a document or an array, satisfies this.
    ElementMatches(Box<Expr<Atom>>),
    /// Some element of the array satisfies this.
    ElementIs(Box<Expr<Test>>),
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

/// A comparison with a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Compared {
    pub(super) comparison: Comparison,
    pub(super) rank: u8,
    nan: bool,
    pub(super) value: Literal,
}

/// What `$in` looks for.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Members {
    /// In BSON order.
    pub(super) values: Box<[Literal]>,
    pub(super) patterns: Box<[Matcher]>,
    pub(super) null: bool,
}

impl Compared {
    pub(super) fn new(comparison: Comparison, value: &RawBson) -> Compared {
        let rank = type_rank(&value.as_raw_bson_ref());
        let nan = is_nan(value.as_raw_bson_ref());
        Compared {
            comparison,
            rank,
            nan,
            value: value.into(),
        }
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

    /// Feeds what tells it from others, as far as it is cheap: equal tests feed the same.
    pub(super) fn feed(&self, hasher: &mut impl Hasher) {
        std::mem::discriminant(self).hash(hasher);
        match self {
            Test::Compare(compared) => {
                hasher.write_u8(compared.comparison as u8);
                feed(compared.value.as_raw(), hasher);
            }
            Test::In(members) => {
                let values = members.values.iter();
                values.for_each(|value| feed(value.as_raw(), hasher));
                members.patterns.iter().for_each(|one| one.feed(hasher));
            }
            Test::Regex(matcher) => matcher.feed(hasher),
            Test::Mod { divisor, remainder } => {
                hasher.write_i64(*divisor);
                hasher.write_i64(*remainder);
            }
            Test::Size(size) => hasher.write_i64(*size),
            Test::ElementMatches(inner) => inner.each(&mut |atom| atom.feed(hasher)),
            Test::ElementIs(inner) => inner.each(&mut |test| test.feed(hasher)),
            Test::Exists | Test::Type(_) | Test::Bits(_) => {}
        }
    }

    /// Whether a value passes.
    pub(super) fn holds(&self, value: Option<RawBsonRef<'_>>) -> bool {
        match (self, value) {
            (Test::Compare(compared), value) => compared.holds(value),
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
            (Test::ElementMatches(inner), Some(RawBsonRef::Array(array))) => {
                elements(array).any(|element| matches_inside(inner, element))
            }
            (Test::ElementIs(inner), Some(RawBsonRef::Array(array))) => {
                // An array among the elements is taken as a whole.
                elements(array).any(|element| inner.holds(&mut |test| test.holds(Some(element))))
            }
            (Test::Size(_) | Test::ElementMatches(_) | Test::ElementIs(_), Some(_)) => false,
        }
    }
}

/// A filter inside `$elemMatch` sees an array as the document of its positions.
fn matches_inside(inner: &Expr<Atom>, element: RawBsonRef<'_>) -> bool {
    match element {
        RawBsonRef::Document(document) => atom::matches(inner, document),
        RawBsonRef::Array(array) => RawDocument::from_bytes(array.as_bytes())
            .is_ok_and(|positions| atom::matches(inner, positions)),
        _ => false,
    }
}

impl Compared {
    fn holds(&self, value: Option<RawBsonRef<'_>>) -> bool {
        let value = value.unwrap_or(RawBsonRef::Undefined);
        let orders_equal = matches!(
            self.comparison,
            Comparison::Eq | Comparison::Gte | Comparison::Lte
        );
        let operand = self.value.as_raw();
        match operand {
            // Null is equal to null, undefined and missing (servers before 9.0), and in no order with anything.
            RawBsonRef::Null => {
                return orders_equal && matches!(value, RawBsonRef::Null | RawBsonRef::Undefined);
            }
            // The ends of the order compare with every type.
            RawBsonRef::MinKey | RawBsonRef::MaxKey => {}
            _ if type_rank(&value) != self.rank => return false,
            // NaN is equal to NaN and in no order with other numbers.
            _ if self.nan || is_nan(value) => {
                return orders_equal && self.nan && is_nan(value);
            }
            _ => {}
        }
        let order = compare(value, operand);
        match self.comparison {
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
            .binary_search_by(|member| compare(member.as_raw(), value));
        found.is_ok() || self.patterns.iter().any(|pattern| pattern.matches(value))
    }
}

/// The order key says enough of short values; long texts differ at their ends.
fn feed(value: RawBsonRef<'_>, hasher: &mut impl Hasher) {
    match value {
        RawBsonRef::String(text) => hasher.write(text.as_bytes()),
        value => hasher.write_u128(OrderKey::of(value).bits()),
    }
}

fn is_nan(value: RawBsonRef<'_>) -> bool {
    Number::of(value).is_some_and(|number| number.is_nan())
}
