//! Pipelines: what is refused and where, canonical texts and keys, the order a plan says, what an answer depends on.

#![allow(clippy::unwrap_used)] // all of it is test code

use bson::{RawArrayBuf, RawBson};
use freshet_core::aggregate::{Pipeline, PipelineError, PipelineErrorKind as Kind, STAGES_MAX};
use freshet_core::name::Namespace;
use freshet_core::query::{AggregateQuery, FilterErrorKind, QueryErrorKind};
use freshet_core::value::ejson;

fn array(json: &str) -> RawArrayBuf {
    match ejson::parse_value(json.as_bytes()).unwrap() {
        RawBson::Array(array) => array,
        other => panic!("{other:?}"),
    }
}

fn parse(json: &str) -> Result<Pipeline, PipelineError> {
    Pipeline::parse(&array(json))
}

fn pipeline(json: &str) -> Pipeline {
    parse(json).unwrap_or_else(|error| panic!("{json}: {error} at {}", error.pointer))
}

const FORBIDDEN: Kind = Kind::Filter(FilterErrorKind::Forbidden);

/// Pipelines that are refused, why and where.
const REFUSED: [(&str, Kind, &str); 72] = [
    (r#"[5]"#, Kind::Malformed, "/0"),
    (r#"[{}]"#, Kind::Malformed, "/0"),
    (r#"[{"$match":{},"$limit":1}]"#, Kind::Malformed, "/0"),
    (r#"[{"$out":"x"}]"#, Kind::Stage, "/0/$out"),
    (r#"[{"$merge":{"into":"x"}}]"#, Kind::Stage, "/0/$merge"),
    (r#"[{"$sample":{"size":1}}]"#, Kind::Stage, "/0/$sample"),
    (
        r#"[{"$match":{}},{"$unionWith":"x"}]"#,
        Kind::Stage,
        "/1/$unionWith",
    ),
    (r#"[{"$match":5}]"#, Kind::Operand, "/0/$match"),
    (
        r#"[{"$match":{"$where":"1"}}]"#,
        FORBIDDEN,
        "/0/$match/$where",
    ),
    (
        r#"[{"$match":{"a":{"$nope":1}}}]"#,
        Kind::Filter(FilterErrorKind::UnknownOperator),
        "/0/$match/a/$nope",
    ),
    (
        r#"[{"$project":{"a":{"$function":{"body":"","args":[],"lang":"js"}}}}]"#,
        FORBIDDEN,
        "/0/$project/a/$function",
    ),
    (
        r#"[{"$group":{"_id":1,"a":{"$accumulator":{}}}}]"#,
        FORBIDDEN,
        "/0/$group/a/$accumulator",
    ),
    (
        r#"[{"$match":{"$expr":{"$function":{}}}}]"#,
        FORBIDDEN,
        "/0/$match/$expr/$function",
    ),
    (
        r#"[{"$project":{"a":{"$rand":{}}}}]"#,
        Kind::Expression,
        "/0/$project/a/$rand",
    ),
    (
        r#"[{"$project":{"a":"$$NOW"}}]"#,
        Kind::Expression,
        "/0/$project/a",
    ),
    (
        r#"[{"$project":{"a":"$$ROOT..b"}}]"#,
        Kind::Path,
        "/0/$project/a",
    ),
    (r#"[{"$project":{"a":"$"}}]"#, Kind::Path, "/0/$project/a"),
    (r#"[{"$project":{"a":"$b."}}]"#, Kind::Path, "/0/$project/a"),
    (r#"[{"$project":{}}]"#, Kind::Operand, "/0/$project"),
    (r#"[{"$project":{"a":{}}}]"#, Kind::Operand, "/0/$project/a"),
    (
        r#"[{"$project":{"a":1,"b":0}}]"#,
        Kind::Operand,
        "/0/$project/b",
    ),
    (
        r#"[{"$project":{"a":0,"b":"$c"}}]"#,
        Kind::Operand,
        "/0/$project/b",
    ),
    (
        r#"[{"$project":{"a":1,"a.b":1}}]"#,
        Kind::Path,
        "/0/$project/a.b",
    ),
    (
        r#"[{"$project":{"a.b":1,"a":1}}]"#,
        Kind::Path,
        "/0/$project/a",
    ),
    (
        r#"[{"$project":{"a":{"b":1},"a.b":1}}]"#,
        Kind::Path,
        "/0/$project/a.b",
    ),
    (
        r#"[{"$project":{"_id.x":1}}]"#,
        Kind::Path,
        "/0/$project/_id.x",
    ),
    (r#"[{"$project":{"$a":1}}]"#, Kind::Path, "/0/$project/$a"),
    (
        r#"[{"$project":{"a":{"$add":[1],"b":2}}}]"#,
        Kind::Operand,
        "/0/$project/a",
    ),
    (
        r#"[{"$project":{"__freshet":1}}]"#,
        Kind::Path,
        "/0/$project/__freshet",
    ),
    (r#"[{"$set":{}}]"#, Kind::Operand, "/0/$set"),
    (r#"[{"$set":{"a..b":1}}]"#, Kind::Path, "/0/$set/a..b"),
    (r#"[{"$unset":[]}]"#, Kind::Operand, "/0/$unset"),
    (r#"[{"$unset":["a",5]}]"#, Kind::Operand, "/0/$unset/1"),
    (r#"[{"$unset":"_id.a"}]"#, Kind::Path, "/0/$unset"),
    (r#"[{"$unwind":"a"}]"#, Kind::Path, "/0/$unwind"),
    (r#"[{"$unwind":5}]"#, Kind::Operand, "/0/$unwind"),
    (
        r#"[{"$unwind":{"path":"$a","x":1}}]"#,
        Kind::Operand,
        "/0/$unwind/x",
    ),
    (r#"[{"$unwind":"$_id"}]"#, Kind::Path, "/0/$unwind"),
    (
        r#"[{"$unwind":{"path":"$a","includeArrayIndex":"a.b"}}]"#,
        Kind::Path,
        "/0/$unwind",
    ),
    (
        r#"[{"$group":{"n":{"$sum":1}}}]"#,
        Kind::Operand,
        "/0/$group",
    ),
    (
        r#"[{"$group":{"_id":1,"n":5}}]"#,
        Kind::Operand,
        "/0/$group/n",
    ),
    (
        r#"[{"$group":{"_id":1,"n":{"$sum":["$a"]}}}]"#,
        Kind::Operand,
        "/0/$group/n/$sum",
    ),
    (
        r#"[{"$group":{"_id":1,"n":{"$mergeObjects":"$a"}}}]"#,
        Kind::Accumulator,
        "/0/$group/n/$mergeObjects",
    ),
    (
        r#"[{"$group":{"_id":1,"a.b":{"$sum":1}}}]"#,
        Kind::Path,
        "/0/$group/a.b",
    ),
    (
        r#"[{"$group":{"_id":1,"n":{"$count":1}}}]"#,
        Kind::Operand,
        "/0/$group/n/$count",
    ),
    (
        r#"[{"$group":{"_id":{"a":"$$CLUSTER_TIME"}}}]"#,
        Kind::Expression,
        "/0/$group/_id/a",
    ),
    (r#"[{"$sort":{}}]"#, Kind::Operand, "/0/$sort"),
    (r#"[{"$sort":{"a":2}}]"#, Kind::Operand, "/0/$sort/a"),
    (
        r#"[{"$sort":{"a":{"$meta":"textScore"}}}]"#,
        Kind::Operand,
        "/0/$sort/a",
    ),
    (r#"[{"$skip":-1}]"#, Kind::Operand, "/0/$skip"),
    (r#"[{"$limit":0}]"#, Kind::Operand, "/0/$limit"),
    (r#"[{"$limit":1.5}]"#, Kind::Operand, "/0/$limit"),
    (r#"[{"$count":""}]"#, Kind::Path, "/0/$count"),
    (r#"[{"$count":"a.b"}]"#, Kind::Path, "/0/$count"),
    (r#"[{"$count":"$a"}]"#, Kind::Path, "/0/$count"),
    (r#"[{"$sortByCount":5}]"#, Kind::Operand, "/0/$sortByCount"),
    (
        r#"[{"$sortByCount":{"a":"$b"}}]"#,
        Kind::Operand,
        "/0/$sortByCount",
    ),
    (r#"[{"$facet":{}}]"#, Kind::Operand, "/0/$facet"),
    (r#"[{"$facet":{"a":5}}]"#, Kind::Operand, "/0/$facet/a"),
    (
        r#"[{"$facet":{"a":[{"$facet":{"b":[]}}]}}]"#,
        Kind::Stage,
        "/0/$facet/a/0/$facet",
    ),
    (
        r#"[{"$facet":{"a":[{"$out":"x"}]}}]"#,
        Kind::Stage,
        "/0/$facet/a/0/$out",
    ),
    (
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b"}}]"#,
        Kind::Operand,
        "/0/$lookup",
    ),
    (
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"d","pipeline":[]}}]"#,
        Kind::Operand,
        "/0/$lookup/pipeline",
    ),
    (
        r#"[{"$lookup":{"from":{"db":"x","coll":"c"},"localField":"a","foreignField":"b","as":"d"}}]"#,
        Kind::Operand,
        "/0/$lookup/from",
    ),
    (
        r#"[{"$lookup":{"from":"system.users","localField":"a","foreignField":"b","as":"d"}}]"#,
        Kind::Path,
        "/0/$lookup/from",
    ),
    (
        r#"[{"$lookup":{"from":"_own","localField":"a","foreignField":"b","as":"d"}}]"#,
        Kind::Path,
        "/0/$lookup/from",
    ),
    (
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"_id"}}]"#,
        Kind::Path,
        "/0/$lookup/as",
    ),
    (
        r#"[{"$project":{"a":{"$cond":["$a",1]}}}]"#,
        Kind::Operand,
        "/0/$project/a/$cond",
    ),
    (
        r#"[{"$project":{"a":{"$cond":{"if":1,"then":2}}}}]"#,
        Kind::Operand,
        "/0/$project/a/$cond",
    ),
    (
        r#"[{"$project":{"a":{"$switch":{"branches":[{"case":1}]}}}}]"#,
        Kind::Operand,
        "/0/$project/a/$switch/branches/0",
    ),
    (
        r#"[{"$project":{"a":{"$add":["$$x"]}}}]"#,
        Kind::Expression,
        "/0/$project/a/$add/0",
    ),
    (
        r#"[{"$geoNear":{"near":[0,0]}}]"#,
        Kind::Stage,
        "/0/$geoNear",
    ),
];

#[test]
fn what_is_refused_says_why_and_where() {
    for (json, kind, pointer) in REFUSED {
        let error = parse(json).map(|read| read.canonical_text());
        let error = error.expect_err(json);
        assert_eq!(
            (error.kind, &*error.pointer),
            (kind, pointer),
            "{json}: {error}"
        );
        assert!(error.detail.len() < 300, "{json}");
    }
}

#[test]
fn there_are_limits() {
    let stages = |n: usize| format!("[{}]", vec![r#"{"$limit":1}"#; n].join(","));
    pipeline(&stages(STAGES_MAX));
    let error = parse(&stages(STAGES_MAX + 1)).unwrap_err();
    assert_eq!((error.kind, &*error.pointer), (Kind::TooMany, "/50"));

    let facet = |n: usize| {
        let branches: Vec<String> = (0..n)
            .map(|n| format!(r#""b{n}":[{{"$limit":1}}]"#))
            .collect();
        format!(r#"[{{"$facet":{{{}}}}}]"#, branches.join(","))
    };
    pipeline(&facet(10));
    assert_eq!(parse(&facet(11)).unwrap_err().kind, Kind::TooMany);

    let mut deep = r#""$a""#.to_owned();
    for _ in 0..40 {
        deep = format!(r#"{{"$abs":{deep}}}"#);
    }
    let error = parse(&format!(r#"[{{"$project":{{"x":{deep}}}}}]"#)).unwrap_err();
    assert_eq!(error.kind, Kind::Filter(FilterErrorKind::TooDeep));

    let many = vec![r#"{"$abs":"$a"}"#; 600].join(",");
    let error = parse(&format!(r#"[{{"$project":{{"x":{{"$add":[{many}]}}}}}}]"#)).unwrap_err();
    assert_eq!(error.kind, Kind::Filter(FilterErrorKind::TooManyNodes));
}

/// Spellings and their canonical text; read again, the text is its own.
const TEXTS: [(&str, &str); 26] = [
    ("[]", "[]"),
    (
        r#"[{"$match":{"b":{"$eq":1.0},"a":{"$numberLong":"5"}}}]"#,
        r#"[{"$match":{"a":5,"b":1}}]"#,
    ),
    (r#"[{"$addFields":{"a":1}}]"#, r#"[{"$set":{"a":1}}]"#),
    (
        r#"[{"$set":{"a":1.0}}]"#,
        r#"[{"$set":{"a":{"$numberDouble":"1.0"}}}]"#,
    ),
    (r#"[{"$set":{"a":1.5}}]"#, r#"[{"$set":{"a":1.5}}]"#),
    (
        r#"[{"$set":{"a":{"$numberLong":"1"}}}]"#,
        r#"[{"$set":{"a":{"$numberLong":"1"}}}]"#,
    ),
    (
        r#"[{"$set":{"a.b":"$c","a.d":1}}]"#,
        r#"[{"$set":{"a":{"b":"$c","d":1}}}]"#,
    ),
    (r#"[{"$set":{"b":1,"a":1}}]"#, r#"[{"$set":{"b":1,"a":1}}]"#),
    (
        r#"[{"$set":{"a":{"$literal":"$x"}}}]"#,
        r#"[{"$set":{"a":{"$literal":"$x"}}}]"#,
    ),
    (
        r#"[{"$set":{"a":{"$literal":"x"}}}]"#,
        r#"[{"$set":{"a":"x"}}]"#,
    ),
    (
        r#"[{"$set":{"a":{"$literal":[1]}}}]"#,
        r#"[{"$set":{"a":{"$literal":[1]}}}]"#,
    ),
    (
        r#"[{"$project":{"a":true,"b":{"$literal":1}}}]"#,
        r#"[{"$project":{"_id":1,"a":1,"b":{"$literal":1}}}]"#,
    ),
    (
        r#"[{"$project":{"a":2.0,"_id":false}}]"#,
        r#"[{"$project":{"_id":0,"a":1}}]"#,
    ),
    (
        r#"[{"$project":{"a.b":0}}]"#,
        r#"[{"$project":{"a":{"b":0}}}]"#,
    ),
    (
        r#"[{"$project":{"a":0,"_id":0}}]"#,
        r#"[{"$project":{"_id":0,"a":0}}]"#,
    ),
    (
        r#"[{"$unset":["a","b.c"]}]"#,
        r#"[{"$project":{"a":0,"b":{"c":0}}}]"#,
    ),
    (
        r#"[{"$project":{"x":"$$ROOT.a"}}]"#,
        r#"[{"$project":{"_id":1,"x":"$a"}}]"#,
    ),
    (
        r#"[{"$project":{"x":"$$CURRENT"}}]"#,
        r#"[{"$project":{"_id":1,"x":"$$ROOT"}}]"#,
    ),
    (
        r#"[{"$project":{"x":{"$cond":{"else":2,"if":"$a","then":1}},"y":{"$abs":"$a"}}}]"#,
        r#"[{"$project":{"_id":1,"x":{"$cond":["$a",1,2]},"y":{"$abs":["$a"]}}}]"#,
    ),
    (
        r#"[{"$unwind":{"path":"$a","preserveNullAndEmptyArrays":false}}]"#,
        r#"[{"$unwind":"$a"}]"#,
    ),
    (
        r#"[{"$group":{"n":{"$count":{}},"_id":"$a"}}]"#,
        r#"[{"$group":{"_id":"$a","n":{"$sum":1}}}]"#,
    ),
    (
        r#"[{"$sortByCount":"$a"}]"#,
        r#"[{"$group":{"_id":"$a","count":{"$sum":1}}},{"$sort":{"count":-1}}]"#,
    ),
    (
        r#"[{"$sort":{"b":-1.0,"a":1}}]"#,
        r#"[{"$sort":{"b":-1,"a":1}}]"#,
    ),
    (
        r#"[{"$limit":5.0},{"$skip":{"$numberLong":"3"}}]"#,
        r#"[{"$limit":5},{"$skip":3}]"#,
    ),
    (
        r#"[{"$facet":{"b":[{"$match":{"x":1.0}}],"a":[]}}]"#,
        r#"[{"$facet":{"b":[{"$match":{"x":1}}],"a":[]}}]"#,
    ),
    (
        r#"[{"$lookup":{"as":"d","from":"c","foreignField":"b","localField":"a"}}]"#,
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"d"}}]"#,
    ),
];

#[test]
fn spellings_have_one_text() {
    for (json, text) in TEXTS {
        let read = pipeline(json);
        assert_eq!(read.canonical_text(), text, "{json}");
        assert_eq!(pipeline(text).canonical_text(), text, "{json}");
    }
}

fn query(parameters: &[(&str, &str)]) -> Result<AggregateQuery, freshet_core::query::QueryError> {
    let owned: Vec<(String, String)> = parameters
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect();
    AggregateQuery::parse(&Namespace::new("db", "c").unwrap(), &owned)
}

#[test]
fn a_request_has_a_key() {
    let read = query(&[("rep", "canonical"), ("pipeline", r#"[{"$count":"n"}]"#)]).unwrap();
    assert_eq!(
        read.key().as_str(),
        "/v1/db/c/_aggregate?pipeline=%5B%7B%22$count%22:%22n%22%7D%5D&rep=canonical"
    );
    let read = query(&[("rep", "relaxed"), ("pipeline", "[ ]")]).unwrap();
    assert_eq!(read.key().as_str(), "/v1/db/c/_aggregate?pipeline=%5B%5D");

    let refused = |parameters: &[(&str, &str)]| query(parameters).unwrap_err();
    assert_eq!(refused(&[]).kind, QueryErrorKind::MissingParameter);
    assert_eq!(refused(&[("pipeline", "{}")]).kind, QueryErrorKind::Json);
    assert_eq!(refused(&[("pipeline", "[")]).kind, QueryErrorKind::Json);
    let limited = [("pipeline", "[]"), ("limit", "5")];
    assert_eq!(refused(&limited).kind, QueryErrorKind::UnknownParameter);
    let stage = refused(&[("pipeline", r#"[{"$out":"x"}]"#)]);
    assert_eq!(stage.kind, QueryErrorKind::Pipeline(Kind::Stage));
    assert_eq!(stage.pointer, "/0/$out");
}

/// What a plan runs: the stages it adds are those that say the order.
const PLANS: [(&str, &str); 17] = [
    ("[]", r#"[{"$sort":{"_id":1}},{"$limit":1001}]"#),
    (
        r#"[{"$match":{"a":1}},{"$project":{"b":1}}]"#,
        r#"[{"$match":{"a":1}},{"$sort":{"_id":1}},{"$project":{"_id":1,"b":1}},{"$limit":1001}]"#,
    ),
    (
        r#"[{"$match":{"a":1}},{"$limit":5}]"#,
        r#"[{"$match":{"a":1}},{"$sort":{"_id":1}},{"$limit":5}]"#,
    ),
    (
        r#"[{"$limit":1001}]"#,
        r#"[{"$sort":{"_id":1}},{"$limit":1001},{"$limit":1001}]"#,
    ),
    (r#"[{"$count":"n"}]"#, r#"[{"$count":"n"}]"#),
    (
        r#"[{"$sort":{"a":1}},{"$limit":5}]"#,
        r#"[{"$sort":{"a":1,"_id":1}},{"$limit":5}]"#,
    ),
    (
        r#"[{"$sort":{"_id":-1,"a":1}},{"$limit":5}]"#,
        r#"[{"$sort":{"_id":-1,"a":1}},{"$limit":5}]"#,
    ),
    (
        r#"[{"$group":{"_id":null,"n":{"$sum":"$a"}}}]"#,
        r#"[{"$group":{"_id":null,"n":{"$sum":"$a"}}},{"$limit":1001}]"#,
    ),
    (
        r#"[{"$group":{"_id":{"$year":"$d"},"n":{"$sum":1}}}]"#,
        r#"[{"$group":{"_id":{"$year":["$d"]},"n":{"$sum":1}}},{"$sort":{"_id":1}},{"$limit":1001}]"#,
    ),
    (
        r#"[{"$group":{"_id":"$a","n":{"$sum":1}}}]"#,
        r#"[{"$group":{"_id":"$a","n":{"$sum":1}}},{"$set":{"__freshet":{"whole":"$_id"}}},{"$sort":{"__freshet":1}},{"$unset":"__freshet"},{"$limit":1001}]"#,
    ),
    (
        r#"[{"$group":{"_id":{"a":"$a"}}},{"$count":"n"}]"#,
        r#"[{"$group":{"_id":{"a":"$a"}}},{"$count":"n"}]"#,
    ),
    (
        r#"[{"$sortByCount":"$a"},{"$limit":3}]"#,
        r#"[{"$group":{"_id":"$a","count":{"$sum":1}}},{"$set":{"__freshet":{"whole":"$_id"}}},{"$sort":{"count":-1,"__freshet":1}},{"$unset":"__freshet"},{"$limit":3}]"#,
    ),
    (
        r#"[{"$group":{"_id":null,"all":{"$push":"$a"},"set":{"$addToSet":"$a"}}}]"#,
        r#"[{"$sort":{"_id":1}},{"$group":{"_id":null,"all":{"$push":"$a"},"set":{"$addToSet":"$a"}}},{"$set":{"set":{"$sortArray":{"input":"$set","sortBy":1}}}},{"$limit":1001}]"#,
    ),
    (
        r#"[{"$unwind":"$t"},{"$group":{"_id":null,"n":{"$sum":1}}},{"$limit":1}]"#,
        r#"[{"$unwind":"$t"},{"$group":{"_id":null,"n":{"$sum":1}}},{"$limit":1}]"#,
    ),
    (
        r#"[{"$facet":{"n":[{"$count":"n"}],"g":[{"$group":{"_id":{"x":"$a"}}}]}}]"#,
        r#"[{"$facet":{"n":[{"$count":"n"}],"g":[{"$group":{"_id":{"x":"$a"}}},{"$sort":{"_id":1}}]}}]"#,
    ),
    (
        r#"[{"$match":{"a":1}},{"$facet":{"n":[{"$count":"n"}],"f":[{"$limit":2}]}}]"#,
        r#"[{"$match":{"a":1}},{"$sort":{"_id":1}},{"$facet":{"n":[{"$count":"n"}],"f":[{"$limit":2}]}}]"#,
    ),
    (
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"d"}},{"$limit":1}]"#,
        r#"[{"$sort":{"_id":1}},{"$lookup":{"from":"c","localField":"a","foreignField":"b","as":"d","pipeline":[{"$sort":{"_id":1}}]}},{"$limit":1}]"#,
    ),
];

#[test]
fn a_plan_says_the_order_wherever_it_shows() {
    for (json, planned) in PLANS {
        let documents = pipeline(json).plan().documents();
        let mut text = Vec::new();
        let array: RawArrayBuf = documents.into_iter().collect();
        ejson::write_value(
            bson::RawBsonRef::Array(&array),
            ejson::Mode::Relaxed,
            &mut text,
        );
        assert_eq!(String::from_utf8(text).unwrap(), planned, "{json}");
    }
}

#[test]
fn an_order_that_nothing_defines_is_told() {
    for (json, matters) in [
        (r#"[{"$sort":{"a":1}},{"$limit":1}]"#, false),
        (r#"[{"$unwind":"$t"}]"#, false),
        (r#"[{"$unwind":"$t"},{"$limit":3}]"#, false),
        (r#"[{"$unwind":"$t"},{"$sort":{"t":1}},{"$limit":3}]"#, true),
        (r#"[{"$unwind":"$t"},{"$sort":{"t":1}}]"#, true),
        (
            r#"[{"$unwind":"$t"},{"$sort":{"t":1}},{"$count":"n"}]"#,
            false,
        ),
        (
            r#"[{"$unwind":"$t"},{"$sort":{"t":1}},{"$group":{"_id":"$t","n":{"$sum":1}}}]"#,
            false,
        ),
        (
            r#"[{"$unwind":"$t"},{"$sort":{"t":1}},{"$group":{"_id":"$t","n":{"$first":"$a"}}}]"#,
            true,
        ),
        (
            r#"[{"$unwind":"$t"},{"$group":{"_id":"$t","n":{"$sum":1}}},{"$sort":{"n":1}}]"#,
            false,
        ),
        (r#"[{"$project":{"_id":0,"a":1}},{"$sort":{"a":1}}]"#, true),
        (r#"[{"$project":{"a":1}},{"$sort":{"a":1}}]"#, false),
        (r#"[{"$project":{"_id":"$a"}},{"$sort":{"_id":1}}]"#, true),
        (r#"[{"$set":{"_id":1}},{"$sort":{"a":1}}]"#, true),
        (r#"[{"$unset":"_id"},{"$limit":1}]"#, false),
        (r#"[{"$limit":1},{"$unwind":"$t"},{"$sort":{"t":1}}]"#, true),
        (
            r#"[{"$limit":1},{"$unset":"_id"},{"$sort":{"t":1}}]"#,
            false,
        ),
        (
            r#"[{"$facet":{"x":[{"$unwind":"$t"},{"$sort":{"t":1}}]}}]"#,
            true,
        ),
    ] {
        assert_eq!(pipeline(json).order_matters(), matters, "{json}");
    }
}

/// What answers depend on besides their leading filter; `*` is the whole document.
const DEPENDENCIES: [(&str, &str); 37] = [
    ("[]", "*"),
    (r#"[{"$match":{"a":1}},{"$count":"n"}]"#, ""),
    (
        r#"[{"$match":{"a":1}},{"$group":{"_id":"$cat","n":{"$sum":1}}}]"#,
        "cat",
    ),
    (
        r#"[{"$group":{"_id":"$cat","n":{"$sum":"$price"}}}]"#,
        "cat,price",
    ),
    (r#"[{"$project":{"a":1}}]"#, "_id,a"),
    (r#"[{"$project":{"a":1,"_id":0}}]"#, "a"),
    (r#"[{"$project":{"a.b":1,"_id":0}}]"#, "a.b"),
    (
        r#"[{"$project":{"a.b":1,"_id":0}},{"$project":{"x":"$a.b.c"}}]"#,
        "a.b",
    ),
    (r#"[{"$project":{"a":0}}]"#, "*"),
    (
        r#"[{"$unset":"a"},{"$group":{"_id":null,"s":{"$sum":"$a"},"t":{"$sum":"$b"}}}]"#,
        "b",
    ),
    (
        r#"[{"$set":{"x":"$a.b"}},{"$group":{"_id":"$x"}}]"#,
        "a.b,x",
    ),
    (
        r#"[{"$set":{"x":{"$add":["$a","$b"]}}},{"$project":{"_id":0,"x":1}}]"#,
        "a,b,x",
    ),
    (
        r#"[{"$set":{"x.y":"$a"}},{"$project":{"_id":0,"x.y":1}}]"#,
        "a,x",
    ),
    (
        r#"[{"$set":{"x.y":"$a"}},{"$project":{"_id":0,"z":"$x.y"}}]"#,
        "a,x",
    ),
    (
        r#"[{"$set":{"a":"$b"}},{"$project":{"_id":0,"a":1}}]"#,
        "a,b",
    ),
    (
        r#"[{"$set":{"x":"$$ROOT"}},{"$project":{"_id":0,"x":1}}]"#,
        "*",
    ),
    (
        r#"[{"$sort":{"a":1}},{"$limit":5},{"$project":{"_id":0,"b":1}}]"#,
        "a,b",
    ),
    (
        r#"[{"$sort":{"a":1}},{"$match":{"c":1}},{"$project":{"_id":0,"b":1}}]"#,
        "a,b",
    ),
    (
        r#"[{"$limit":5},{"$match":{"c":1}},{"$project":{"_id":0,"b":1}}]"#,
        "b,c",
    ),
    (
        r#"[{"$limit":5},{"$match":{"c.0.d":1}},{"$count":"n"}]"#,
        "c",
    ),
    (r#"[{"$sort":{"c.0.d":1}},{"$project":{"_id":1}}]"#, "_id,c"),
    (
        r#"[{"$unwind":"$t"},{"$group":{"_id":"$t.u","n":{"$sum":1}}}]"#,
        "t",
    ),
    (r#"[{"$unwind":"$t"},{"$count":"n"}]"#, "t"),
    (
        r#"[{"$unwind":{"path":"$t","includeArrayIndex":"i"}},{"$group":{"_id":"$i"}}]"#,
        "i,t",
    ),
    (r#"[{"$sortByCount":"$a.b"}]"#, "a.b"),
    (
        r#"[{"$group":{"_id":null,"x":{"$push":{"p":"$a","q":"$b.c"}}}}]"#,
        "a,b.c",
    ),
    (
        r#"[{"$group":{"_id":"$a","b":{"$first":"$b"}}},{"$project":{"c":"$c"}}]"#,
        "a,b",
    ),
    (
        r#"[{"$facet":{"n":[{"$count":"n"}],"g":[{"$sortByCount":"$g"}],"t":[{"$sort":{"p":1}},{"$project":{"_id":1}}]}}]"#,
        "_id,g,p",
    ),
    (r#"[{"$facet":{"n":[{"$count":"n"}],"all":[]}}]"#, "*"),
    (
        r#"[{"$lookup":{"from":"c","localField":"a.b","foreignField":"x","as":"y"}},{"$project":{"_id":0,"y":1}}]"#,
        "a.b,y",
    ),
    (
        r#"[{"$lookup":{"from":"c","localField":"a","foreignField":"x","as":"y"}},{"$count":"n"}]"#,
        "a",
    ),
    // What may fail counts, whether it is shown or not.
    (
        r#"[{"$set":{"x":{"$toUpper":"$a"}}},{"$project":{"_id":0,"b":1}}]"#,
        "a,b",
    ),
    (r#"[{"$set":{"x":"$a"}},{"$project":{"_id":0,"b":1}}]"#, "b"),
    (
        r#"[{"$project":{"x.y":{"$size":"$a"}}},{"$count":"n"}]"#,
        "a",
    ),
    (
        r#"[{"$project":{"_id":0,"x":{"$cond":[{"$gt":["$a",1]},"$b","$c.d"]}}}]"#,
        "a,b,c.d",
    ),
    (
        r#"[{"$project":{"_id":0,"x":{"$switch":{"branches":[{"case":"$a","then":"$b"}],"default":"$c"}}}}]"#,
        "a,b,c",
    ),
    (r#"[{"$project":{"_id":0,"a":{"b":{"c":"$x"}}}}]"#, "a,x"),
];

#[test]
fn answers_depend_on_stored_paths() {
    for (json, expected) in DEPENDENCIES {
        let dependencies = pipeline(json).dependencies();
        let text = match dependencies.paths() {
            None => "*".to_owned(),
            Some(paths) => paths
                .iter()
                .map(|path| &**path)
                .collect::<Vec<_>>()
                .join(","),
        };
        assert_eq!(text, expected, "{json}");
        assert_eq!(dependencies.is_whole(), expected == "*");
    }
}

#[test]
fn a_change_outside_the_paths_changes_nothing() {
    let dependencies = pipeline(r#"[{"$project":{"_id":0,"a.b":1,"c":1}}]"#).dependencies();
    let document = |json: &str| ejson::parse_document(json.as_bytes()).unwrap();
    for (before, after, unchanged) in [
        (
            r#"{"a":{"b":1,"x":1},"c":1,"z":1}"#,
            r#"{"z":2,"a":{"x":2,"b":1},"c":1}"#,
            true,
        ),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":2}}"#, false),
        (r#"{"a":{"b":1}}"#, r#"{"a":{"b":1.0}}"#, false),
        (r#"{"a":[{"b":1}]}"#, r#"{"a":[{"b":1},{}]}"#, false),
        (r#"{"a":[{"b":1},5]}"#, r#"{"a":[{"b":1}]}"#, true),
        (r#"{"a":{"b":1},"c":1}"#, r#"{"c":1,"a":{"b":1}}"#, false),
        (r#"{"a":5}"#, r#"{"a":6}"#, true),
    ] {
        assert_eq!(
            dependencies.unchanged(&document(before), &document(after)),
            unchanged,
            "{before} {after}"
        );
    }
}

#[test]
fn the_leading_filter_is_what_sees_stored_documents() {
    for (json, filter) in [
        ("[]", Some("{}")),
        (
            r#"[{"$match":{"a":1}},{"$match":{"b":2}}]"#,
            Some(r#"{"a":1,"b":2}"#),
        ),
        (
            r#"[{"$match":{"a":1}},{"$sort":{"x":1}},{"$match":{"b":2}}]"#,
            Some(r#"{"a":1,"b":2}"#),
        ),
        (
            r#"[{"$match":{"a":1}},{"$limit":1},{"$match":{"b":2}}]"#,
            Some(r#"{"a":1}"#),
        ),
        (r#"[{"$set":{"a":1}},{"$match":{"a":1}}]"#, Some("{}")),
        (r#"[{"$unwind":"$a"},{"$match":{"a":1}}]"#, Some("{}")),
        (r#"[{"$match":{"a":1}},{"$match":{"$expr":true}}]"#, None),
    ] {
        let read = pipeline(json)
            .leading_filter()
            .map(|filter| filter.canonical_text());
        assert_eq!(read.as_deref(), filter, "{json}");
    }
}

#[test]
fn lookups_are_told_with_their_local_values() {
    let read = pipeline(
        r#"[{"$match":{"x":1}},{"$lookup":{"from":"b","localField":"k.l","foreignField":"_id","as":"j"}},
            {"$facet":{"f":[{"$limit":1},{"$lookup":{"from":"c","localField":"j.m","foreignField":"n","as":"o"}}]}}]"#,
    );
    let lookups = read.lookups();
    assert_eq!(lookups.len(), 2);
    assert_eq!(
        (&*lookups[0].from, lookups[0].at_stage, &lookups[0].in_facet),
        ("b", 1, &None)
    );
    assert_eq!((&*lookups[1].from, lookups[1].at_stage), ("c", 2));
    assert_eq!(lookups[1].in_facet, Some(("f".into(), 1)));
    let values = read.local_values_pipeline(&lookups[0]).unwrap();
    assert_eq!(
        values.canonical_text(),
        r#"[{"$match":{"x":1}},{"$project":{"_id":0,"value":"$k.l"}},{"$unwind":{"path":"$value","preserveNullAndEmptyArrays":true}},{"$group":{"_id":"$value"}},{"$limit":1001}]"#
    );
    assert_eq!(
        read.local_values_pipeline(&lookups[1]),
        None,
        "another comes first"
    );

    let answer = array(r#"[{"_id":2},{"_id":null},{"_id":[1,2.0]}]"#);
    let documents: Vec<_> = answer
        .into_iter()
        .map(|d| d.unwrap().as_document().unwrap().to_owned())
        .collect();
    let values = freshet_core::aggregate::local_values(documents.iter().map(|d| &**d)).unwrap();
    let text: Vec<String> = values
        .iter()
        .map(|value| freshet_core::value::canonical::text(value.as_raw_bson_ref()))
        .collect();
    assert_eq!(text, ["null", "1", "2", "[1,2]"]);
}

#[test]
fn single_groups_are_told() {
    for (json, single) in [
        (r#"[{"$group":{"_id":null,"n":{"$sum":1}}}]"#, true),
        (
            r#"[{"$match":{"a":1}},{"$group":{"_id":"all","m":{"$max":"$x"}}}]"#,
            true,
        ),
        (r#"[{"$group":{"_id":"$a","n":{"$sum":1}}}]"#, false),
        (r#"[{"$group":{"_id":null,"n":{"$push":"$a"}}}]"#, false),
        (
            r#"[{"$limit":1},{"$group":{"_id":null,"n":{"$sum":1}}}]"#,
            false,
        ),
        (
            r#"[{"$group":{"_id":null,"n":{"$sum":1}}},{"$unset":"_id"}]"#,
            false,
        ),
        (
            r#"[{"$match":{"$expr":true}},{"$group":{"_id":null,"n":{"$sum":1}}}]"#,
            false,
        ),
    ] {
        assert_eq!(pipeline(json).single_group().is_some(), single, "{json}");
    }
}
