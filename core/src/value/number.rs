//! Numbers of the four BSON types compared by exact value, as MongoDB compares them: one integer axis, NaN
//! before everything and equal to itself, −0 equal to 0.

use std::cmp::Ordering;
use std::fmt;

use bson::RawBsonRef;

use super::decimal::Decimal;

/// The largest integer magnitude up to which doubles hold every integer, and JavaScript calls them safe.
pub const SAFE_INTEGER_MAX: i64 = (1 << 53) - 1;

/// A number of any BSON type.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Of 32 or 64 bits.
    Integer(i64),
    /// A double.
    Double(f64),
    /// A Decimal128.
    Decimal(Decimal),
}

impl Number {
    /// The number, if the value is one.
    #[must_use]
    pub fn of(value: RawBsonRef<'_>) -> Option<Number> {
        Some(match value {
            RawBsonRef::Int32(n) => Number::Integer(n.into()),
            RawBsonRef::Int64(n) => Number::Integer(n),
            RawBsonRef::Double(n) => Number::Double(n),
            RawBsonRef::Decimal128(n) => Number::Decimal(n.into()),
            _ => return None,
        })
    }

    /// MongoDB's order.
    #[must_use]
    pub fn compare(&self, other: &Number) -> Ordering {
        use Number::{Decimal as Dec, Double, Integer};
        match (self, other) {
            (Integer(a), Integer(b)) => a.cmp(b),
            (Double(a), Double(b)) => compare_doubles(*a, *b),
            (Integer(a), Double(b)) => compare_integer_to_double(*a, *b),
            (Double(a), Integer(b)) => compare_integer_to_double(*b, *a).reverse(),
            (Dec(a), Dec(b)) => a.cmp_value(b),
            (Dec(a), Integer(b)) => a.cmp_value(&(*b).into()),
            (Integer(a), Dec(b)) => b.cmp_value(&(*a).into()).reverse(),
            (Dec(a), Double(b)) => a.cmp_f64(*b),
            (Double(a), Dec(b)) => b.cmp_f64(*a).reverse(),
        }
    }

    /// Whether it is NaN, of either type.
    #[must_use]
    pub fn is_nan(&self) -> bool {
        match self {
            Number::Integer(_) => false,
            Number::Double(n) => n.is_nan(),
            Number::Decimal(n) => matches!(n, Decimal::Nan),
        }
    }

    /// The nearest double.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn to_f64(&self) -> f64 {
        match self {
            Number::Integer(n) => *n as f64,
            Number::Double(n) => *n,
            Number::Decimal(n) => n.to_f64(),
        }
    }

    /// The value as a 64-bit integer, when it is one.
    #[must_use]
    pub fn to_i64_exact(&self) -> Option<i64> {
        match self {
            Number::Integer(n) => Some(*n),
            Number::Double(n) => double_to_i64_exact(*n),
            Number::Decimal(n) => n.to_i64_exact(),
        }
    }
}

/// The double as a 64-bit integer, when it is one; −0 is 0.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
pub fn double_to_i64_exact(n: f64) -> Option<i64> {
    // 2^63 itself is outside; the cast is exact within.
    let bound = -(i64::MIN as f64);
    (n >= -bound && n < bound && n.fract() == 0.0).then_some(n as i64)
}

fn compare_doubles(a: f64, b: f64) -> Ordering {
    // Only NaN is not comparable: it comes first and equals itself.
    a.partial_cmp(&b)
        .unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn compare_integer_to_double(a: i64, b: f64) -> Ordering {
    if b.is_nan() {
        return Ordering::Greater;
    }
    let bound = -(i64::MIN as f64);
    if b >= bound {
        return Ordering::Less;
    }
    if b < -bound {
        return Ordering::Greater;
    }
    // Truncation is exact here, and a fraction decides only among equals.
    a.cmp(&(b as i64))
        .then_with(|| 0.0f64.total_cmp(&(b.fract() + 0.0)))
}

/// Formatted text without an allocation. What does not fit is cut; callers size it so that all fits.
pub(crate) struct StackText<const N: usize> {
    bytes: [u8; N],
    len: usize,
}

impl<const N: usize> StackText<N> {
    pub(crate) fn new() -> Self {
        StackText {
            bytes: [0; N],
            len: 0,
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.len]).unwrap_or_default()
    }
}

impl<const N: usize> fmt::Write for StackText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let free = self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?;
        free.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
