//! Values and documents for the tests of `value` and `update`: a list that looks for trouble, and random ones.
#![allow(dead_code, unreachable_pub)] // each test crate uses its part

pub mod updates;

use bson::{RawBson, RawDocumentBuf};
use freshet_core::value::ejson::{parse_document, parse_value};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Reads Extended JSON.
pub fn value(ejson: &str) -> RawBson {
    parse_value(ejson.as_bytes()).unwrap_or_else(|error| panic!("{ejson}: {error:?}"))
}

/// Reads Extended JSON.
pub fn document(ejson: &str) -> RawDocumentBuf {
    parse_document(ejson.as_bytes()).unwrap_or_else(|error| panic!("{ejson}: {error:?}"))
}

/// Seeded: a failure says its number and comes again.
pub fn generator(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Numbers around every edge of the four types.
pub const NUMBERS: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "-1.5",
    "2",
    "5",
    "5.0",
    "0.1",
    "0.2",
    "0.3",
    "1e-7",
    "1e300",
    "-1e300",
    "5e-324",
    "1e22",
    r#"{"$numberLong":"0"}"#,
    r#"{"$numberLong":"5"}"#,
    r#"{"$numberLong":"-1"}"#,
    "2147483647",
    "-2147483648",
    "2147483648",
    "-2147483649",
    r#"{"$numberLong":"9007199254740991"}"#,
    r#"{"$numberLong":"9007199254740992"}"#,
    r#"{"$numberLong":"9007199254740993"}"#,
    "9007199254740991.0",
    "9007199254740992.0",
    "9007199254740994.0",
    "-9007199254740992.0",
    r#"{"$numberLong":"-9007199254740993"}"#,
    r#"{"$numberLong":"9223372036854775807"}"#,
    r#"{"$numberLong":"-9223372036854775808"}"#,
    r#"{"$numberLong":"9223372036854774784"}"#,
    "9223372036854775808.0",
    "-9223372036854775808.0",
    "9223372036854774784.0",
    "18446744073709551616.0",
    r#"{"$numberDouble":"NaN"}"#,
    r#"{"$numberDouble":"Infinity"}"#,
    r#"{"$numberDouble":"-Infinity"}"#,
    r#"{"$numberDecimal":"NaN"}"#,
    r#"{"$numberDecimal":"Infinity"}"#,
    r#"{"$numberDecimal":"-Infinity"}"#,
    r#"{"$numberDecimal":"0"}"#,
    r#"{"$numberDecimal":"-0"}"#,
    r#"{"$numberDecimal":"0E+6000"}"#,
    r#"{"$numberDecimal":"0.1"}"#,
    r#"{"$numberDecimal":"0.10"}"#,
    r#"{"$numberDecimal":"0.1000000000000000055511151231257827"}"#,
    r#"{"$numberDecimal":"0.1000000000000000055511151231257828"}"#,
    r#"{"$numberDecimal":"0.30"}"#,
    r#"{"$numberDecimal":"1.5"}"#,
    r#"{"$numberDecimal":"-1.50"}"#,
    r#"{"$numberDecimal":"5"}"#,
    r#"{"$numberDecimal":"5.000"}"#,
    r#"{"$numberDecimal":"9007199254740993"}"#,
    r#"{"$numberDecimal":"9007199254740992"}"#,
    r#"{"$numberDecimal":"9223372036854775807"}"#,
    r#"{"$numberDecimal":"9223372036854775808"}"#,
    r#"{"$numberDecimal":"9223372036854775807.5"}"#,
    r#"{"$numberDecimal":"-9223372036854775809"}"#,
    r#"{"$numberDecimal":"1E+300"}"#,
    r#"{"$numberDecimal":"1E+22"}"#,
    r#"{"$numberDecimal":"1E-6176"}"#,
    r#"{"$numberDecimal":"9.999999999999999999999999999999999E+6144"}"#,
    r#"{"$numberDecimal":"4.940656458412465E-324"}"#,
    r#"{"$numberDecimal":"1E-7"}"#,
    r#"{"$numberDecimal":"1.7976931348623157E+308"}"#,
    r#"{"$numberDecimal":"1234567890123456789012345678901234"}"#,
    r#"{"$numberDecimal":"-1234567890123456789012345678901235"}"#,
    r#"{"$numberDecimal":"1.234567890123456789012345678901234"}"#,
];

/// Scalars of every other type.
pub const SCALARS: &[&str] = &[
    r#"{"$minKey":1}"#,
    r#"{"$maxKey":1}"#,
    r#"{"$undefined":true}"#,
    "null",
    "true",
    "false",
    r#""""#,
    r#""a""#,
    r#""A""#,
    r#""aa""#,
    r#""ab""#,
    r#""b""#,
    r#""\u0000""#,
    r#""a\u0000b""#,
    r#""a\u0000""#,
    r#""é""#,
    r#""z""#,
    r#""\uffff""#,
    r#""😀""#,
    r#""10""#,
    r#""9""#,
    r#"{"$symbol":"a"}"#,
    r#"{"$symbol":"ab"}"#,
    r#"{"$symbol":""}"#,
    r#"{"$binary":{"base64":"","subType":"00"}}"#,
    r#"{"$binary":{"base64":"AA==","subType":"00"}}"#,
    r#"{"$binary":{"base64":"AQ==","subType":"00"}}"#,
    r#"{"$binary":{"base64":"AA==","subType":"05"}}"#,
    r#"{"$binary":{"base64":"AQ==","subType":"02"}}"#,
    r#"{"$binary":{"base64":"","subType":"02"}}"#,
    r#"{"$binary":{"base64":"AAAAAAA=","subType":"00"}}"#,
    r#"{"$binary":{"base64":"AAAAAA==","subType":"80"}}"#,
    r#"{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}"#,
    r#"{"$oid":"000000000000000000000000"}"#,
    r#"{"$oid":"57e193d7a9cc81b4027498b5"}"#,
    r#"{"$oid":"ffffffffffffffffffffffff"}"#,
    r#"{"$date":{"$numberLong":"0"}}"#,
    r#"{"$date":{"$numberLong":"-1"}}"#,
    r#"{"$date":{"$numberLong":"1356351330501"}}"#,
    r#"{"$date":{"$numberLong":"9223372036854775807"}}"#,
    r#"{"$date":{"$numberLong":"-9223372036854775808"}}"#,
    r#"{"$timestamp":{"t":1,"i":0}}"#,
    r#"{"$timestamp":{"t":0,"i":1}}"#,
    r#"{"$timestamp":{"t":4294967295,"i":4294967295}}"#,
    r#"{"$timestamp":{"t":2147483648,"i":7}}"#,
    r#"{"$regularExpression":{"pattern":"a","options":""}}"#,
    r#"{"$regularExpression":{"pattern":"a","options":"i"}}"#,
    r#"{"$regularExpression":{"pattern":"ab","options":""}}"#,
    r#"{"$regularExpression":{"pattern":"","options":"imx"}}"#,
    r#"{"$dbPointer":{"$ref":"a","$id":{"$oid":"57e193d7a9cc81b4027498b5"}}}"#,
    r#"{"$dbPointer":{"$ref":"b","$id":{"$oid":"57e193d7a9cc81b4027498b5"}}}"#,
    r#"{"$dbPointer":{"$ref":"aa","$id":{"$oid":"000000000000000000000000"}}}"#,
    r#"{"$code":"a"}"#,
    r#"{"$code":"b"}"#,
    r#"{"$code":""}"#,
    r#"{"$code":"a","$scope":{}}"#,
    r#"{"$code":"a","$scope":{"a":1}}"#,
    r#"{"$code":"b","$scope":{}}"#,
    r#"{"$code":"a","$scope":{"b":1}}"#,
];

/// Documents and arrays that differ in one thing.
pub const CONTAINERS: &[&str] = &[
    "{}",
    r#"{"a":1}"#,
    r#"{"a":1.0}"#,
    r#"{"b":1}"#,
    r#"{"a":1,"b":2}"#,
    r#"{"b":2,"a":1}"#,
    r#"{"a":"1"}"#,
    r#"{"b":null}"#,
    r#"{"a":null}"#,
    r#"{"":1}"#,
    r#"{"a":{"b":1}}"#,
    r#"{"a":{"b":2}}"#,
    r#"{"a":[1]}"#,
    r#"{"a":[]}"#,
    r#"{"a":{}}"#,
    r#"{"é":1}"#,
    r#"{"a":{"$undefined":true}}"#,
    r#"{"0":1}"#,
    "[]",
    "[1]",
    "[1.0]",
    "[2]",
    "[1,2]",
    "[2,1]",
    r#"["a"]"#,
    r#"["a","b"]"#,
    "[[]]",
    "[[1]]",
    "[[2],[1]]",
    "[null]",
    "[{}]",
    r#"[{"a":1}]"#,
    r#"[{"a":2},{"a":0}]"#,
    r#"[{"$undefined":true}]"#,
    r#"[{"$minKey":1}]"#,
    r#"[{"$maxKey":1},1]"#,
    r#"[1,"a",null]"#,
    r#"[[1,2],3]"#,
    r#"[{"b":1},{"a":1}]"#,
    "[1,[],{}]",
];

/// One of a list.
pub fn pick<'a>(rng: &mut StdRng, list: &[&'a str]) -> &'a str {
    list[rng.random_range(0..list.len())]
}

/// A random value as Extended JSON, small enough that two of them are often alike.
pub fn random_value(rng: &mut StdRng, depth: u32) -> String {
    match rng.random_range(0..if depth == 0 { 10 } else { 16 }) {
        0..=3 => rng.random_range(0..4).to_string(),
        4 => pick(rng, NUMBERS).to_owned(),
        5 => pick(rng, SCALARS).to_owned(),
        6 => "null".to_owned(),
        7 => pick(rng, &[r#""a""#, r#""b""#, r#""ab""#]).to_owned(),
        8 => pick(rng, CONTAINERS).to_owned(),
        9 => pick(
            rng,
            &[
                "1.0",
                "2.5",
                r#"{"$numberLong":"2"}"#,
                r#"{"$numberDecimal":"2"}"#,
            ],
        )
        .to_owned(),
        10..=12 => random_document(rng, depth - 1),
        _ => {
            let members: Vec<_> = (0..rng.random_range(0..4))
                .map(|_| random_value(rng, depth - 1))
                .collect();
            format!("[{}]", members.join(","))
        }
    }
}

/// A random document as Extended JSON, with field names from a small set, in random order.
pub fn random_document(rng: &mut StdRng, depth: u32) -> String {
    let mut names = vec!["a", "b", "c", "0", "1"];
    let mut fields = Vec::new();
    for _ in 0..rng.random_range(0..4) {
        let name = names.swap_remove(rng.random_range(0..names.len()));
        fields.push(format!("\"{name}\":{}", random_value(rng, depth)));
    }
    format!("{{{}}}", fields.join(","))
}

/// A random dotted path of one to `parts_max` components.
pub fn random_path(rng: &mut StdRng, parts_max: usize) -> String {
    let parts: Vec<_> = (0..rng.random_range(1..=parts_max))
        .map(|at| {
            pick(
                rng,
                if at == 0 {
                    &["a", "b", "c"]
                } else {
                    &["a", "b", "c", "0", "1", "2"]
                },
            )
        })
        .collect();
    parts.join(".")
}
