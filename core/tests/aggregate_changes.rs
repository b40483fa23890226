//! Counts and single groups that are kept up to date, against a real server after every change; and whether a change
//! outside what an answer depends on ever changes it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // all of it is test code

mod nasty;
mod server;

use std::collections::BTreeMap;

use bson::{RawBson, RawDocument, RawDocumentBuf};
use freshet_core::aggregate::evaluate::{Collections, Failure, run};
use freshet_core::aggregate::{Incremental, Pipeline, Step, local_values};
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use freshet_core::value::ejson;
use nasty::values::decimal;
use nasty::{Nasty, document, fresh_seed};
use server::Server;

fn pipeline(json: &str) -> Pipeline {
    let RawBson::Array(array) = ejson::parse_value(json.as_bytes()).unwrap() else {
        panic!("{json}");
    };
    Pipeline::parse(&array).unwrap()
}

const GROUPS: [&str; 5] = [
    r#"[{"$group":{"_id":null,"n":{"$count":{}},"s":{"$sum":"$x"},"a":{"$avg":"$x"}}}]"#,
    r#"[{"$match":{"k":{"$gt":1}}},{"$group":{"_id":"all","s":{"$sum":"$x"},"lo":{"$min":"$x"},"hi":{"$max":"$x"}}}]"#,
    r#"[{"$group":{"_id":null,"s":{"$sum":{"$multiply":["$k",2]}},"a":{"$avg":"$k"},"hi":{"$max":"$k"}}}]"#,
    r#"[{"$match":{"k":{"$lt":2}}},{"$group":{"_id":1,"lo":{"$min":"$d.y"},"s":{"$sum":"$d.y"}}}]"#,
    r#"[{"$match":{"x":{"$type":["int","long"]}}},{"$group":{"_id":null,"s":{"$sum":"$x"},"a":{"$avg":"$x"}}}]"#,
];

/// A document; numbers of every type, mostly small integers.
fn record(nasty: &mut Nasty, id: i32) -> RawDocumentBuf {
    let number = |nasty: &mut Nasty| match nasty.below(20) {
        0..8 => RawBson::Int32(nasty.one(&[0, 1, 2, 3, -4, i32::MAX, i32::MIN])),
        8..14 => {
            RawBson::Int64(nasty.one(&[0, 1, -7, 5, 3_000_000_000, -1, 12, i64::MAX, i64::MIN]))
        }
        14 => RawBson::Double(nasty.one(&[0.02, 0.2, 1.0, f64::NAN])),
        15 => decimal("1.10"),
        16 => RawBson::Null,
        17 => RawBson::String("x".into()),
        _ => nasty.operand(),
    };
    let mut fields = vec![
        ("_id", RawBson::Int32(id)),
        ("k", RawBson::Int32(i32::try_from(nasty.below(4)).unwrap())),
    ];
    if nasty.percent(85) {
        fields.push(("x", number(nasty)));
    }
    let inner = document([("y", number(nasty))]);
    fields.push(("d", inner.into()));
    document(fields)
}

/// What `json` answers there.
async fn asked(server: &Server, pipeline: &Pipeline) -> Option<RawDocumentBuf> {
    let answer = server.aggregate("c", &pipeline.plan().documents()).await;
    answer.unwrap().pop()
}

#[tokio::test]
async fn what_is_kept_is_what_the_server_answers() {
    let server = Server::start().await;
    let (mut kept, mut renewed, mut changed) = (0, 0, 0);
    for seed in [1, fresh_seed()] {
        println!("seed {seed}");
        let mut nasty = Nasty::of(seed);
        server.fill("c", &[record(&mut nasty, 0)]).await;
        let mut records = BTreeMap::new();
        let all = server.aggregate("c", &[]).await.unwrap();
        records.insert(0, all[0].clone());
        let mut states: Vec<(Pipeline, Predicate, Option<Incremental>)> = GROUPS
            .iter()
            .map(|json| {
                let pipeline = pipeline(json);
                let filter = pipeline.leading_filter().unwrap();
                (pipeline, Predicate::compile(&filter).unwrap(), None)
            })
            .collect();
        let mut count = Incremental::count(1);
        for _ in 0..200 {
            let id = i32::try_from(nasty.below(6)).unwrap();
            let after = nasty.percent(70).then(|| record(&mut nasty, id));
            let before = records.remove(&id);
            if let Some(after) = &after {
                records.insert(id, after.clone());
            }
            server.put("c", id, after.as_ref()).await;
            assert_ne!(
                count.apply(before.as_deref(), after.as_deref()),
                Step::Renew
            );
            assert_eq!(count.rows(), records.len() as u64);
            for (pipeline, predicate, state) in &mut states {
                let shown = asked(&server, pipeline).await;
                let matching = |document: &Option<RawDocumentBuf>| {
                    document
                        .clone()
                        .filter(|document| predicate.matches(document))
                };
                let (before, after) = (matching(&before), matching(&after));
                if let Some(incremental) = state {
                    let was = incremental.answer();
                    match incremental.apply(before.as_deref(), after.as_deref()) {
                        Step::Renew => *state = None,
                        step => {
                            assert_eq!(
                                incremental.answer(),
                                shown,
                                "seed {seed} {before:?} {after:?}"
                            );
                            assert_eq!(step == Step::Unchanged, was == shown, "seed {seed}");
                            kept += 1;
                            changed += usize::from(step == Step::Updated);
                        }
                    }
                }
                if state.is_none() {
                    let group = pipeline.single_group().unwrap();
                    let renewal = asked(&server, &group.renewal()).await;
                    let fresh = Incremental::group(&group, renewal.as_deref()).unwrap();
                    assert_eq!(fresh.answer(), shown, "seed {seed}: renewed");
                    *state = Some(fresh);
                    renewed += 1;
                }
            }
        }
    }
    server.drop().await;
    println!("{kept} kept, {changed} of them changed, {renewed} renewed");
    assert!(kept > 900 && changed > 250 && renewed > 20);
}

/// Row S9: a sum with a double in it is asked for again, and is the server's.
#[tokio::test]
async fn s9_a_sum_of_doubles_is_renewed() {
    let server = Server::start().await;
    let records: Vec<RawDocumentBuf> = [0.02, 0.2, 0.2]
        .iter()
        .zip(0..)
        .map(|(n, id)| document([("_id", RawBson::Int32(id)), ("x", RawBson::Double(*n))]))
        .collect();
    server.fill("c", &records).await;
    let pipeline = pipeline(r#"[{"$group":{"_id":null,"s":{"$sum":"$x"}}}]"#);
    let group = pipeline.single_group().unwrap();
    let renewal = asked(&server, &group.renewal()).await;
    let mut state = Incremental::group(&group, renewal.as_deref()).unwrap();
    let text = document([
        ("_id", RawBson::Int32(7)),
        ("x", RawBson::String("no number".into())),
    ]);
    assert_eq!(state.apply(None, Some(&text)), Step::Unchanged);
    let last = document([("_id", RawBson::Int32(3)), ("x", RawBson::Double(0.2))]);
    server.put("c", 3, Some(&last)).await;
    assert_eq!(state.apply(None, Some(&last)), Step::Renew);
    let renewal = asked(&server, &group.renewal()).await;
    let state = Incremental::group(&group, renewal.as_deref()).unwrap();
    let sum = state.answer().unwrap().get_f64("s").unwrap();
    assert_eq!(sum.to_bits(), 0.62_f64.to_bits());
    server.drop().await;
}

/// Documents in memory, in `_id` order.
struct Memory<'a>(&'a [RawDocumentBuf], &'a [RawDocumentBuf]);

impl Collections for Memory<'_> {
    type Error = Failure;

    fn scan(
        &self,
        collection: Option<&str>,
        filter: &Filter,
        visit: &mut dyn FnMut(&RawDocument) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let predicate =
            Predicate::compile(filter).map_err(|e| Failure::Undecided(e.to_string()))?;
        let documents = match collection {
            None => self.0,
            Some(_) => self.1,
        };
        for document in documents
            .iter()
            .filter(|document| predicate.matches(document))
        {
            if !visit(document)? {
                break;
            }
        }
        Ok(())
    }

    fn in_id_order(&self) -> Result<bool, Failure> {
        Ok(true)
    }
}

const STAGES: [&str; 30] = [
    r#"{"$match":{"a":{"$gt":0}}}"#,
    r#"{"$match":{"a.0":{"$exists":true}}}"#,
    r#"{"$match":{"b.c":{"$ne":1}}}"#,
    r#"{"$project":{"a":1}}"#,
    r#"{"$project":{"a.b":1,"_id":0}}"#,
    r#"{"$project":{"a.b.c":1,"c":1}}"#,
    r#"{"$project":{"a":0,"b":0}}"#,
    r#"{"$project":{"_id":0,"a":{"b":{"c":"$b"}}}}"#,
    r#"{"$project":{"_id":0,"x":"$a.b","y":{"$size":{"$cond":[{"$isArray":"$b"},"$b",[]]}}}}"#,
    r#"{"$project":{"a.b":"$c","b.c":1}}"#,
    r#"{"$set":{"x":"$a.b"}}"#,
    r#"{"$set":{"a.c":"$b"}}"#,
    r#"{"$set":{"b":{"$type":"$a"}}}"#,
    r#"{"$set":{"x.y.z":"$c","c":1}}"#,
    r#"{"$unset":["a.b","c"]}"#,
    r#"{"$unwind":"$a"}"#,
    r#"{"$unwind":{"path":"$b","preserveNullAndEmptyArrays":true}}"#,
    r#"{"$unwind":{"path":"$a.b","includeArrayIndex":"x"}}"#,
    r#"{"$group":{"_id":"$a.b","n":{"$sum":1}}}"#,
    r#"{"$group":{"_id":"$x","n":{"$push":"$b.c"}}}"#,
    r#"{"$group":{"_id":{"$isArray":"$a"},"a":{"$addToSet":"$c"}}}"#,
    r#"{"$sort":{"a.b":1}}"#,
    r#"{"$sort":{"b":-1}}"#,
    r#"{"$sort":{"x":1}}"#,
    r#"{"$skip":1}"#,
    r#"{"$limit":3}"#,
    r#"{"$count":"n"}"#,
    r#"{"$facet":{"n":[{"$count":"n"}],"g":[{"$sortByCount":"$a"}]}}"#,
    r#"{"$facet":{"p":[{"$sort":{"c":1}},{"$project":{"_id":1}},{"$limit":2}],"q":[{"$unwind":"$b"},{"$count":"n"}]}}"#,
    r#"{"$sortByCount":"$b.c"}"#,
];

/// Random pipelines over random documents of which one is changed: where neither the leading filter nor the paths see
/// the change, the answer is the same.
#[test]
fn what_an_answer_does_not_depend_on_never_shows() {
    let (mut quiet, mut loud) = (0, 0);
    for seed in [1, 2, fresh_seed()] {
        println!("seed {seed}");
        let mut nasty = Nasty::of(seed);
        for _ in 0..6_000 {
            let count = 1 + nasty.below(4);
            let stages: Vec<&str> = (0..count).map(|_| nasty.one(&STAGES)).collect();
            let json = format!("[{}]", stages.join(","));
            let Ok(RawBson::Array(array)) = ejson::parse_value(json.as_bytes()) else {
                panic!("{json}");
            };
            let pipeline = Pipeline::parse(&array).unwrap();
            let mut records: Vec<RawDocumentBuf> = (0..4).map(|id| nasty.stored(id)).collect();
            let before = records[1].clone();
            let after = changed(&mut nasty, &before);
            let filter = pipeline.leading_filter().unwrap();
            let predicate = Predicate::compile(&filter).unwrap();
            let unseen = match (predicate.matches(&before), predicate.matches(&after)) {
                (true, true) => pipeline.dependencies().unchanged(&before, &after),
                (was, is) => was == is,
            };
            if !unseen {
                loud += 1;
                continue;
            }
            let plan = pipeline.plan();
            let was = run(&plan, &Memory(&records, &[]));
            records[1] = after.clone();
            let is = run(&plan, &Memory(&records, &[]));
            assert_eq!(was, is, "seed {seed} {json}\n{before:?}\n{after:?}");
            quiet += 1;
        }
    }
    println!("{quiet} unseen, {loud} seen");
    assert!(quiet > 5_000 && loud > 3_000, "{quiet} {loud}");
}

/// The document with one of its fields as in another one.
fn changed(nasty: &mut Nasty, before: &RawDocument) -> RawDocumentBuf {
    let other = nasty.stored(1);
    let name = nasty.one(&["a", "b", "c"]);
    let value = other.get(name).unwrap().map(RawBson::from);
    let mut fields: Vec<(&str, RawBson)> = Vec::new();
    for field in before {
        let (known, old) = field.unwrap();
        match (known.as_str() == name, &value) {
            (false, _) => fields.push((known.as_str(), old.into())),
            (true, Some(value)) => fields.push((known.as_str(), value.clone())),
            (true, None) => {}
        }
    }
    document(fields)
}

/// Whatever a `$lookup` joins has one of the local values that its pipeline answers.
#[test]
fn what_is_joined_is_among_the_local_values() {
    let mut joined = 0;
    for seed in [1, fresh_seed()] {
        println!("seed {seed}");
        let mut nasty = Nasty::of(seed);
        for _ in 0..1_500 {
            let local = nasty.one(&["a", "a.b", "b.c", "a.b.c", "c"]);
            let foreign = nasty.one(&["a", "b", "a.b"]);
            let before = nasty.one(&[
                "",
                r#"{"$match":{"a":{"$exists":true}}},"#,
                r#"{"$limit":2},"#,
            ]);
            let pipeline = pipeline(&format!(
                r#"[{before}{{"$lookup":{{"from":"o","localField":"{local}","foreignField":"{foreign}","as":"joined"}}}}]"#
            ));
            let (here, there): (Vec<_>, Vec<_>) = (0..4)
                .map(|id| (nasty.stored(id), nasty.stored(id)))
                .unzip();
            let memory = Memory(&here, &there);
            let lookup = &pipeline.lookups()[0];
            let values = pipeline.local_values_pipeline(lookup).unwrap().plan();
            let (Ok(answer), Ok(values)) = (run(&pipeline.plan(), &memory), run(&values, &memory))
            else {
                continue;
            };
            let values = local_values(values.iter().map(|document| &**document)).unwrap();
            let members = nasty::array(values);
            let within = document([("$in", members)]);
            let Ok(filter) = Filter::parse(&document([(foreign, within.into())])) else {
                continue;
            };
            let Ok(predicate) = Predicate::compile(&filter) else {
                continue;
            };
            for document in &answer {
                for found in document.get_array("joined").unwrap() {
                    let found = found.unwrap();
                    assert!(
                        predicate.matches(found.as_document().unwrap()),
                        "seed {seed} {local} {foreign} {document:?}"
                    );
                    joined += 1;
                }
            }
        }
    }
    assert!(joined > 1_000, "{joined}");
}
