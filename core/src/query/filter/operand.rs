//! Numbers as operands: which ones are integers, and how `$mod` truncates, whatever their BSON type.

use bson::RawBsonRef;

use crate::value::decimal::{Decimal, Finite};
use crate::value::number::{Number, double_to_i64_exact};

/// The integer that a number is, if it is one and fits 64 bits.
pub(crate) fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    Number::of(value)?.to_i64_exact()
}

/// A number truncated towards zero, if it is finite and the result fits 64 bits.
pub(crate) fn truncated(value: RawBsonRef<'_>) -> Option<i64> {
    match Number::of(value)? {
        Number::Integer(n) => Some(n),
        Number::Double(n) => double_to_i64_exact(n.trunc()),
        Number::Decimal(Decimal::Finite(n)) if n.exponent < 0 => {
            // More digits after the point than there are digits leave nothing.
            let scale = 10_u128.checked_pow(n.exponent.unsigned_abs());
            let whole = Finite {
                coefficient: scale.map_or(0, |scale| n.coefficient / scale),
                exponent: 0,
                ..n
            };
            Decimal::Finite(whole).to_i64_exact()
        }
        Number::Decimal(n) => n.to_i64_exact(),
    }
}
