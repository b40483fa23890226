//! Abbreviated keys: the beginning of a value's place in the BSON order, and a digest of what it is equal to, both
//! of a fixed size. What an index sorts and hashes by; whoever needs to be exact compares the values afterwards.
//!
//! The laws, for all values: `a < b` implies `OrderKey::of(a) <= OrderKey::of(b)`; equal values have equal
//! order keys and equal digests. Different values may share either.

use std::hash::{BuildHasher, Hasher};

use bson::spec::BinarySubtype;
use bson::{RawBsonRef, RawDocument};

use super::compare::{DEPTH_MAX, type_rank};
use super::number::Number;

/// A value's rank in its first byte, then as much of the value as fits, most significant first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderKey(
    /// Two halves, since 128 bits would be aligned as such.
    u64,
    u64,
);

/// Bytes of a value that fit behind its rank.
const PAYLOAD: usize = 15;
const RANK_SHIFT: u32 = 120;

impl OrderKey {
    /// Before every value.
    pub const MIN: OrderKey = OrderKey(0, 0);
    /// After every value.
    pub const MAX: OrderKey = OrderKey(u64::MAX, u64::MAX);

    /// The key of a value.
    #[must_use]
    pub fn of(value: RawBsonRef<'_>) -> OrderKey {
        OrderKey::from_bits(u128::from(type_rank(&value)) << RANK_SHIFT | payload(value))
    }

    /// Before all values of a rank (see [`type_rank`]).
    #[must_use]
    pub fn rank_min(rank: u8) -> OrderKey {
        OrderKey::from_bits(u128::from(rank) << RANK_SHIFT)
    }

    /// After all values of a rank.
    #[must_use]
    pub fn rank_max(rank: u8) -> OrderKey {
        OrderKey::from_bits(u128::from(rank) << RANK_SHIFT | ((1 << RANK_SHIFT) - 1))
    }

    /// The first and the last key of the strings that begin with `prefix`.
    #[must_use]
    pub fn prefixed(prefix: &str) -> (OrderKey, OrderKey) {
        let rank = u128::from(type_rank(&RawBsonRef::String(""))) << RANK_SHIFT;
        let bytes = prefix.as_bytes();
        let low = packed(bytes);
        let free = 8 * PAYLOAD.saturating_sub(bytes.len());
        let high = low | ((1_u128 << free) - 1);
        (
            OrderKey::from_bits(rank | low),
            OrderKey::from_bits(rank | high),
        )
    }

    /// The rank of the value's type.
    #[must_use]
    pub fn rank(self) -> u8 {
        self.0.to_be_bytes()[0]
    }

    /// The bits, most significant first.
    #[must_use]
    pub fn bits(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }

    /// The key with these bits.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the two halves
    pub fn from_bits(bits: u128) -> OrderKey {
        OrderKey((bits >> 64) as u64, bits as u64)
    }
}

fn payload(value: RawBsonRef<'_>) -> u128 {
    use RawBsonRef as V;
    match value {
        V::String(text) | V::Symbol(text) | V::JavaScriptCode(text) => packed(text.as_bytes()),
        V::JavaScriptCodeWithScope(code) => packed(code.code.as_bytes()),
        V::ObjectId(id) => packed(&id.bytes()),
        V::Boolean(truth) => u128::from(truth),
        V::DateTime(date) => u128::from(ordered_integer(date.timestamp_millis())),
        V::Timestamp(at) => u128::from(at.time) << 32 | u128::from(at.increment),
        V::Binary(binary) => {
            let old = binary.subtype == BinarySubtype::BinaryOld;
            let stored = binary.bytes.len() + 4 * usize::from(old);
            let mut start = [0; PAYLOAD];
            start[..4].copy_from_slice(&u32::try_from(stored).unwrap_or(u32::MAX).to_be_bytes());
            start[4] = binary.subtype.into();
            let shown = binary.bytes.len().min(PAYLOAD - 5);
            start[5..5 + shown].copy_from_slice(&binary.bytes[..shown]);
            packed(&start)
        }
        V::RegularExpression(regex) => packed(regex.pattern.as_str().as_bytes()),
        // Documents are ordered by the first field's type, then its name.
        V::Document(document) => match first(document) {
            Some((name, value)) => {
                u128::from(type_rank(&value)) << (RANK_SHIFT - 8) | packed(name.as_bytes()) >> 8
            }
            None => 0,
        },
        V::Array(array) => match super::path::elements(array).next() {
            Some(inner @ (V::Array(_) | V::Document(_))) => {
                u128::from(type_rank(&inner)) << (RANK_SHIFT - 8)
            }
            Some(value) => OrderKey::of(value).bits() >> 8,
            None => 0,
        },
        V::Int32(_) | V::Int64(_) | V::Double(_) | V::Decimal128(_) => {
            u128::from(number(value)) << (RANK_SHIFT - 64)
        }
        V::MinKey | V::Undefined | V::Null | V::MaxKey | V::DbPointer(_) => 0,
    }
}

fn first(document: &RawDocument) -> Option<(&str, RawBsonRef<'_>)> {
    let element = document.iter_elements().next()?.ok()?;
    Some((element.key().as_str(), element.value().ok()?))
}

/// Up to [`PAYLOAD`] bytes, filled up with zeros.
fn packed(bytes: &[u8]) -> u128 {
    let mut buffer = [0; 16];
    let length = bytes.len().min(PAYLOAD);
    buffer[1..=length].copy_from_slice(&bytes[..length]);
    u128::from_be_bytes(buffer)
}

/// Orders as the integer does.
fn ordered_integer(n: i64) -> u64 {
    n.cast_unsigned() ^ 1 << 63
}

/// The nearest double, as bits that order as MongoDB orders numbers: NaN first. Rounding keeps the order.
fn number(value: RawBsonRef<'_>) -> u64 {
    let Some(number) = Number::of(value) else {
        return 0;
    };
    let nearest = number.to_f64();
    if nearest.is_nan() {
        return 0;
    }
    let bits = (nearest + 0.0).to_bits(); // -0 is 0
    match bits >> 63 {
        0 => bits | 1 << 63,
        _ => !bits,
    }
}

/// The digest: equal values, equal digests, whatever their numeric type. `state` should be one that nobody
/// outside can guess.
pub fn digest(value: RawBsonRef<'_>, state: &impl BuildHasher) -> u64 {
    let mut hasher = state.build_hasher();
    feed(value, &mut hasher, 0);
    hasher.finish()
}

fn feed(value: RawBsonRef<'_>, hasher: &mut impl Hasher, depth: u32) {
    use RawBsonRef as V;
    hasher.write_u8(type_rank(&value));
    match value {
        V::String(text) | V::Symbol(text) | V::JavaScriptCode(text) => {
            hasher.write(text.as_bytes());
        }
        V::Int32(_) | V::Int64(_) | V::Double(_) | V::Decimal128(_) => {
            hasher.write_u64(number(value));
        }
        // Beyond, values are compared by their bytes: those of equal ones begin with the same length.
        V::Document(inner) if depth >= DEPTH_MAX => hasher.write_usize(inner.as_bytes().len()),
        V::Array(inner) if depth >= DEPTH_MAX => hasher.write_usize(inner.as_bytes().len()),
        V::Document(inner) => {
            for element in inner.iter_elements().map_while(Result::ok) {
                let Ok(value) = element.value() else { return };
                hasher.write(element.key().as_str().as_bytes());
                feed(value, hasher, depth + 1);
            }
        }
        V::Array(inner) => super::path::elements(inner).for_each(|v| feed(v, hasher, depth + 1)),
        V::Binary(binary) => hasher.write(binary.bytes),
        other => hasher.write_u128(payload(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_spans_what_begins_with_it() {
        let (low, high) = OrderKey::prefixed("ab");
        for (text, inside) in [
            ("ab", true),
            ("ab\u{10ffff}", true),
            ("aa\u{10ffff}", false),
            ("ac", false),
            ("a", false),
        ] {
            let key = OrderKey::of(RawBsonRef::String(text));
            assert_eq!(low <= key && key <= high, inside, "{text}");
        }
        let (low, high) = OrderKey::prefixed("longer than fifteen bytes");
        assert_eq!(low, high);
    }
}
