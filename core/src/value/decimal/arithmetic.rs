//! Sum, product and quotient of decimals: exact in 256 bits, then rounded once, half to even (IEEE 754-2008 §5.4.1).

use std::cmp::Ordering;

use super::{COEFFICIENT_MAX, DIGITS_MAX, Decimal, EXPONENT_MAX, EXPONENT_MIN, Finite, ten_to};

impl Decimal {
    /// The sum; its exponent is the smaller of the two where that can hold it.
    #[must_use]
    pub fn add(&self, other: &Decimal) -> Decimal {
        match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => Decimal::Nan,
            (Decimal::Infinite(a), Decimal::Infinite(b)) if a != b => Decimal::Nan,
            (Decimal::Infinite(a), _) | (_, Decimal::Infinite(a)) => Decimal::Infinite(*a),
            (Decimal::Finite(a), Decimal::Finite(b)) => a.add(b),
        }
    }

    /// The difference.
    #[must_use]
    pub fn subtract(&self, other: &Decimal) -> Decimal {
        self.add(&other.negated())
    }

    /// The quotient; where it is exact its exponent is as near as can be to the difference of the two. Of zero by
    /// zero, and of infinities, NaN.
    #[must_use]
    pub fn divide(&self, other: &Decimal) -> Decimal {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => Decimal::Nan,
            (Decimal::Infinite(_), Decimal::Infinite(_)) => Decimal::Nan,
            (Decimal::Infinite(_), _) => Decimal::Infinite(negative),
            (Decimal::Finite(_), Decimal::Infinite(_)) => Decimal::Finite(Finite {
                negative,
                coefficient: 0,
                exponent: EXPONENT_MIN,
            }),
            (Decimal::Finite(a), Decimal::Finite(b)) => match (a.coefficient, b.coefficient) {
                (0, 0) => Decimal::Nan,
                (_, 0) => Decimal::Infinite(negative),
                _ => a.divide(b, negative),
            },
        }
    }

    /// With the other sign.
    #[must_use]
    pub fn negated(&self) -> Decimal {
        match self {
            Decimal::Nan => Decimal::Nan,
            Decimal::Infinite(negative) => Decimal::Infinite(!negative),
            Decimal::Finite(f) => Decimal::Finite(Finite {
                negative: !f.negative,
                ..*f
            }),
        }
    }

    /// The product; its exponent is the sum of the two where that can hold it.
    #[must_use]
    pub fn multiply(&self, other: &Decimal) -> Decimal {
        let negative = self.is_negative() != other.is_negative();
        match (self, other) {
            (Decimal::Nan, _) | (_, Decimal::Nan) => Decimal::Nan,
            (Decimal::Infinite(_), Decimal::Finite(f))
            | (Decimal::Finite(f), Decimal::Infinite(_))
                if f.coefficient == 0 =>
            {
                Decimal::Nan
            }
            (Decimal::Infinite(_), _) | (_, Decimal::Infinite(_)) => Decimal::Infinite(negative),
            (Decimal::Finite(a), Decimal::Finite(b)) => round(
                negative,
                Wide::product(a.coefficient, b.coefficient),
                a.exponent + b.exponent,
                false,
            ),
        }
    }
}

impl Finite {
    /// Digit by digit, to two more than the result keeps. Neither divisor nor a remainder has more than 34 digits, so
    /// ten times a remainder fits.
    fn divide(&self, other: &Finite, negative: bool) -> Decimal {
        let ideal = self.exponent - other.exponent;
        let mut quotient = self.coefficient / other.coefficient;
        let mut remainder = self.coefficient % other.coefficient;
        let mut exponent = ideal;
        while remainder != 0 && quotient <= COEFFICIENT_MAX * 10 {
            remainder *= 10;
            quotient = quotient * 10 + remainder / other.coefficient;
            remainder %= other.coefficient;
            exponent -= 1;
        }
        if remainder == 0 {
            // Exact: digits that say nothing are taken back.
            while exponent < ideal && quotient.is_multiple_of(10) {
                quotient /= 10;
                exponent += 1;
            }
        }
        round(negative, Wide::from(quotient), exponent, remainder != 0)
    }

    fn add(&self, other: &Finite) -> Decimal {
        let (low, high) = if self.exponent <= other.exponent {
            (self, other)
        } else {
            (other, self)
        };
        if high.coefficient == 0 {
            return add_zero(high, low);
        }
        // Widened by up to 36 digits the higher operand fits 256 bits and has at least two digits more than the
        // result keeps. What of the lower one lies below even that can only break a tie.
        let gap = (high.exponent - low.exponent).unsigned_abs();
        let widen = gap.min(DIGITS_MAX + 2);
        let wide_high = Wide::product(high.coefficient, ten_to(widen));
        let (low_part, sticky) = shift_right(low.coefficient, gap - widen);
        let exponent = high.exponent - widen.cast_signed();
        if low.negative == high.negative {
            let sum = wide_high.plus(Wide::from(low_part));
            return round(high.negative, sum, exponent, sticky);
        }
        // Borrowing one leaves a remainder that is "a little more" again.
        let wide_low = Wide::from(low_part + u128::from(sticky));
        match wide_high.cmp(&wide_low) {
            Ordering::Less => round(low.negative, wide_low.minus(wide_high), exponent, false),
            Ordering::Equal => round(false, Wide::from(0), exponent, false),
            Ordering::Greater => round(high.negative, wide_high.minus(wide_low), exponent, sticky),
        }
    }
}

/// Drops digits; tells whether one of them was not zero.
fn shift_right(coefficient: u128, digits: u32) -> (u128, bool) {
    if digits > DIGITS_MAX {
        return (0, coefficient != 0);
    }
    let unit = ten_to(digits);
    (coefficient / unit, !coefficient.is_multiple_of(unit))
}

/// `zero` has the higher exponent: the other operand stands as it is, but −0 + 0 is 0.
fn add_zero(zero: &Finite, other: &Finite) -> Decimal {
    let negative = other.negative && (other.coefficient != 0 || zero.negative);
    Decimal::Finite(Finite { negative, ..*other })
}

/// Brings a coefficient of up to 256 bits to 34 digits and the exponent into its range. `sticky`: the true
/// value is a little larger in magnitude.
fn round(negative: bool, mut wide: Wide, mut exponent: i32, mut sticky: bool) -> Decimal {
    let mut last = 0;
    let limit = Wide::from(COEFFICIENT_MAX);
    while wide > limit || (exponent < EXPONENT_MIN && wide != Wide::from(0)) {
        sticky |= last != 0;
        last = wide.divide_by_ten();
        exponent += 1;
    }
    if exponent < EXPONENT_MIN {
        // Less than a tenth of the smallest unit.
        last = 0;
    }
    let mut coefficient = wide.low;
    if last > 5 || (last == 5 && (sticky || coefficient % 2 == 1)) {
        coefficient += 1;
        if coefficient > COEFFICIENT_MAX {
            coefficient /= 10;
            exponent += 1;
        }
    }
    if coefficient == 0 {
        exponent = exponent.clamp(EXPONENT_MIN, EXPONENT_MAX);
    }
    while exponent > EXPONENT_MAX && coefficient <= COEFFICIENT_MAX / 10 {
        coefficient *= 10;
        exponent -= 1;
    }
    if exponent > EXPONENT_MAX {
        return Decimal::Infinite(negative);
    }
    Decimal::Finite(Finite {
        negative,
        coefficient,
        exponent,
    })
}

/// An unsigned integer of 256 bits, as far as sums and products of coefficients need one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    high: u128,
    low: u128,
}

impl From<u128> for Wide {
    fn from(low: u128) -> Wide {
        Wide { high: 0, low }
    }
}

impl Wide {
    fn product(a: u128, b: u128) -> Wide {
        const HALF: u128 = (1 << 64) - 1;
        let (a1, a0, b1, b0) = (a >> 64, a & HALF, b >> 64, b & HALF);
        let (p00, p01, p10, p11) = (a0 * b0, a0 * b1, a1 * b0, a1 * b1);
        let middle = (p00 >> 64) + (p01 & HALF) + (p10 & HALF);
        Wide {
            high: p11 + (p01 >> 64) + (p10 >> 64) + (middle >> 64),
            low: (middle << 64) | (p00 & HALF),
        }
    }

    fn plus(self, other: Wide) -> Wide {
        let (low, carry) = self.low.overflowing_add(other.low);
        Wide {
            high: self.high + other.high + u128::from(carry),
            low,
        }
    }

    /// `other` is not larger.
    fn minus(self, other: Wide) -> Wide {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Wide {
            high: self.high - other.high - u128::from(borrow),
            low,
        }
    }

    /// Divides in place and returns the remainder.
    fn divide_by_ten(&mut self) -> u128 {
        const HALF: u128 = (1 << 64) - 1;
        let high = self.high / 10;
        let step = ((self.high % 10) << 64) | (self.low >> 64);
        let last = ((step % 10) << 64) | (self.low & HALF);
        *self = Wide {
            high,
            low: ((step / 10) << 64) | (last / 10),
        };
        last % 10
    }
}
