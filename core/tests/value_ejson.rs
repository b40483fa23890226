//! Extended JSON: errors name their place, limits hold, and what is written reads back; measured against
//! the `bson` crate's own Extended JSON.

use bson::{Bson, RawBson, RawBsonRef, RawDocumentBuf};
use freshet_core::value::canonical;
use freshet_core::value::compare::equal;
use freshet_core::value::ejson::{Mode, NESTING_MAX, parse_document, parse_value, write_value};
use proptest::prelude::*;

fn relaxed(value: RawBsonRef<'_>) -> String {
    written(value, Mode::Relaxed)
}

fn written(value: RawBsonRef<'_>, mode: Mode) -> String {
    let mut out = Vec::new();
    write_value(value, mode, &mut out);
    String::from_utf8(out).expect("the text is UTF-8")
}

#[test]
fn relaxed_text_reads_back_byte_for_byte() {
    for text in [
        r#"{"a":1,"b":[1.0,-0.0,1e+21,5e-324,"x",null,true,{}],"c":{"d":[]}}"#,
        r#"{"a":{"$numberLong":"9007199254740993"},"b":9007199254740991}"#,
        r#"{"a":{"$numberDouble":"NaN"},"b":{"$numberDouble":"-Infinity"}}"#,
        r#"{"a":{"$numberDecimal":"1.50"},"b":{"$numberDecimal":"1E+400"}}"#,
        r#"{"a":{"$date":"2012-12-24T12:15:30.501Z"},"b":{"$date":{"$numberLong":"-1"}}}"#,
        r#"{"a":{"$oid":"57e193d7a9cc81b4027498b5"},"b":{"$symbol":"s"}}"#,
        r#"{"a":{"$binary":{"base64":"//8=","subType":"02"}},"b":{"$binary":{"base64":"","subType":"80"}}}"#,
        r#"{"a":{"$regularExpression":{"pattern":"^a/\"b","options":"im"}}}"#,
        r#"{"a":{"$timestamp":{"t":4294967295,"i":1}},"b":{"$minKey":1},"c":{"$maxKey":1}}"#,
        r#"{"a":{"$code":"f()"},"b":{"$code":"f()","$scope":{"x":1}},"c":{"$undefined":true}}"#,
        r#"{"a":{"$dbPointer":{"$ref":"db.c","$id":{"$oid":"57e193d7a9cc81b4027498b5"}}}}"#,
        r#"{"":{"":""},"é\n\u0001":"😀"}"#,
        r#"{"$or":[{"a":{"$gt":1}}],"b":{"$regex":"^a","$options":"i"}}"#,
    ] {
        let document = parse_document(text.as_bytes()).unwrap();
        assert_eq!(relaxed(RawBsonRef::Document(&document)), text);
        let spelt = written(RawBsonRef::Document(&document), Mode::Canonical);
        assert_eq!(
            parse_document(spelt.as_bytes()).unwrap(),
            document,
            "{spelt}"
        );
    }
}

#[test]
fn integers_take_the_smallest_type_and_nothing_is_rounded() {
    for (text, value) in [
        ("2147483647", RawBson::Int32(i32::MAX)),
        ("2147483648", RawBson::Int64(1 << 31)),
        ("-9223372036854775808", RawBson::Int64(i64::MIN)),
        ("-0", RawBson::Int32(0)),
        ("1.0", RawBson::Double(1.0)),
        ("1e3", RawBson::Double(1000.0)),
        // As ECMAScript prints 1e19 and 2^64.
        ("10000000000000000000", RawBson::Double(1e19)),
        (
            "18446744073709552000",
            RawBson::Double(18_446_744_073_709_551_616.0),
        ),
    ] {
        assert_eq!(parse_value(text.as_bytes()).unwrap(), value, "{text}");
    }
    for text in [
        "9223372036854775808",
        "18446744073709551616",
        "1e400",
        "01",
        "1.",
        ".5",
        "+1",
        "0x1",
        "NaN",
    ] {
        assert!(parse_value(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn errors_point_at_their_place() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(101), "}".repeat(101));
    let pointer_of_deep = "/a".repeat(100);
    for (text, pointer) in [
        (r#"{"a":{"$date":"1444394707664"}}"#, "/a/$date"),
        (r#"{"a":{"$date":5}}"#, "/a/$date"),
        (
            r#"{"a":{"$date":{"$numberLong":5}}}"#,
            "/a/$date/$numberLong",
        ),
        (r#"{"a":[1,{"$oid":"57e1"}]}"#, "/a/1/$oid"),
        (r#"{"a":{"$oid":"57e193d7a9cc81b4027498b5","b":1}}"#, "/a"),
        (r#"{"a":{"$numberInt":"2147483648"}}"#, "/a/$numberInt"),
        (r#"{"a":{"$numberInt":5}}"#, "/a/$numberInt"),
        (r#"{"a":{"$numberLong":"+5"}}"#, "/a/$numberLong"),
        (r#"{"a":{"$numberDouble":"inf"}}"#, "/a/$numberDouble"),
        (r#"{"a":{"$numberDouble":"1e999"}}"#, "/a/$numberDouble"),
        (r#"{"a":{"$numberDecimal":"x"}}"#, "/a/$numberDecimal"),
        (
            r#"{"a":{"$binary":{"base64":"AA==","subType":5}}}"#,
            "/a/$binary/subType",
        ),
        (r#"{"a":{"$binary":{"base64":"AA"}}}"#, "/a/$binary/base64"),
        (r#"{"a":{"$binary":{"base64":"AA=="}}}"#, "/a/$binary"),
        (r#"{"a":{"$binary":"AA==","$type":"00"}}"#, "/a/$binary"),
        (r#"{"a":{"$timestamp":{"t":-1,"i":0}}}"#, "/a/$timestamp/t"),
        (r#"{"a":{"$minKey":2}}"#, "/a/$minKey"),
        (r#"{"a":{"$undefined":false}}"#, "/a/$undefined"),
        (
            r#"{"a":{"$uuid":"c8edabc3f738-4ca3-b68d-ab92a91478a3"}}"#,
            "/a/$uuid",
        ),
        (r#"{"a":{"$scope":{}}}"#, "/a"),
        (r#"{"x~/y":{"b":1,"b":2}}"#, "/x~0~1y/b"),
        (r#"{"a":1,"a":1}"#, "/a"),
        (r#"{"a":"\ud800"}"#, "/a"),
        (r#"{"a":"\ud800\u0041"}"#, "/a"),
        (r#"{"a":"\udc00"}"#, "/a"),
        (r#"{"a\u0000":1}"#, "/a\u{0}"),
        (
            r#"{"a":{"$regularExpression":{"pattern":"\u0000","options":""}}}"#,
            "/a/$regularExpression/pattern",
        ),
        (r#"{"a":18446744073709551616}"#, "/a"),
        (r#"{"a":1} x"#, ""),
        (r#"{"a":1,}"#, ""),
        (r#"{"a":[1,]}"#, "/a/1"),
        ("{\"a\":\"\n\"}", "/a"),
        ("", ""),
        ("[]", ""),
        ("5", ""),
        ("null", ""),
        (r#"{"$oid":"57e193d7a9cc81b4027498b5"}"#, ""),
        (&deep, &pointer_of_deep),
    ] {
        let error = parse_document(text.as_bytes()).unwrap_err();
        assert_eq!(error.pointer, pointer, "{text}: {error}");
        assert!(error.detail.len() < 120);
    }
    assert!(parse_document(b"{\"a\":\"\xff\"}").is_err());
}

#[test]
fn nesting_is_bounded_and_never_exhausts_the_stack() {
    let most = NESTING_MAX as usize;
    let fits = format!("{}1{}", r#"{"a":"#.repeat(most), "}".repeat(most));
    assert!(parse_document(fits.as_bytes()).is_ok());
    for opening in [
        r#"{"a":"#,
        "[",
        r#"{"$code":"","$scope":"#,
        r#"{"$scope":"#,
        r#"{"$dbPointer":{"$id":"#,
    ] {
        assert!(parse_value(opening.repeat(100_000).as_bytes()).is_err());
    }
}

#[test]
fn duplicates_are_found_among_many_names() {
    let names: Vec<String> = (0..500).map(|i| format!("\"n{i}\":1")).collect();
    assert!(parse_document(format!("{{{}}}", names.join(",")).as_bytes()).is_ok());
    let text = format!("{{{},\"n77\":1}}", names.join(","));
    assert_eq!(parse_document(text.as_bytes()).unwrap_err().pointer, "/n77");
}

#[test]
fn a_document_over_16_mib_is_refused() {
    // An array of small numbers grows by more than three times on its way to BSON.
    let text = format!("{{\"a\":[{}0]}}", "0,".repeat(2_000_000));
    let error = parse_document(text.as_bytes()).unwrap_err();
    assert!(error.pointer.starts_with("/a/"), "{}", error.pointer);
    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(16 * 1024 * 1024));
    assert_eq!(parse_document(text.as_bytes()).unwrap_err().pointer, "/a");
}

#[test]
fn a_stored_document_of_any_depth_is_written() {
    let mut inner = RawDocumentBuf::new();
    for _ in 0..5000 {
        let mut outer = RawDocumentBuf::new();
        outer.append(bson::cstr!("a"), inner);
        inner = outer;
    }
    let text = relaxed(RawBsonRef::Document(&inner));
    assert_eq!(text.len(), 5000 * 6 + 2);
    assert!(equal(
        RawBsonRef::Document(&inner),
        RawBsonRef::Document(&inner)
    ));
    assert_eq!(canonical::text(RawBsonRef::Document(&inner)), text);
}

#[test]
fn canonical_text_is_one_per_number() {
    for (text, canonical_text) in [
        ("5", "5"),
        ("5.0", "5"),
        (r#"{"$numberLong":"5"}"#, "5"),
        (r#"{"$numberDecimal":"5.00"}"#, "5"),
        (r#"{"$numberDecimal":"5E+2"}"#, "500"),
        (r#"{"$numberDecimal":"-0"}"#, "0"),
        (
            r#"{"$numberDecimal":"1.50"}"#,
            r#"{"$numberDecimal":"1.50"}"#,
        ),
        (r#"{"$numberDecimal":"NaN"}"#, r#"{"$numberDouble":"NaN"}"#),
        (
            r#"{"$numberDecimal":"-Infinity"}"#,
            r#"{"$numberDouble":"-Infinity"}"#,
        ),
        ("-0.0", "0"),
        ("0.5", "0.5"),
        ("1e300", "1e+300"),
        ("1.5e-7", "1.5e-7"),
        (
            "9007199254740992.0",
            r#"{"$numberLong":"9007199254740992"}"#,
        ),
        ("9007199254740992", r#"{"$numberLong":"9007199254740992"}"#),
        ("1e19", "10000000000000000000"),
        (
            r#"{"$date":"1970-01-01T00:00:00.005Z"}"#,
            r#"{"$date":{"$numberLong":"5"}}"#,
        ),
        (
            r#"{"$regularExpression":{"pattern":"a","options":"xi"}}"#,
            r#"{"$regularExpression":{"pattern":"a","options":"ix"}}"#,
        ),
        (r#"[{"b":1.0,"a":"é"}]"#, r#"[{"b":1,"a":"é"}]"#),
    ] {
        let value = parse_value(text.as_bytes()).unwrap();
        let written = canonical::text(value.as_raw_bson_ref());
        assert_eq!(written, canonical_text, "{text}");
        let again = parse_value(written.as_bytes()).unwrap();
        assert!(
            equal(value.as_raw_bson_ref(), again.as_raw_bson_ref()),
            "{text}"
        );
    }
}

#[test]
fn both_forms_agree_with_the_bson_crate() {
    for text in [
        r#"{"a":{"$date":"2012-12-24T12:15:30.501Z"},"n":{"$numberDecimal":"-1.50E-7"}}"#,
        r#"{"r":{"$regularExpression":{"pattern":"a","options":"xi"}},"u":{"$uuid":"c8edabc3-f738-4ca3-b68d-ab92a91478a3"}}"#,
    ] {
        let theirs: Bson = serde_json::from_str(text).unwrap();
        let ours: Bson = parse_value(text.as_bytes()).unwrap().try_into().unwrap();
        assert_eq!(ours, theirs);
    }
}

/// Any value, of every type.
fn values() -> impl Strategy<Value = Bson> {
    let text = || any::<String>().prop_map(|s| s.chars().take(12).collect::<String>());
    let name = move || text().prop_map(|s| s.replace('\0', ""));
    let id = || any::<[u8; 12]>().prop_map(bson::oid::ObjectId::from_bytes);
    let scalar = prop_oneof![
        any::<f64>().prop_map(Bson::Double),
        any::<i32>().prop_map(|n| Bson::Double(n.into())),
        text().prop_map(Bson::String),
        any::<bool>().prop_map(Bson::Boolean),
        Just(Bson::Null),
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<i64>().prop_map(|ms| Bson::DateTime(bson::DateTime::from_millis(ms))),
        (0..253_402_300_800_000i64).prop_map(|ms| Bson::DateTime(bson::DateTime::from_millis(ms))),
        id().prop_map(Bson::ObjectId),
        (any::<u32>(), any::<u32>())
            .prop_map(|(time, increment)| Bson::Timestamp(bson::Timestamp { time, increment })),
        (any::<u8>(), any::<Vec<u8>>()).prop_map(|(subtype, bytes)| Bson::Binary(bson::Binary {
            subtype: subtype.into(),
            bytes,
        })),
        (name(), "[imsx]{0,3}").prop_map(|(pattern, options)| {
            let mut options: Vec<char> = options.chars().collect();
            options.sort_unstable();
            Bson::RegularExpression(bson::Regex {
                pattern: pattern.try_into().expect("no NUL"),
                options: String::from_iter(options).try_into().expect("no NUL"),
            })
        }),
        text().prop_map(Bson::Symbol),
        text().prop_map(Bson::JavaScriptCode),
        (any::<i128>(), -6000..6000).prop_map(|(n, exponent)| {
            let text = format!("{}E{exponent}", n % 10i128.pow(34));
            Bson::Decimal128(text.parse().expect("34 digits"))
        }),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        Just(Bson::Undefined),
    ];
    scalar.prop_recursive(4, 40, 6, move |inner| {
        let fields = prop::collection::vec((name(), inner.clone()), 0..6).prop_map(|fields| {
            // A first name with a `$` may be a type wrapper's.
            let plain = fields
                .into_iter()
                .map(|(name, value)| (name.replace('$', "_"), value));
            plain.collect::<bson::Document>()
        });
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Bson::Array),
            fields.clone().prop_map(Bson::Document),
            fields.prop_map(|scope| {
                Bson::JavaScriptCodeWithScope(bson::JavaScriptCodeWithScope {
                    code: "f".to_owned(),
                    scope,
                })
            }),
        ]
    })
}

fn raw(value: &Bson) -> RawDocumentBuf {
    let document = bson::doc! {"v": value.clone()};
    RawDocumentBuf::try_from(&document).expect("BSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn canonical_form_reads_back_byte_for_byte(value in values()) {
        let document = raw(&value);
        let text = written(RawBsonRef::Document(&document), Mode::Canonical);
        let again = parse_document(text.as_bytes()).expect("our own text");
        prop_assert_eq!(again.as_bytes(), document.as_bytes(), "{}", text);
    }

    #[test]
    fn relaxed_form_and_canonical_text_read_back_as_equal_values(value in values()) {
        let document = raw(&value);
        for text in [relaxed(RawBsonRef::Document(&document)), canonical::text(RawBsonRef::Document(&document))] {
            let again = parse_document(text.as_bytes()).expect("our own text");
            prop_assert!(equal(RawBsonRef::Document(&document), RawBsonRef::Document(&again)), "{}", text);
            prop_assert_eq!(canonical::text(RawBsonRef::Document(&again)), canonical::text(RawBsonRef::Document(&document)));
        }
    }

    #[test]
    fn the_bson_crate_reads_what_is_written(value in values()) {
        let document = raw(&value);
        for mode in [Mode::Relaxed, Mode::Canonical] {
            let text = written(RawBsonRef::Document(&document), mode);
            let theirs: bson::Document = serde_json::from_str(&text).expect(&text);
            let theirs = RawDocumentBuf::try_from(&theirs).expect("BSON");
            prop_assert!(equal(RawBsonRef::Document(&document), RawBsonRef::Document(&theirs)), "{}", text);
        }
    }

    #[test]
    fn what_the_bson_crate_writes_is_read(value in values()) {
        let document = raw(&value);
        // It gives serde plain bytes for a generic binary, which JSON has not.
        prop_assume!(!format!("{value:?}").contains("Generic"));
        let text = serde_json::to_string(&bson::doc! {"v": value}).expect("JSON");
        let ours = parse_document(text.as_bytes()).expect(&text);
        prop_assert!(equal(RawBsonRef::Document(&document), RawBsonRef::Document(&ours)), "{}", text);
    }

    #[test]
    fn nothing_that_is_not_json_is_read(value in values(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = relaxed(RawBsonRef::Document(&raw(&value))).into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if parse_value(&text).is_ok() {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes in any::<Vec<u8>>()) {
        let _ = parse_value(&bytes);
    }
}
