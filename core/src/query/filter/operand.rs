//! Numbers as operands: which ones are integers, and how `$mod` truncates, whatever their BSON type.

use bson::{Decimal128, RawBsonRef};

/// 2^63 as a double: the first that a signed 64-bit integer cannot hold.
const I64_END: f64 = 9_223_372_036_854_775_808.0;

/// The integer that a number is, if it is one and fits 64 bits.
pub(crate) fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n),
        RawBsonRef::Double(n) if n.fract() == 0.0 => truncate_double(n),
        RawBsonRef::Decimal128(n) => decimal_integer(n)
            .filter(|(_, exact)| *exact)
            .map(|(n, _)| n),
        _ => None,
    }
}

/// A number truncated towards zero, if it is finite and the result fits 64 bits.
pub(crate) fn truncated(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n),
        RawBsonRef::Double(n) => truncate_double(n),
        RawBsonRef::Decimal128(n) => decimal_integer(n).map(|(n, _)| n),
        _ => None,
    }
}

/// A double truncated towards zero, if the result fits 64 bits.
fn truncate_double(n: f64) -> Option<i64> {
    if !(-I64_END..I64_END).contains(&n) {
        return None;
    }
    #[allow(clippy::cast_possible_truncation)] // in range: checked above
    Some(n as i64)
}

/// A decimal truncated towards zero and whether nothing was cut off; `None` beyond 64 bits, NaN, infinity.
fn decimal_integer(n: Decimal128) -> Option<(i64, bool)> {
    let bits = u128::from_le_bytes(n.bytes());
    let negative = bits >> 127 == 1;
    // Combination field (IEEE 754-2008 §3.5.2, binary integer decimal): `11110` is infinity, `11111` NaN.
    if bits >> 123 & 0b1111 == 0b1111 {
        return None;
    }
    // `11` at the head of the combination is the large form, whose coefficient is always out of range: zero.
    let (exponent, coefficient) = if bits >> 125 & 0b11 == 0b11 {
        (0, 0)
    } else {
        (
            (bits >> 113 & 0x3fff) as i32 - 6176,
            bits & ((1 << 113) - 1),
        )
    };
    // A coefficient beyond 34 digits is not canonical and means zero.
    let coefficient = if coefficient < 10_u128.pow(34) {
        coefficient
    } else {
        0
    };
    let (magnitude, exact) = scale(coefficient, exponent)?;
    let signed = if negative {
        -(magnitude as i128)
    } else {
        magnitude as i128
    };
    Some((i64::try_from(signed).ok()?, exact))
}

/// coefficient · 10^exponent, truncated, if below 2^64, and whether it is exact.
fn scale(coefficient: u128, exponent: i32) -> Option<(u128, bool)> {
    if coefficient == 0 {
        return Some((0, true));
    }
    if exponent >= 0 {
        let factor = 10_u128.checked_pow(exponent.unsigned_abs())?;
        let product = coefficient.checked_mul(factor)?;
        return (product < 1 << 64).then_some((product, true));
    }
    match 10_u128.checked_pow(exponent.unsigned_abs()) {
        Some(divisor) => {
            let quotient = coefficient / divisor;
            (quotient < 1 << 64).then_some((quotient, coefficient % divisor == 0))
        }
        None => Some((0, false)),
    }
}
