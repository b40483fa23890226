//! Decimal128 (IEEE 754-2008, binary integer decimal encoding as the BSON specification has it):
//! decoding, encoding and exact order. What `$inc` and `$mul` need is in `arithmetic`. No flags, no signalling.

mod arithmetic;

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

    /// The nearest double; beyond the largest, infinity.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match self {
            Decimal::Nan => f64::NAN,
            Decimal::Infinite(true) => f64::NEG_INFINITY,
            Decimal::Infinite(false) => f64::INFINITY,
            Decimal::Finite(finite) => {
                let mut text = StackText::<64>::new();
                let sign = if finite.negative { "-" } else { "" };
                // A sign, 34 digits and an exponent of six characters fit, and parse.
                let _ = write!(text, "{sign}{}e{}", finite.coefficient, finite.exponent);
                text.as_str().parse().unwrap_or(f64::NAN)
            }
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
