//! Records that have tripped up other implementations: every type, missing and null, arrays of everything,
//! numbers that are equal and not the same, names that look like indexes.

use bson::oid::ObjectId;
use bson::spec::BinarySubtype;
use bson::{
    Binary, DateTime, Decimal128, RawArrayBuf, RawBson, RawDocumentBuf, Regex, Timestamp, rawbson,
    rawdoc,
};

fn decimal(text: &str) -> Decimal128 {
    text.parse().unwrap()
}

fn binary(subtype: BinarySubtype, bytes: &[u8]) -> Binary {
    Binary {
        subtype,
        bytes: bytes.to_vec(),
    }
}

fn regex(pattern: &str) -> Regex {
    Regex {
        pattern: pattern.try_into().unwrap(),
        options: "i".try_into().unwrap(),
    }
}

/// Ids of every kind that can be one; no two equal.
pub(crate) fn ids() -> Vec<RawBson> {
    vec![
        rawbson!(0),
        rawbson!(-7),
        rawbson!(9_007_199_254_740_993_i64),
        rawbson!(0.5),
        rawbson!(decimal("0.25")),
        rawbson!(f64::INFINITY),
        rawbson!("0"),
        rawbson!(""),
        rawbson!("a/b?c#d%"),
        rawbson!("656e00000000000000000000"),
        rawbson!("\u{e9}\u{1F600}"),
        rawbson!(ObjectId::from_bytes([0; 12])),
        rawbson!(ObjectId::from_bytes([255; 12])),
        rawbson!(true),
        rawbson!(DateTime::from_millis(-1)),
        rawbson!(DateTime::from_millis(1_700_000_000_000)),
        rawbson!(binary(BinarySubtype::Generic, b"ab")),
        rawbson!(binary(BinarySubtype::Uuid, &[7; 16])),
        rawbson!(Timestamp {
            time: 1,
            increment: 1
        }),
        RawBson::Null,
        RawBson::MinKey,
        RawBson::MaxKey,
        rawbson!({ "a": 1, "b": "x" }),
        rawbson!({ "b": "x", "a": 1 }),
    ]
}

fn values() -> Vec<RawBson> {
    let mixed = RawArrayBuf::from_iter([rawbson!(3), rawbson!("b"), RawBson::Null]);
    vec![
        RawBson::Null,
        rawbson!(1),
        rawbson!(1_i64),
        rawbson!(1.0),
        rawbson!(decimal("1.0")),
        rawbson!(-0.0),
        rawbson!(0),
        rawbson!(1.5),
        rawbson!(decimal("1.5")),
        rawbson!(f64::NAN),
        rawbson!(f64::NEG_INFINITY),
        rawbson!(i64::MAX),
        rawbson!(9_007_199_254_740_993_i64),
        rawbson!(9_007_199_254_740_992.0),
        rawbson!(decimal("9007199254740993")),
        rawbson!(""),
        rawbson!("a"),
        rawbson!("A"),
        rawbson!("\u{e9}"),
        rawbson!("e\u{301}"),
        rawbson!(true),
        rawbson!(false),
        rawbson!(DateTime::from_millis(0)),
        rawbson!(DateTime::from_millis(-5)),
        rawbson!(ObjectId::from_bytes([3; 12])),
        rawbson!(binary(BinarySubtype::Generic, b"zz")),
        rawbson!(binary(BinarySubtype::Uuid, &[1; 16])),
        rawbson!(regex("^a")),
        rawbson!(Timestamp {
            time: 2,
            increment: 0
        }),
        RawBson::MinKey,
        RawBson::MaxKey,
        rawbson!([]),
        rawbson!([[]]),
        rawbson!([1, 2]),
        rawbson!([2, 1]),
        rawbson!([[1, 2], 0]),
        RawBson::Array(mixed),
        rawbson!({}),
        rawbson!({ "c": 1 }),
        rawbson!({ "c": [5, 1] }),
        rawbson!({ "c": { "d": 1 } }),
        rawbson!({ "0": "zero", "c": 2 }),
        rawbson!([{ "c": 1 }, { "c": 9 }]),
        rawbson!([{ "c": [4, 2] }, { "x": 1 }]),
        rawbson!([{ "c": 3 }, 7, "s", null]),
    ]
}

/// A record per value under `a`, one without it, and the same under a second field in another order.
pub(crate) fn records() -> Vec<RawDocumentBuf> {
    let values = values();
    let count = values.len();
    let mut records: Vec<RawDocumentBuf> = (0..count)
        .map(|at| {
            let number = i32::try_from(at).unwrap();
            let other = values[(at * 7 + 3) % count].clone();
            rawdoc! { "_id": number, "a": values[at].clone(), "b": { "x": other }, "g": number % 4 }
        })
        .collect();
    records.push(rawdoc! { "_id": 1000, "b": [{ "x": 1 }, { "x": 2 }], "g": 0 });
    records.push(rawdoc! { "_id": 1001, "g": 1 });
    records
}

/// Filters that both stores must answer alike.
pub(crate) fn filters() -> Vec<RawDocumentBuf> {
    let mut filters = vec![
        rawdoc! {},
        rawdoc! { "g": 1, "a": { "$gte": 0 } },
        rawdoc! { "a": { "$exists": false } },
        rawdoc! { "a": { "$exists": true, "$ne": null } },
        rawdoc! { "a": { "$type": "number" } },
        rawdoc! { "a": { "$type": "array" } },
        rawdoc! { "a": { "$size": 2 } },
        rawdoc! { "a": { "$regex": "^a", "$options": "i" } },
        rawdoc! { "a": { "$all": [1, 2] } },
        rawdoc! { "a": { "$elemMatch": { "c": { "$gt": 2 } } } },
        rawdoc! { "a": { "$elemMatch": { "$gt": 1, "$lt": 3 } } },
        rawdoc! { "a": { "$mod": [2, 1] } },
        rawdoc! { "a": { "$bitsAnySet": 1 } },
        rawdoc! { "a": { "$not": { "$gt": 0 } } },
        rawdoc! { "a.c": 1 },
        rawdoc! { "a.c": { "$gt": 2 } },
        rawdoc! { "a.c": null },
        rawdoc! { "a.0": 1 },
        rawdoc! { "a.0": "zero" },
        rawdoc! { "a.0.c": 1 },
        rawdoc! { "b.x": { "$in": [1, "a", null] } },
        rawdoc! { "b.x": { "$nin": [1, "a", null] } },
        rawdoc! { "$or": [{ "g": 0 }, { "a": "a" }] },
        rawdoc! { "$nor": [{ "g": 0 }, { "a": "a" }] },
        rawdoc! { "$and": [{ "a": { "$gt": 0 } }, { "a": { "$lt": 2 } }] },
        rawdoc! { "_id": 5 },
        rawdoc! { "_id": 5.0 },
        rawdoc! { "_id": { "$eq": 5_i64 } },
        rawdoc! { "_id": { "$in": [3, 1, 1000, 77] } },
        rawdoc! { "_id": { "$in": [3, 1], "$gt": 2 } },
        rawdoc! { "_id": { "$gt": 10, "$lte": 20 } },
        rawdoc! { "_id": "nobody" },
    ];
    for value in values() {
        // A regular expression is a pattern in these places, not a value.
        if !matches!(value, RawBson::RegularExpression(_)) {
            filters.push(rawdoc! { "a": { "$eq": value.clone() } });
            filters.push(rawdoc! { "a": { "$ne": value.clone() } });
            filters.push(rawdoc! { "a": { "$in": [value.clone(), "a"] } });
        }
        // To compare ranges with an array is not decided by the predicate.
        if !matches!(value, RawBson::RegularExpression(_) | RawBson::Array(_)) {
            for operator in [bson::raw::cstr!("$gt"), bson::raw::cstr!("$lte")] {
                let mut comparison = RawDocumentBuf::new();
                comparison.append(operator, value.as_raw_bson_ref());
                filters.push(rawdoc! { "a": comparison });
            }
        }
    }
    filters
}

/// Orders that both stores must answer alike.
pub(crate) fn sorts() -> Vec<RawDocumentBuf> {
    vec![
        rawdoc! { "_id": 1 },
        rawdoc! { "_id": -1 },
        rawdoc! { "a": 1, "_id": 1 },
        rawdoc! { "a": -1, "_id": 1 },
        rawdoc! { "a.c": 1, "_id": -1 },
        rawdoc! { "a.c": -1, "_id": 1 },
        rawdoc! { "g": -1, "b.x": 1, "_id": 1 },
        rawdoc! { "a.0": 1, "_id": 1 },
    ]
}

/// Update operators, each for every record.
pub(crate) fn updates() -> Vec<RawDocumentBuf> {
    vec![
        rawdoc! { "$set": { "a": 5, "n.e.w": "x" } },
        rawdoc! { "$set": { "a.c": 5 } },
        rawdoc! { "$unset": { "a": "", "b.x": "" } },
        rawdoc! { "$inc": { "a": 1 } },
        rawdoc! { "$inc": { "a": 0.5, "count": 2_i64 } },
        rawdoc! { "$inc": { "a.c": 1 } },
        rawdoc! { "$mul": { "a": 3 } },
        rawdoc! { "$min": { "a": 1 } },
        rawdoc! { "$max": { "a": 1 } },
        rawdoc! { "$push": { "a": 9 } },
        rawdoc! { "$push": { "a": { "$each": [8, 0], "$slice": -2 } } },
        rawdoc! { "$push": { "a": { "$each": [8, 0], "$position": 1 } } },
        rawdoc! { "$push": { "a": { "$each": [{ "c": 0 }], "$sort": { "c": 1 } } } },
        rawdoc! { "$pull": { "a": 1 } },
        rawdoc! { "$pull": { "a": { "$gte": 2 } } },
        rawdoc! { "$pull": { "a": { "c": 1 } } },
        rawdoc! { "$addToSet": { "a": 1 } },
        rawdoc! { "$addToSet": { "a": { "$each": [1.0, { "c": 1 }, 7] } } },
        rawdoc! { "$pop": { "a": 1 } },
        rawdoc! { "$pop": { "a": -1 } },
        rawdoc! { "$rename": { "a": "z.y", "g": "h" } },
        rawdoc! { "$set": { "_id": 3 } },
        rawdoc! { "$set": { "a": 1 }, "$inc": { "a": 1 } },
        rawdoc! { "$set": { "a": 1, "a.b": 1 } },
        rawdoc! { "$nothing": { "a": 1 } },
    ]
}
