//! `$inc` and `$mul`: sums and products of the four number types, as the server's `SafeNum` has them.
//!
//! 32-bit integers grow into 64-bit ones, those never into doubles; a double makes a double, a decimal a
//! decimal (a double then counts with 15 digits).

use bson::RawBsonRef;

use crate::value::decimal::Decimal;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Add,
    Multiply,
}

/// Significant digits that a double has when it meets a decimal.
const DOUBLE_DIGITS: u32 = 15;

/// The result, or `None` where one is not a number or a 64-bit integer overflows.
pub(super) fn combine(
    operation: Operation,
    a: RawBsonRef<'_>,
    b: RawBsonRef<'_>,
) -> Option<RawBsonRef<'static>> {
    use RawBsonRef as V;
    if let (V::Int32(a), V::Int32(b)) = (a, b) {
        let wide = integers(operation, a.into(), b.into())?;
        return Some(i32::try_from(wide).map_or(V::Int64(wide), V::Int32));
    }
    if let (Some(a), Some(b)) = (integer(a), integer(b)) {
        return integers(operation, a, b).map(V::Int64);
    }
    if matches!(a, V::Decimal128(_)) || matches!(b, V::Decimal128(_)) {
        let (a, b) = (decimal(a)?, decimal(b)?);
        let result = match operation {
            Operation::Add => a.add(&b),
            Operation::Multiply => a.multiply(&b),
        };
        return Some(V::Decimal128(result.encode()));
    }
    let (a, b) = (double(a)?, double(b)?);
    Some(V::Double(match operation {
        Operation::Add => a + b,
        Operation::Multiply => a * b,
    }))
}

fn integers(operation: Operation, a: i64, b: i64) -> Option<i64> {
    match operation {
        Operation::Add => a.checked_add(b),
        Operation::Multiply => a.checked_mul(b),
    }
}

fn integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n),
        _ => None,
    }
}

fn double(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Double(n) => Some(n),
        #[allow(clippy::cast_precision_loss)] // as the server converts
        other => integer(other).map(|n| n as f64),
    }
}

fn decimal(value: RawBsonRef<'_>) -> Option<Decimal> {
    match value {
        RawBsonRef::Decimal128(n) => Some(n.into()),
        RawBsonRef::Double(n) => Some(Decimal::from_f64(n, DOUBLE_DIGITS)),
        other => integer(other).map(Decimal::from),
    }
}
