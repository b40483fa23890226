//! Random updates, and random documents for them.

use bson::RawDocumentBuf;
use rand::RngExt;
use rand::rngs::StdRng;

use super::{NUMBERS, document, pick, random_document, random_value};

/// A path of one to three components; the first is a field that often has something in it.
fn path(rng: &mut StdRng) -> String {
    let mut parts = vec![pick(rng, &["a", "b", "c", "d", "n", "v"])];
    for _ in 0..[0, 0, 0, 1, 1, 2][rng.random_range(0..6)] {
        parts.push(pick(rng, &["a", "b", "0", "1", "2", "10", "3"]));
    }
    parts.join(".")
}

/// Mostly a path that the operator can do something with.
fn likely_path(rng: &mut StdRng, operator: &str) -> String {
    match operator {
        _ if rng.random_bool(0.01) => "_id".to_owned(),
        "$push" | "$pull" | "$addToSet" | "$pop" if rng.random_bool(0.8) => {
            pick(rng, &["v", "v", "w"]).to_owned()
        }
        "$inc" | "$mul" if rng.random_bool(0.7) => pick(rng, &["n", "n", "m"]).to_owned(),
        _ => path(rng),
    }
}

fn list(rng: &mut StdRng) -> String {
    let members: Vec<_> = (0..rng.random_range(0..4))
        .map(|_| random_value(rng, 1))
        .collect();
    format!("[{}]", members.join(","))
}

fn push(rng: &mut StdRng) -> String {
    if rng.random_bool(0.3) {
        return random_value(rng, 1);
    }
    let mut modifiers = format!("\"$each\":{}", list(rng));
    if rng.random_bool(0.4) {
        modifiers += &format!(",\"$position\":{}", rng.random_range(-4..5));
    }
    if rng.random_bool(0.4) {
        modifiers += &format!(",\"$slice\":{}", rng.random_range(-4..5));
    }
    if rng.random_bool(0.5) {
        modifiers += pick(
            rng,
            &[
                r#","$sort":1"#,
                r#","$sort":-1"#,
                r#","$sort":{"a":1}"#,
                r#","$sort":{"a":-1,"b":1}"#,
                r#","$sort":{"a.b":1}"#,
                r#","$sort":{"b.0":-1}"#,
            ],
        );
    }
    format!("{{{modifiers}}}")
}

fn operand(rng: &mut StdRng, operator: &str) -> String {
    match operator {
        "$inc" | "$mul" if rng.random_bool(0.9) => pick(rng, NUMBERS).to_owned(),
        "$push" => push(rng),
        "$addToSet" if rng.random_bool(0.6) => format!("{{\"$each\":{}}}", list(rng)),
        "$pop" => pick(rng, &["1", "-1", "1.0", "2"]).to_owned(),
        "$pull" => match rng.random_range(0..4) {
            0 => format!("{{\"$gte\":{}}}", rng.random_range(0..4)),
            1 => r#"{"$in":[1,2,"a"]}"#.to_owned(),
            2 => format!(
                "{{\"{}\":{}}}",
                pick(rng, &["a", "b", "a.b"]),
                rng.random_range(0..3)
            ),
            _ => pick(rng, &["1", "2", "\"a\"", "null", "[]", "[1]", "1.0"]).to_owned(),
        },
        "$rename" => format!("\"{}\"", path(rng)),
        _ => random_value(rng, 2),
    }
}

/// One to three operators, one or two fields each. A path may come twice: then it is no Extended JSON.
pub fn random_update(rng: &mut StdRng) -> String {
    const OPERATORS: &[&str] = &[
        "$set",
        "$unset",
        "$inc",
        "$mul",
        "$min",
        "$max",
        "$push",
        "$pull",
        "$addToSet",
        "$pop",
        "$rename",
    ];
    let mut chosen: Vec<(&str, Vec<String>)> = Vec::new();
    for _ in 0..[1, 1, 2, 3][rng.random_range(0..4)] {
        let operator = pick(rng, OPERATORS);
        let fields = (0..[1, 1, 2][rng.random_range(0..3)])
            .map(|_| {
                let path = likely_path(rng, operator);
                format!("\"{path}\":{}", operand(rng, operator))
            })
            .collect();
        if chosen.iter().all(|(other, _)| *other != operator) {
            chosen.push((operator, fields));
        }
    }
    let operators: Vec<_> = chosen
        .iter()
        .map(|(operator, fields)| format!("\"{operator}\":{{{}}}", fields.join(",")))
        .collect();
    format!("{{{}}}", operators.join(","))
}

/// A document with a number `n` and an array `v`, and whatever else.
pub fn random_record(rng: &mut StdRng, id: usize) -> RawDocumentBuf {
    let fields = random_document(rng, 2);
    let rest = match &fields[1..fields.len() - 1] {
        "" => String::new(),
        inner => format!(",{inner}"),
    };
    document(&format!(
        "{{\"_id\":{id},\"n\":{},\"v\":{}{rest}}}",
        pick(rng, NUMBERS),
        list(rng)
    ))
}

/// A decimal of up to 34 digits; its exponent is often extreme.
pub fn random_decimal(rng: &mut StdRng) -> String {
    let digits: String = (0..rng.random_range(1..=34))
        .map(|_| pick(rng, &["0", "9", "5", "1", "4"]))
        .collect();
    let exponent = match rng.random_range(0..6) {
        0 => rng.random_range(-6176..6000),
        1 => rng.random_range(-6176..-6100),
        2 => rng.random_range(6050..=6111),
        _ => rng.random_range(-40..40),
    };
    let sign = pick(rng, &["", "-"]);
    format!("{{\"$numberDecimal\":\"{sign}{digits}E{exponent}\"}}")
}
