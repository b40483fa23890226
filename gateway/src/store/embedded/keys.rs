//! Storage keys: `db NUL collection NUL` and the record's `_id`, such that equal ids (5, 5.0, Decimal 5) have
//! one key, and the common kinds of id lie in MongoDB's order: integers, strings, ObjectIds.
//!
//! Every other kind comes after these, under its canonical text, in no order that means anything; a scan in
//! `_id` order looks first whether there is one ([`others`]).

use bson::RawBsonRef;
use freshet_core::name::Namespace;
use freshet_core::value::canonical;
use freshet_core::value::decimal::Decimal;
use freshet_core::value::number::Number;

/// The digits that a double keeps when it meets a decimal.
const DECIMAL_DIGITS: u32 = 34;

const INTEGER: u8 = 0x10;
const STRING: u8 = 0x20;
const OBJECT_ID: u8 = 0x30;
const DECIMAL: u8 = 0xF0;
const OTHER: u8 = 0xF1;

/// What every key of the collection begins with.
pub(super) fn prefix(namespace: &Namespace) -> Vec<u8> {
    let mut key = Vec::with_capacity(namespace.db().len() + namespace.collection().len() + 16);
    key.extend(namespace.db().as_bytes());
    key.push(0);
    key.extend(namespace.collection().as_bytes());
    key.push(0);
    key
}

/// The first key after all that begin with `prefix`, which ends in NUL.
pub(super) fn after(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    if let Some(last) = end.last_mut() {
        *last = 1;
    }
    end
}

/// Where the ids begin that are not in order.
pub(super) fn others(prefix: &[u8]) -> Vec<u8> {
    let mut start = prefix.to_vec();
    start.push(DECIMAL);
    start
}

/// The key of a record.
pub(super) fn record(namespace: &Namespace, id: RawBsonRef<'_>) -> Vec<u8> {
    let mut key = prefix(namespace);
    match (Number::of(id), id) {
        (Some(number), _) => put_number(number, &mut key),
        (None, RawBsonRef::String(text) | RawBsonRef::Symbol(text)) => {
            key.push(STRING);
            key.extend(text.as_bytes());
        }
        (None, RawBsonRef::ObjectId(id)) => {
            key.push(OBJECT_ID);
            key.extend(id.bytes());
        }
        (None, id) => {
            key.push(OTHER);
            key.extend(canonical::text(id).as_bytes());
        }
    }
    key
}

fn put_number(number: Number, key: &mut Vec<u8>) {
    if let Some(integer) = number.to_i64_exact() {
        key.push(INTEGER);
        // With the sign flipped, negative numbers come first.
        key.extend((integer ^ i64::MIN).to_be_bytes());
        return;
    }
    let decimal = match number {
        Number::Integer(integer) => integer.into(),
        Number::Double(double) => Decimal::from_f64(double, DECIMAL_DIGITS),
        Number::Decimal(decimal) => decimal,
    };
    key.push(DECIMAL);
    match decimal {
        Decimal::Nan => key.extend(b"nan"),
        Decimal::Infinite(negative) => key.extend(if negative { b"-inf" } else { b"+inf" }),
        Decimal::Finite(finite) => {
            put_finite(finite.negative, finite.coefficient, finite.exponent, key)
        }
    }
}

/// Without trailing zeros, so that one value has one key.
fn put_finite(negative: bool, mut coefficient: u128, mut exponent: i32, key: &mut Vec<u8>) {
    while coefficient != 0 && coefficient.is_multiple_of(10) {
        coefficient /= 10;
        exponent += 1;
    }
    key.push(u8::from(!negative));
    key.extend(exponent.to_be_bytes());
    key.extend(coefficient.to_be_bytes());
}

/// The namespaces' names in a key, for listing collections.
pub(super) fn collection_of<'k>(key: &'k [u8], db: &str) -> Option<&'k str> {
    let rest = key.strip_prefix(db.as_bytes())?.strip_prefix(&[0])?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use bson::oid::ObjectId;
    use bson::{Bson, RawBson};

    use super::*;

    fn key(id: impl Into<Bson>) -> Vec<u8> {
        let namespace = Namespace::new("shop", "products").unwrap();
        let id = RawBson::try_from(id.into()).unwrap();
        record(&namespace, id.as_raw_bson_ref())
    }

    fn decimal(text: &str) -> Bson {
        Bson::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn equal_ids_have_one_key() {
        assert_eq!(key(5), key(5_i64));
        assert_eq!(key(5), key(5.0));
        assert_eq!(key(5), key(decimal("5.00")));
        assert_eq!(key(0), key(-0.0));
        assert_eq!(key(0.5), key(decimal("0.50")));
        assert_eq!(key(1e300), key(1e300));
        assert_eq!(key(decimal("1E+40")), key(decimal("10E+39")));
    }

    #[test]
    fn different_ids_have_different_keys() {
        let ids: Vec<Bson> = vec![
            0.into(),
            5.into(),
            (-5).into(),
            "5".into(),
            "".into(),
            Bson::Null,
            true.into(),
            0.1.into(),
            decimal("0.1"),
            0.5.into(),
            f64::NAN.into(),
            f64::INFINITY.into(),
            f64::NEG_INFINITY.into(),
            9_007_199_254_740_993_i64.into(),
            9_007_199_254_740_992.0.into(),
            i64::MAX.into(),
            9.223_372_036_854_776e18.into(),
            ObjectId::from_bytes([1; 12]).into(),
            bson::doc! { "a": 1 }.into(),
        ];
        for (at, one) in ids.iter().enumerate() {
            for other in &ids[at + 1..] {
                assert_ne!(key(one.clone()), key(other.clone()), "{one} {other}");
            }
        }
    }

    #[test]
    fn common_ids_lie_in_order() {
        let ids: Vec<Bson> = vec![
            i64::MIN.into(),
            (-1).into(),
            0.into(),
            1.into(),
            i64::MAX.into(),
            "".into(),
            "a".into(),
            "ab".into(),
            "b".into(),
            ObjectId::from_bytes([0; 12]).into(),
            ObjectId::from_bytes([255; 12]).into(),
        ];
        let keys: Vec<_> = ids.into_iter().map(key).collect();
        assert!(keys.is_sorted());
        let shop = prefix(&Namespace::new("shop", "products").unwrap());
        assert!(keys.iter().all(|key| *key < others(&shop)));
        assert!(key(0.5) >= others(&shop) && key(0.5) < after(&shop));
    }
}
