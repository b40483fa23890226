//! Sums as the server makes them: doubles with their rounding errors carried along, so that 0.02 + 0.2 + 0.2 + 0.2 is
//! 0.62; integers exactly; decimals apart, the two added at the end.
//!
//! The carrying is 2Sum and Fast2Sum: S. Boldo, S. Graillat, J.-M. Muller, *On the robustness of the 2Sum and
//! Fast2Sum algorithms*, ACM TOMS 44 (2017). Which steps are made in which order follows the server's
//! `DoubleDoubleSummation`, since the last bit depends on it.

use bson::{RawBson, RawBsonRef};

use crate::value::decimal::{DIGITS_MAX, Decimal, Finite};

/// A sum of doubles as a rounded sum and what the rounding left over.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DoubleDouble {
    sum: f64,
    rest: f64,
    /// The plain sum: what counts once an infinity has made the other NaN.
    plain: f64,
}

/// 2^63, the first double beyond 64 bits.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

impl DoubleDouble {
    /// Adds a double.
    pub(super) fn add(&mut self, x: f64) {
        self.plain += x;
        let (x, rest) = fast_two_sum(x, self.rest);
        let (sum, low) = two_sum(self.sum, x);
        self.sum = sum;
        self.rest = rest + low;
    }

    /// Adds an integer, in two halves that doubles hold exactly.
    #[allow(clippy::cast_precision_loss)] // exact: 32 significant bits each
    pub(super) fn add_integer(&mut self, n: i64) {
        let high = n / (1 << 32) * (1 << 32);
        self.add((n - high) as f64);
        self.add(high as f64);
    }

    /// The nearest double.
    pub(super) fn to_f64(self) -> f64 {
        if self.sum.is_nan() {
            self.plain
        } else {
            self.sum
        }
    }

    /// The nearest integer, halves away from zero, if it fits 64 bits.
    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // in range where cast
    pub(super) fn to_i64(self) -> Option<i64> {
        if self.sum == TWO_63 {
            return (self.rest < -0.5).then(|| i64::MAX - ((-self.rest.round()) as i64 - 1));
        }
        if self.sum == -TWO_63 {
            return (self.rest >= -0.5).then(|| i64::MIN + self.rest.round().max(0.0) as i64);
        }
        if !(self.sum > -TWO_63 && self.sum < TWO_63) {
            return None;
        }
        let whole = self.sum.round() as i64;
        let rest = ((self.sum - whole as f64) + self.rest).round() as i64;
        whole.checked_add(rest)
    }

    /// The sum as a decimal of up to 34 digits.
    pub(super) fn to_decimal(self) -> Decimal {
        if self.sum.is_finite() {
            exact(self.sum).add(&exact(self.rest))
        } else {
            exact(self.plain)
        }
    }
}

/// A double as a decimal: exactly where 34 digits hold it, without digits that say nothing.
fn exact(n: f64) -> Decimal {
    let rounded = Decimal::from_f64(n, DIGITS_MAX);
    let Decimal::Finite(mut finite) = rounded else {
        return rounded;
    };
    while finite.exponent < 0 && finite.coefficient != 0 && finite.coefficient % 10 == 0 {
        finite = Finite {
            coefficient: finite.coefficient / 10,
            exponent: finite.exponent + 1,
            ..finite
        };
    }
    Decimal::Finite(finite)
}

/// For |b| ≤ |a|.
fn fast_two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    (sum, b - (sum - a))
}

fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let a_part = sum - b;
    let b_part = sum - a_part;
    (sum, (a - a_part) + (b - b_part))
}

/// The widest type among the numbers of a sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Widest {
    #[default]
    Int32,
    Int64,
    Double,
    Decimal,
}

impl Widest {
    /// The type of a value, if it is a number.
    pub(super) fn of(value: RawBsonRef<'_>) -> Option<Widest> {
        Some(match value {
            RawBsonRef::Int32(_) => Widest::Int32,
            RawBsonRef::Int64(_) => Widest::Int64,
            RawBsonRef::Double(_) => Widest::Double,
            RawBsonRef::Decimal128(_) => Widest::Decimal,
            _ => return None,
        })
    }
}

/// A running sum of numbers of all types.
#[derive(Clone, Debug)]
pub(super) struct Sum {
    binary: DoubleDouble,
    decimal: Decimal,
    widest: Widest,
    count: u64,
}

impl Default for Sum {
    fn default() -> Sum {
        Sum {
            binary: DoubleDouble::default(),
            decimal: Decimal::from(0),
            widest: Widest::default(),
            count: 0,
        }
    }
}

impl Sum {
    /// Adds a number; tells whether it was one.
    pub(super) fn add(&mut self, value: RawBsonRef<'_>) -> bool {
        match value {
            RawBsonRef::Int32(n) => self.binary.add(n.into()),
            RawBsonRef::Int64(n) => self.binary.add_integer(n),
            RawBsonRef::Double(n) => self.binary.add(n),
            RawBsonRef::Decimal128(n) => self.decimal = self.decimal.add(&n.into()),
            _ => return false,
        }
        self.widest = self.widest.max(Widest::of(value).unwrap_or_default());
        self.count += 1;
        true
    }

    /// The sum: of 32 bits only where all numbers are and it fits, a double where an integer does not fit 64 bits.
    pub(super) fn total(&self) -> RawBson {
        match self.widest {
            Widest::Decimal => {
                let total = self.decimal.add(&self.binary.to_decimal());
                RawBson::Decimal128(total.encode())
            }
            Widest::Double => RawBson::Double(self.binary.to_f64()),
            widest => match self.binary.to_i64() {
                Some(n) => integer(n, widest),
                None => RawBson::Double(self.binary.to_f64()),
            },
        }
    }

    /// The average; null of no numbers.
    #[allow(clippy::cast_precision_loss)] // as the server has it
    pub(super) fn average(&self) -> RawBson {
        if self.count == 0 {
            return RawBson::Null;
        }
        match self.widest {
            Widest::Decimal => {
                let total = self.decimal.add(&self.binary.to_decimal());
                let count = i64::try_from(self.count).unwrap_or(i64::MAX);
                RawBson::Decimal128(total.divide(&count.into()).encode())
            }
            _ => RawBson::Double(self.binary.to_f64() / self.count as f64),
        }
    }
}

/// An integer as `$sum` and `$add` answer it.
pub(super) fn integer(n: i64, widest: Widest) -> RawBson {
    match i32::try_from(n) {
        Ok(n) if widest == Widest::Int32 => RawBson::Int32(n),
        _ => RawBson::Int64(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s9_rounding_errors_are_carried_along() {
        let mut sum = DoubleDouble::default();
        for n in [0.02, 0.2, 0.2, 0.2] {
            sum.add(n);
        }
        assert_eq!(sum.to_f64().to_bits(), 0.62_f64.to_bits());
    }

    #[test]
    fn integers_stay_exact_up_to_the_ends_of_64_bits() {
        let total = |numbers: &[i64]| {
            let mut sum = DoubleDouble::default();
            numbers.iter().for_each(|n| sum.add_integer(*n));
            sum.to_i64()
        };
        let (min, max) = (i64::MIN, i64::MAX);
        for n in [0, 1, -1, max, max - 1, max - 512, min, min + 1, min + 513] {
            assert_eq!(total(&[n]), Some(n), "{n}");
            assert_eq!(total(&[max, min, n, 1]), Some(n), "{n}");
        }
        assert_eq!(total(&[max, 1]), None);
        assert_eq!(total(&[min, -1]), None);
        assert_eq!(total(&[max, max, min, -5]), Some(max - 6));
    }
}
