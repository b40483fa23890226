//! Arithmetic with the result types of the server: integers grow from 32 to 64 bits to doubles, a double makes a
//! double, a decimal a decimal.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::super::sum::{Sum, Widest, integer};
use super::super::{Expression, Function};
use super::expression::{evaluate, is_nullish};
use super::{Failure, Value};
use crate::value::decimal::{DIGITS_MAX, Decimal};
use crate::value::number::{Number, double_to_i64_exact};

/// Significant digits that a double has when it meets a decimal.
const DOUBLE_DIGITS: u32 = 15;
/// From here on not every double is rounded as its decimal digits would be.
const ROUNDED_MAX: f64 = 1e15;

/// `$add` and `$multiply`. The server flattens them and takes constants together, at the end.
pub(super) fn series(
    function: Function,
    arguments: &[Expression],
    root: &RawDocument,
) -> Result<Value, Failure> {
    let (mut varying, mut constants) = (Vec::new(), Vec::new());
    flatten(function, arguments, &mut varying, &mut constants);
    let mut values = Vec::with_capacity(varying.len() + 1);
    for argument in varying {
        values.push(evaluate(argument, root)?);
        if values.last().is_some_and(is_nullish) {
            // The answer, unless something before it is no number; the rest is not evaluated.
            return combined(function, &values);
        }
    }
    if !constants.is_empty() {
        let constants = constants
            .into_iter()
            .map(|argument| evaluate(argument, root))
            .collect::<Result<Vec<Value>, Failure>>()?;
        values.push(match <[Value; 1]>::try_from(constants) {
            Ok([one]) => one,
            Err(several) => combined(function, &several)?,
        });
    }
    combined(function, &values)
}

/// The arguments of a function and of the same function within, those that are constant apart.
pub(super) fn flatten<'e>(
    function: Function,
    arguments: &'e [Expression],
    varying: &mut Vec<&'e Expression>,
    constants: &mut Vec<&'e Expression>,
) {
    for argument in arguments {
        match argument {
            constant if constant.is_constant() => constants.push(constant),
            Expression::Call(inner, arguments) if *inner == function => {
                flatten(function, arguments, varying, constants);
            }
            other => varying.push(other),
        }
    }
}

fn combined(function: Function, values: &[Value]) -> Result<Value, Failure> {
    match function {
        Function::Add => add(values),
        _ => multiply(values),
    }
}

fn add(values: &[Value]) -> Result<Value, Failure> {
    let (mut sum, mut pairwise, mut date) = (Sum::default(), 0.0, false);
    for value in values {
        match value {
            Some(RawBson::DateTime(ms)) if !date => {
                date = true;
                sum.add(RawBsonRef::Int64(ms.timestamp_millis()));
            }
            Some(RawBson::DateTime(_)) => return Err(Failure::invalid("$add takes one date")),
            value if is_nullish(value) => return Ok(Some(RawBson::Null)),
            Some(value) if sum.add(value.as_raw_bson_ref()) => {
                pairwise += to_f64(value.as_raw_bson_ref()).unwrap_or(0.0);
            }
            _ => return Err(Failure::invalid("$add needs numbers or dates")),
        }
    }
    let total = sum.total();
    match (&total, date) {
        (RawBson::Int32(n), true) => Ok(Some(date_of((*n).into()))),
        (RawBson::Int64(n), true) => Ok(Some(date_of(*n))),
        (_, true) => Err(Failure::undecided("a date and a number that is no integer")),
        // Whether the errors of more than two doubles are carried along is a choice of the server's engines.
        (RawBson::Double(n), false)
            if values.len() > 2 && n.to_bits() != f64::to_bits(pairwise) =>
        {
            Err(Failure::undecided("a sum of more than two doubles in $add"))
        }
        _ => Ok(Some(total)),
    }
}

fn date_of(ms: i64) -> RawBson {
    RawBson::DateTime(bson::DateTime::from_millis(ms))
}

fn multiply(values: &[Value]) -> Result<Value, Failure> {
    let mut product = RawBson::Int32(1);
    for value in values {
        if is_nullish(value) {
            return Ok(Some(RawBson::Null));
        }
        let factor = value.as_ref().and_then(|value| {
            let value = value.as_raw_bson_ref();
            Number::of(value).map(|_| value)
        });
        let Some(factor) = factor else {
            return Err(Failure::invalid("$multiply needs numbers"));
        };
        product = times(product.as_raw_bson_ref(), factor);
    }
    Ok(Some(product))
}

/// Both are numbers.
fn times(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> RawBson {
    let widest = Widest::of(a).max(Widest::of(b)).unwrap_or_default();
    if widest == Widest::Decimal {
        return RawBson::Decimal128(to_decimal(a).multiply(&to_decimal(b)).encode());
    }
    if let (Some(m), Some(n)) = (to_integer(a), to_integer(b))
        && let Some(exact) = m.checked_mul(n)
    {
        return integer(exact, widest);
    }
    RawBson::Double(to_f64(a).unwrap_or(0.0) * to_f64(b).unwrap_or(0.0))
}

/// All the other functions of numbers.
pub(super) fn call(function: Function, values: &[Value]) -> Result<Value, Failure> {
    if values.iter().any(is_nullish) {
        return nullish(function, values);
    }
    let present: Vec<RawBsonRef<'_>> = values
        .iter()
        .flatten()
        .map(RawBson::as_raw_bson_ref)
        .collect();
    let value = match (function, &present[..]) {
        (Function::Subtract, [a, b]) => subtract(*a, *b)?,
        (Function::Divide, [a, b]) => divide(*a, *b)?,
        (Function::Mod, [a, b]) => remainder(*a, *b)?,
        (Function::Abs, [a]) => absolute(*a)?,
        (Function::Ceil, [a]) => whole(*a, f64::ceil)?,
        (Function::Floor, [a]) => whole(*a, f64::floor)?,
        (Function::Round, [a, place @ ..]) => rounded(*a, place, true)?,
        (Function::Trunc, [a, place @ ..]) => rounded(*a, place, false)?,
        _ => return Err(Failure::undecided(function.name())),
    };
    Ok(Some(value))
}

/// Null, unless the other argument could not stand there at all: that is for the server to say.
fn nullish(function: Function, values: &[Value]) -> Result<Value, Failure> {
    let fits = values.iter().all(|value| {
        is_nullish(value)
            || value.as_ref().is_some_and(|value| {
                let value = value.as_raw_bson_ref();
                Number::of(value).is_some() || matches!(value, RawBsonRef::DateTime(_))
            })
    });
    match fits {
        true => Ok(Some(RawBson::Null)),
        false => Err(Failure::undecided(format!(
            "{} of null and another type",
            function.name()
        ))),
    }
}

fn subtract(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Result<RawBson, Failure> {
    match (a, b) {
        (RawBsonRef::DateTime(a), RawBsonRef::DateTime(b)) => {
            let difference = a.timestamp_millis().checked_sub(b.timestamp_millis());
            return difference
                .map(RawBson::Int64)
                .ok_or_else(|| Failure::undecided("dates so far apart"));
        }
        (RawBsonRef::DateTime(a), b) if to_integer(b).is_some() => {
            let moved = to_integer(b).and_then(|b| a.timestamp_millis().checked_sub(b));
            return moved
                .map(date_of)
                .ok_or_else(|| Failure::undecided("a date so far away"));
        }
        (RawBsonRef::DateTime(_), b) if Number::of(b).is_some() => {
            return Err(Failure::undecided("a date and a number that is no integer"));
        }
        _ => {}
    }
    let Some(widest) = both(a, b) else {
        return Err(Failure::invalid("$subtract needs numbers or dates"));
    };
    Ok(match (widest, to_integer(a), to_integer(b)) {
        (Widest::Decimal, _, _) => {
            RawBson::Decimal128(to_decimal(a).subtract(&to_decimal(b)).encode())
        }
        (widest, Some(m), Some(n)) if m.checked_sub(n).is_some() => integer(m - n, widest),
        _ => RawBson::Double(to_f64(a).unwrap_or(0.0) - to_f64(b).unwrap_or(0.0)),
    })
}

fn divide(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Result<RawBson, Failure> {
    let Some(widest) = both(a, b) else {
        return Err(Failure::invalid("$divide needs numbers"));
    };
    if is_zero(b) {
        return Err(Failure::invalid("$divide by zero"));
    }
    Ok(match widest {
        Widest::Decimal => RawBson::Decimal128(to_decimal(a).divide(&to_decimal(b)).encode()),
        _ => RawBson::Double(to_f64(a).unwrap_or(0.0) / to_f64(b).unwrap_or(0.0)),
    })
}

fn remainder(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Result<RawBson, Failure> {
    let Some(widest) = both(a, b) else {
        return Err(Failure::invalid("$mod needs numbers"));
    };
    if is_zero(b) {
        return Err(Failure::invalid("$mod by zero"));
    }
    if widest == Widest::Decimal {
        return Err(Failure::undecided("$mod of decimals"));
    }
    // A double that is an integer of 32 bits counts as one on the right.
    let right = match b {
        RawBsonRef::Double(n) => double_to_i64_exact(n).filter(|n| i32::try_from(*n).is_ok()),
        b => to_integer(b),
    };
    Ok(match (to_integer(a), right) {
        (Some(m), Some(n)) => {
            let result = m.checked_rem(n).unwrap_or(0);
            let long = matches!(a, RawBsonRef::Int64(_)) || matches!(b, RawBsonRef::Int64(_));
            integer(result, if long { Widest::Int64 } else { Widest::Int32 })
        }
        _ => RawBson::Double(to_f64(a).unwrap_or(0.0) % to_f64(b).unwrap_or(0.0)),
    })
}

fn absolute(a: RawBsonRef<'_>) -> Result<RawBson, Failure> {
    match a {
        RawBsonRef::Int32(n) => Ok(integer(i64::from(n).abs(), Widest::Int32)),
        RawBsonRef::Int64(n) => n
            .checked_abs()
            .map(RawBson::Int64)
            .ok_or_else(|| Failure::invalid("$abs of the smallest integer")),
        RawBsonRef::Double(n) => Ok(RawBson::Double(n.abs())),
        RawBsonRef::Decimal128(n) => match Decimal::from(n) {
            Decimal::Nan => Err(Failure::undecided("$abs of NaN")),
            Decimal::Infinite(_) => Ok(RawBson::Decimal128(Decimal::Infinite(false).encode())),
            Decimal::Finite(mut f) => {
                f.negative = false;
                Ok(RawBson::Decimal128(Decimal::Finite(f).encode()))
            }
        },
        _ => Err(Failure::invalid("$abs needs a number")),
    }
}

fn whole(a: RawBsonRef<'_>, to: fn(f64) -> f64) -> Result<RawBson, Failure> {
    match a {
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => Ok(a.into()),
        RawBsonRef::Double(n) => Ok(RawBson::Double(to(n))),
        RawBsonRef::Decimal128(_) => Err(Failure::undecided("$ceil or $floor of decimals")),
        _ => Err(Failure::invalid("$ceil and $floor need a number")),
    }
}

/// `$round` (half to even) and `$trunc`, both to a number of digits after the point.
fn rounded(a: RawBsonRef<'_>, place: &[RawBsonRef<'_>], nearest: bool) -> Result<RawBson, Failure> {
    let place = match place {
        [] => 0,
        [place, ..] => match Number::of(*place).and_then(|n| n.to_i64_exact()) {
            Some(n @ 0..=100) => u32::try_from(n).unwrap_or(0),
            Some(-20..0) => return Err(Failure::undecided("rounding before the point")),
            _ => return Err(Failure::invalid("a place is an integer from -20 to 100")),
        },
    };
    match a {
        RawBsonRef::Int32(_) | RawBsonRef::Int64(_) => Ok(a.into()),
        RawBsonRef::Double(n) if !n.is_finite() => Ok(RawBson::Double(n)),
        RawBsonRef::Double(n) if n.abs() < ROUNDED_MAX && place <= 15 => {
            Ok(RawBson::Double(to_place(n, place, nearest)))
        }
        RawBsonRef::Double(_) | RawBsonRef::Decimal128(_) => {
            Err(Failure::undecided("rounding so long a number"))
        }
        _ => Err(Failure::invalid("$round and $trunc need a number")),
    }
}

/// Rounds the decimal digits, as the server does, and takes the nearest double.
fn to_place(n: f64, place: u32, nearest: bool) -> f64 {
    let Decimal::Finite(digits) = Decimal::from_f64(n, DIGITS_MAX) else {
        return n;
    };
    let drop = i64::from(digits.exponent) + i64::from(place);
    let Ok(drop) = u32::try_from(-drop) else {
        return n;
    };
    // More digits than there are leave nothing.
    let kept = match 10_u128.checked_pow(drop) {
        None => 0,
        Some(unit) => {
            let (kept, rest) = (digits.coefficient / unit, digits.coefficient % unit);
            let up = rest > unit - rest || (rest == unit - rest && kept % 2 == 1);
            kept + u128::from(nearest && rest != 0 && up)
        }
    };
    let magnitude: f64 = format!("{kept}e-{place}").parse().unwrap_or(n);
    magnitude.copysign(n)
}

/// The wider type of two numbers.
fn both(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> Option<Widest> {
    Some(Widest::of(a)?.max(Widest::of(b)?))
}

fn to_integer(value: RawBsonRef<'_>) -> Option<i64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss)] // as the server has it
fn to_f64(value: RawBsonRef<'_>) -> Option<f64> {
    match value {
        RawBsonRef::Int32(n) => Some(n.into()),
        RawBsonRef::Int64(n) => Some(n as f64),
        RawBsonRef::Double(n) => Some(n),
        _ => None,
    }
}

fn to_decimal(value: RawBsonRef<'_>) -> Decimal {
    match value {
        RawBsonRef::Decimal128(n) => n.into(),
        RawBsonRef::Double(n) => Decimal::from_f64(n, DOUBLE_DIGITS),
        other => Decimal::from(to_integer(other).unwrap_or(0)),
    }
}

/// Whether a number is zero.
pub(super) fn is_zero(value: RawBsonRef<'_>) -> bool {
    Number::of(value).is_some_and(|n| n.to_i64_exact() == Some(0))
}

/// An integer of 32 bits, of whatever type.
pub(super) fn to_i32(value: &Value) -> Option<i32> {
    let number = Number::of(value.as_ref()?.as_raw_bson_ref())?;
    number.to_i64_exact().and_then(|n| i32::try_from(n).ok())
}
