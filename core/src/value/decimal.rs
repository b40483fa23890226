//! Decimal128 (IEEE 754-2008, binary integer decimal encoding as the BSON specification has it):
//! decoding, encoding, exact order, and the two operations that `$inc` and `$mul` need.
//!
//! Every result is exact or rounded once, half to even, to 34 digits. No flags, no signalling.

use std::cmp::Ordering;
use std::fmt::Write as _;

use bson::Decimal128;

use super::number::StackText;

/// Significant digits a coefficient can have.
pub const DIGITS_MAX: u32 = 34;
/// The largest coefficient.
const COEFFICIENT_MAX: u128 = 10u128.pow(DIGITS_MAX) - 1;
/// The smallest and the largest exponent of a coefficient's last digit.
const EXPONENT_MIN: i32 = -6176;
const EXPONENT_MAX: i32 = 6111;
/// What is added to an exponent to store it.
const BIAS: i32 = 6176;

/// A decoded decimal.
#[derive(Clone, Copy, Debug)]
pub enum Decimal {
    /// Not a number. Its sign and payload carry no meaning here.
    Nan,
    /// An infinity; the sign is `true` for the negative one.
    Infinite(bool),
    /// `coefficient · 10^exponent`, negated when `negative`.
    Finite(Finite),
}

/// A finite decimal.
#[derive(Clone, Copy, Debug)]
pub struct Finite {
    /// The sign, which a zero has too.
    pub negative: bool,
    /// Below 10^34.
    pub coefficient: u128,
    /// The exponent of the last digit.
    pub exponent: i32,
}

impl From<Decimal128> for Decimal {
    fn from(value: Decimal128) -> Decimal {
        let bits = u128::from_le_bytes(value.bytes());
        let negative = bits >> 127 == 1;
        match (bits >> 122) & 0b1_1111 {
            0b1_1111 => return Decimal::Nan,
            0b1_1110 => return Decimal::Infinite(negative),
            _ => {}
        }
        // With the two bits below the sign set, the coefficient would exceed 34 digits: such an
        // encoding is not canonical and means zero.
        let (biased, coefficient) = if (bits >> 125) & 0b11 == 0b11 {
            ((bits >> 111) & 0x3fff, 0)
        } else {
            ((bits >> 113) & 0x3fff, bits & ((1 << 113) - 1))
        };
        Decimal::Finite(Finite {
            negative,
            coefficient: if coefficient > COEFFICIENT_MAX {
                0
            } else {
                coefficient
            },
            #[allow(clippy::cast_possible_truncation)] // 14 bits
            exponent: biased as i32 - BIAS,
        })
    }
}

impl From<i64> for Decimal {
    fn from(value: i64) -> Decimal {
        Decimal::Finite(Finite {
            negative: value < 0,
            coefficient: u128::from(value.unsigned_abs()),
            exponent: 0,
        })
    }
}

impl Decimal {
    /// The double with exactly `digits` significant digits (at most 34), trailing zeros included.
    #[must_use]
    pub fn from_f64(value: f64, digits: u32) -> Decimal {
        if value.is_nan() {
            return Decimal::Nan;
        }
        if value.is_infinite() {
            return Decimal::Infinite(value < 0.0);
        }
        let mut text = StackText::<64>::new();
        let precision = digits.clamp(1, DIGITS_MAX) as usize - 1;
        // 34 digits, a point and an exponent of five characters fit.
        let _ = write!(text, "{:.precision$e}", value.abs());
        let (coefficient, mut exponent, _) = leading_digits(text.as_str());
        if coefficient == 0 {
            exponent = 0;
        }
        Decimal::Finite(Finite {
            negative: value.is_sign_negative(),
            coefficient,
            exponent,
        })
    }

    /// Order by value; NaN equals itself and comes before everything; −0 equals 0.
    #[must_use]
    pub fn cmp_value(&self, other: &Decimal) -> Ordering {
        match (self, other) {
            (Decimal::Nan, Decimal::Nan) => Ordering::Equal,
            (Decimal::Nan, _) => Ordering::Less,
            (_, Decimal::Nan) => Ordering::Greater,
            (Decimal::Finite(a), Decimal::Finite(b)) => a.cmp_value(b),
            _ => self.infinity().cmp(&other.infinity()),
        }
    }

    /// Order by exact value against a double, as the server has it.
    #[must_use]
    pub fn cmp_f64(&self, other: f64) -> Ordering {
        let order = self.cmp_value(&Decimal::from_f64(other, DIGITS_MAX));
        match self {
            // Equal to the rounded double: the digits beyond the 34th decide.
            Decimal::Finite(finite) if order == Ordering::Equal && finite.coefficient != 0 => {
                finite.cmp_beyond_rounding(other)
            }
            _ => order,
        }
    }

    fn infinity(&self) -> i8 {
        match self {
            Decimal::Infinite(true) => -1,
            Decimal::Infinite(false) => 1,
            _ => 0,
        }
    }

    /// The value as an integer, when it is one and fits.
    #[must_use]
    pub fn to_i64_exact(&self) -> Option<i64> {
        let Decimal::Finite(finite) = self else {
            return None;
        };
        let magnitude = finite.to_integer_exact()?;
        let signed = i128::try_from(magnitude).ok()?;
        i64::try_from(if finite.negative { -signed } else { signed }).ok()
    }

    /// The BSON value.
    #[must_use]
    pub fn encode(&self) -> Decimal128 {
        let bits = match self {
            Decimal::Nan => 0b1_1111 << 122,
            Decimal::Infinite(negative) => (0b1_1110 << 122) | (u128::from(*negative) << 127),
            Decimal::Finite(f) => {
                let biased = u128::from((f.exponent + BIAS).unsigned_abs());
                (u128::from(f.negative) << 127) | (biased << 113) | f.coefficient
            }
        };
        Decimal128::from_bytes(bits.to_le_bytes())
    }

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

    fn is_negative(&self) -> bool {
        match self {
            Decimal::Nan => false,
            Decimal::Infinite(negative) => *negative,
            Decimal::Finite(f) => f.negative,
        }
    }
}

impl Finite {
    fn cmp_value(&self, other: &Finite) -> Ordering {
        match (self.coefficient, other.coefficient) {
            (0, 0) => return Ordering::Equal,
            (0, _) => return sign_of(other.negative).reverse(),
            (_, 0) => return sign_of(self.negative),
            _ => {}
        }
        if self.negative != other.negative {
            return sign_of(self.negative);
        }
        let magnitude = self.cmp_magnitude(other);
        if self.negative {
            magnitude.reverse()
        } else {
            magnitude
        }
    }

    /// `other` is this value once rounded to 34 digits.
    fn cmp_beyond_rounding(&self, other: f64) -> Ordering {
        let mut text = StackText::<800>::new();
        // No double has more than 767 significant digits.
        let _ = write!(text, "{:.766e}", other.abs());
        let (coefficient, exponent, more) = leading_digits(text.as_str());
        let truncated = Finite {
            negative: false,
            coefficient,
            exponent,
        };
        let magnitude = match self.cmp_magnitude(&truncated) {
            Ordering::Equal if more => Ordering::Less,
            order => order,
        };
        if self.negative {
            magnitude.reverse()
        } else {
            magnitude
        }
    }

    /// Neither is zero.
    fn cmp_magnitude(&self, other: &Finite) -> Ordering {
        let (a, b) = (digits(self.coefficient), digits(other.coefficient));
        let leading = (self.exponent + a).cmp(&(other.exponent + b));
        if leading != Ordering::Equal {
            return leading;
        }
        // The same leading position: the shorter one is widened, to 34 digits at most.
        match a.cmp(&b) {
            Ordering::Less => {
                (self.coefficient * ten_to((b - a).unsigned_abs())).cmp(&other.coefficient)
            }
            Ordering::Equal => self.coefficient.cmp(&other.coefficient),
            Ordering::Greater => self
                .coefficient
                .cmp(&(other.coefficient * ten_to((a - b).unsigned_abs()))),
        }
    }

    fn to_integer_exact(self) -> Option<u128> {
        if self.coefficient == 0 {
            return Some(0);
        }
        if self.exponent >= 0 {
            // Beyond 38 digits nothing fits an integer type anyway.
            let scale = u32::try_from(self.exponent).ok().filter(|e| *e <= 20)?;
            return self.coefficient.checked_mul(ten_to(scale));
        }
        let scale = self.exponent.unsigned_abs();
        if scale > DIGITS_MAX || !self.coefficient.is_multiple_of(ten_to(scale)) {
            return None;
        }
        Some(self.coefficient / ten_to(scale))
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

/// The first 34 digits of a number in scientific notation, their exponent, and whether one of the digits
/// left out is not zero.
fn leading_digits(scientific: &str) -> (u128, i32, bool) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let (mut coefficient, mut taken, mut more) = (0u128, 0, false);
    for digit in mantissa.bytes().filter(u8::is_ascii_digit) {
        if taken < DIGITS_MAX.cast_signed() {
            coefficient = coefficient * 10 + u128::from(digit - b'0');
            taken += 1;
        } else {
            more |= digit != b'0';
        }
    }
    let exponent: i32 = exponent.parse().unwrap_or(0);
    (coefficient, exponent + 1 - taken, more)
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

fn sign_of(negative: bool) -> Ordering {
    if negative {
        Ordering::Less
    } else {
        Ordering::Greater
    }
}

/// Decimal digits of a coefficient; at least one.
fn digits(coefficient: u128) -> i32 {
    coefficient
        .checked_ilog10()
        .map_or(1, |n| n.cast_signed() + 1)
}

/// Callers stay at or below 38, the largest power of ten in 128 bits.
fn ten_to(exponent: u32) -> u128 {
    10u128.pow(exponent)
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
