//! Requests that are refused, and where they say it; paths a filter reads; documents too deep for a stack.

#![allow(clippy::unwrap_used)] // all of it is test code

use bson::{RawDocumentBuf, rawdoc};
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::{
    CountQuery, Filter, FilterErrorKind, Query, QueryErrorKind, RecordRequest,
};
use freshet_core::value::ejson::parse_document;
use freshet_core::value::id::RecordId;

fn parse(parameters: &[(&str, &str)]) -> Result<Query, freshet_core::query::QueryError> {
    let namespace = Namespace::new("db", "c").unwrap();
    let owned: Vec<(String, String)> = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    Query::parse(&namespace, &owned)
}

fn filter(json: &str) -> Filter {
    Filter::parse(&parse_document(json.as_bytes()).unwrap()).unwrap()
}

use QueryErrorKind as Kind;

/// Parameters that are refused.
const REFUSED: [(&str, &str, Kind); 50] = [
    ("limit", "0", Kind::Range),
    ("limit", "1001", Kind::Range),
    ("limit", "1.0", Kind::Integer),
    ("limit", "-1", Kind::Integer),
    ("limit", "+5", Kind::Integer),
    ("limit", "05", Kind::Integer),
    ("limit", "", Kind::Integer),
    ("limit", " 5", Kind::Integer),
    ("limit", "5e1", Kind::Integer),
    ("limit", "٥", Kind::Integer),
    ("limit", "99999999999999999999", Kind::Range),
    ("skip", "10001", Kind::Range),
    ("skip", "00", Kind::Integer),
    ("skip", "-0", Kind::Integer),
    ("view", "Objects", Kind::Word),
    ("view", "", Kind::Word),
    ("rep", "strict", Kind::Word),
    ("sort", "", Kind::Paths),
    ("sort", "a,,b", Kind::Paths),
    ("sort", "a,a", Kind::Paths),
    ("sort", "a,-a", Kind::Paths),
    ("sort", "-", Kind::Paths),
    ("sort", "a..b", Kind::Paths),
    ("sort", "$natural", Kind::Paths),
    ("sort", "a.$b", Kind::Paths),
    ("sort", "a\0", Kind::Paths),
    ("fields", "", Kind::Paths),
    ("fields", "a,-b", Kind::Paths),
    ("fields", "a,a", Kind::Paths),
    ("fields", "a,a.b", Kind::Paths),
    ("fields", "a.b,a", Kind::Paths),
    ("fields", "a.b.c,a.b", Kind::Paths),
    ("fields", "-_id,_id", Kind::Paths),
    ("fields", "_id.x", Kind::Paths),
    ("fields", "a.$", Kind::Paths),
    ("fields", ".a", Kind::Paths),
    ("after", "", Kind::Cursor),
    ("after", "x", Kind::Cursor),
    ("after", "i", Kind::Cursor),
    ("after", "o10", Kind::Cursor),
    ("after", "i~[1]", Kind::Cursor),
    ("filter", "", Kind::Json),
    ("filter", "[]", Kind::Json),
    ("filter", "5", Kind::Json),
    ("filter", "null", Kind::Json),
    ("filter", r#"{"a":1,"a":2}"#, Kind::Json),
    ("filter", r#"{"a":{"$date":"1444394707664"}}"#, Kind::Json),
    (
        "filter",
        r#"{"a":{"$gte":1,"$fooo":1}}"#,
        Kind::Filter(FilterErrorKind::UnknownOperator),
    ),
    ("Filter", "{}", Kind::UnknownParameter),
    ("qid", "00", Kind::UnknownParameter),
];

#[test]
fn parameters_are_read_strictly() {
    for (name, value, kind) in REFUSED {
        let error = parse(&[(name, value)]).expect_err(value);
        assert_eq!(
            (error.kind, &*error.parameter),
            (kind, name),
            "{name}={value}: {error}"
        );
    }
    let error = parse(&[("limit", "5"), ("limit", "5")]).unwrap_err();
    assert_eq!(error.kind, QueryErrorKind::RepeatedParameter);
    let error = parse(&[("sort", "a"), ("after", "ix")]).unwrap_err();
    assert_eq!(
        error.kind,
        QueryErrorKind::Cursor,
        "a cursor of another order"
    );
}

#[test]
fn a_filter_error_says_where() {
    let error = parse(&[(
        "filter",
        r#"{"x":1,"$or":[{"a":{"$in":[1,2,3,{"$gt":1}]}},{"b":1}]}"#,
    )])
    .unwrap_err();
    assert_eq!(error.pointer, "/$or/0/a/$in/3");
    assert_eq!(error.parameter, "filter");
}

#[test]
fn counts_and_records_take_their_own_parameters() {
    let namespace = Namespace::new("db", "c").unwrap();
    let limit = [("limit".to_owned(), "5".to_owned())];
    assert!(CountQuery::parse(&namespace, &limit).is_err());
    let id = RecordId::parse_segment("x").unwrap();
    assert!(RecordRequest::parse(&namespace, id, &limit).is_err());
}

#[test]
fn limits_hold() {
    let kind = |json: &str| {
        let document = parse_document(json.as_bytes()).unwrap();
        Filter::parse(&document)
            .map(|_| ())
            .map_err(|error| error.kind)
    };
    let list = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    assert_eq!(
        kind(&format!(r#"{{"a":{{"$in":{}}}}}"#, list(1_000))),
        Ok(())
    );
    assert_eq!(
        kind(&format!(r#"{{"a":{{"$in":{}}}}}"#, list(1_001))),
        Err(FilterErrorKind::TooManyMembers)
    );
    let nested = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert_eq!(kind(&nested(32)), Ok(()));
    assert_eq!(kind(&nested(33)), Err(FilterErrorKind::TooDeep));
    let and = |depth: usize| format!("{}{{}}{}", r#"{"$and":["#.repeat(depth), "]}".repeat(depth));
    assert_eq!(kind(&and(15)), Ok(()));
    assert_eq!(kind(&and(16)), Err(FilterErrorKind::TooDeep));
    let wide = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!(r#""f{n}":1"#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    assert_eq!(kind(&wide(1_000)), Ok(()));
    assert_eq!(kind(&wide(1_001)), Err(FilterErrorKind::TooManyNodes));
    let path = |count: usize| format!(r#"{{"{}":1}}"#, vec!["a"; count].join("."));
    assert_eq!(kind(&path(100)), Ok(()));
    assert_eq!(kind(&path(101)), Err(FilterErrorKind::Path));
    let positions = |count: usize| format!(r#"{{"a{}":1}}"#, ".0".repeat(count));
    assert_eq!(kind(&positions(12)), Ok(()));
    assert_eq!(kind(&positions(13)), Err(FilterErrorKind::Path));
}

#[test]
fn filters_for_the_database_say_so() {
    for (json, operator) in [
        (r#"{"$text":{"$search":"x"}}"#, "$text"),
        (
            r#"{"a":1,"$or":[{"$expr":{"$gt":["$a","$b"]}},{"b":1}]}"#,
            "$expr",
        ),
        (r#"{"p":{"$near":[0,0],"$maxDistance":5}}"#, "$near"),
        (
            r#"{"p":{"$not":{"$geoWithin":{"$centerSphere":[[0,0],1]}}}}"#,
            "$geoWithin",
        ),
        (
            r#"{"p":{"$elemMatch":{"q":{"$geoIntersects":{}}}}}"#,
            "$geoIntersects",
        ),
        (r#"{"$jsonSchema":{}}"#, "$jsonSchema"),
    ] {
        let filter = filter(json);
        assert_eq!(filter.database_only(), Some(operator), "{json}");
        assert!(Predicate::compile(&filter).is_err());
        assert_eq!(filter.paths(), None);
        assert_eq!(
            filter.to_document(),
            parse_document(json.as_bytes()).unwrap(),
            "kept as it was given"
        );
    }
    assert_eq!(filter(r#"{"a":1}"#).database_only(), None);
}

#[test]
fn a_filter_names_every_path_it_reads() {
    let filter = filter(
        r#"{"a":1,"$or":[{"b.c":{"$gt":1}},{"$nor":[{"d":null}]}],"e":{"$elemMatch":{"f":1,"g.h":{"$elemMatch":{"$gt":1}}}},
            "i":{"$not":{"$elemMatch":{"j":1}}},"k":{"$all":[{"$elemMatch":{"l":1}}]},"m":{"$elemMatch":{"$elemMatch":{"n":1}}}}"#,
    );
    let paths: Vec<String> = filter.paths().unwrap().into_iter().collect();
    let expected = [
        "a", "b.c", "d", "e", "e.f", "e.g.h", "i", "i.j", "k", "k.l", "m", "m.n",
    ];
    assert_eq!(paths, expected);
}

#[test]
fn a_document_deeper_than_any_stored_one_does_no_harm() {
    let mut deep = rawdoc! { "a": 1 };
    for level in 0..3_000 {
        deep = match level % 3 {
            0 => rawdoc! { "a": [deep] },
            _ => rawdoc! { "a": deep },
        };
    }
    let operand = deep.clone();
    for json in [
        r#"{"a.a.a.a.a.a":1}"#,
        r#"{"a":{"$elemMatch":{"a":{"$elemMatch":{"a":1}}}}}"#,
        r#"{"a":{"$gt":{"a":{"a":{"a":[{"a":1}]}}}}}"#,
        r#"{"a":{"$in":[null,{"a":{}},[[]]]}}"#,
    ] {
        let _ = Predicate::compile(&filter(json)).unwrap().matches(&deep);
    }
    assert!(Filter::parse(&operand).is_err());
    let projection = freshet_core::query::Projection::parse("a.a.a.a.b").unwrap();
    assert!(projection.apply(&deep).is_ok());
}

#[test]
fn bytes_that_are_no_document_do_no_harm() {
    let whole = rawdoc! { "_id": 1, "a": [{ "b": "text" }, 5], "c": { "d": [null] } };
    let predicates: Vec<Predicate> = [
        r#"{"a.b":"text"}"#,
        r#"{"a":{"$elemMatch":{"b":{"$regex":"e"}}}}"#,
        r#"{"c.d":{"$size":1}}"#,
        r#"{"c":{"$lt":{"d":[1]}}}"#,
    ]
    .iter()
    .map(|json| Predicate::compile(&filter(json)).unwrap())
    .collect();
    for index in 4..whole.as_bytes().len() - 1 {
        for byte in [0, 1, 2, 3, 4, 0x7f, 0xff] {
            let mut bytes = whole.as_bytes().to_vec();
            bytes[index] = byte;
            let Ok(broken) = RawDocumentBuf::from_bytes(bytes) else {
                continue;
            };
            for predicate in &predicates {
                let _ = predicate.matches(&broken);
            }
            let _ = Filter::parse(&broken);
        }
    }
}
