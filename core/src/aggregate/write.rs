//! A pipeline written down: as the documents the database is given, and as the canonical text of a key.
//!
//! In a `$match`, equal numbers are one number, as in any filter. Everywhere else the type of a number can show
//! in the answer, so the text keeps it: 32-bit integers and doubles with a fraction as they are, all others
//! wrapped (`docs/canonical-form.md`).

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocumentBuf};

use super::{
    Accumulator, Expression, Field, Fields, Group, Join, Mode, RESERVED, Reshape, Sort, Stage, Tie,
    Unwind,
};
use crate::value::ejson::{self, Style, walk};
use crate::value::json::{self, Sink};
use crate::value::sort::Direction;

/// The canonical text.
pub(super) fn text(stages: &[Stage]) -> String {
    let mut out = String::new();
    put_stages(stages, &mut out);
    out
}

fn put_stages(stages: &[Stage], out: &mut String) {
    out.push('[');
    for (index, stage) in stages.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        match stage {
            Stage::Match(filter) => {
                out.push_str("{\"$match\":");
                out.push_str(&filter.canonical_text());
                out.push('}');
            }
            Stage::Facet(branches) => {
                out.push_str("{\"$facet\":{");
                for (index, (name, stages)) in branches.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    json::quote(out, name);
                    out.push(':');
                    put_stages(stages, out);
                }
                out.push_str("}}");
            }
            stage => {
                // What is not `$facet` is one document as long as nothing is added for a plan.
                for written in documents(stage, false) {
                    walk(RawBsonRef::Document(&written), &Exact, out);
                }
            }
        }
    }
    out.push(']');
}

/// Keeps the type of every number.
struct Exact;

impl Style for Exact {
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Int32(n) => json::integer(out, n.into()),
            RawBsonRef::Double(n) if n.is_finite() && n.fract() != 0.0 => json::double(out, n),
            other => {
                let mut text = Vec::new();
                ejson::write_value(other, ejson::Mode::Canonical, &mut text);
                out.put(&String::from_utf8_lossy(&text));
            }
        }
    }
}

/// The documents that the database is given for these stages.
pub(super) fn all(stages: &[Stage]) -> Vec<RawDocumentBuf> {
    stages
        .iter()
        .flat_map(|stage| documents(stage, true))
        .collect()
}

/// The documents of one stage; `exactly` one unless it is written for the database.
fn documents(stage: &Stage, for_database: bool) -> Vec<RawDocumentBuf> {
    let one = |name: &str, value: RawBson| vec![document([(name, value)])];
    match stage {
        Stage::Match(filter) => one("$match", filter.to_document().into()),
        Stage::Reshape(reshape) => vec![reshaped(reshape)],
        Stage::Unwind(unwind) => one("$unwind", unwound(unwind)),
        Stage::Group(group) => {
            let mut stages = one("$group", grouped(group));
            stages.extend(sets(group).filter(|_| for_database));
            stages
        }
        Stage::Sort(sort) => sorted(sort),
        Stage::Skip(n) => one("$skip", number(*n)),
        Stage::Limit(n) => one("$limit", number(*n)),
        Stage::Count(name) => one("$count", RawBson::String(name.to_string())),
        Stage::Facet(branches) => one(
            "$facet",
            document(branches.iter().map(|(name, stages)| {
                let stages = all(stages).into_iter().map(RawBson::Document);
                (&**name, array(stages))
            }))
            .into(),
        ),
        Stage::Lookup(join) => one("$lookup", joined(join, for_database)),
    }
}

fn number(n: u64) -> RawBson {
    match i32::try_from(n) {
        Ok(n) => RawBson::Int32(n),
        Err(_) => RawBson::Int64(i64::try_from(n).unwrap_or(i64::MAX)),
    }
}

fn reshaped(reshape: &Reshape) -> RawDocumentBuf {
    let name = match reshape.mode {
        Mode::Include | Mode::Exclude => "$project",
        Mode::Set => "$set",
    };
    let mut fields = named(&reshape.fields, reshape.mode);
    // `_id` is shown unless it is hidden, and hidden only where that is said.
    let has_id = reshape.fields.0.iter().any(|(name, _)| &**name == "_id");
    if reshape.mode == Mode::Include && !has_id {
        fields.insert(0, ("_id", RawBson::Int32(0)));
    }
    document([(name, document(fields).into())])
}

fn named(fields: &Fields, mode: Mode) -> Vec<(&str, RawBson)> {
    let written = fields.0.iter().map(|(name, field)| {
        let value = match field {
            Field::Named => RawBson::Int32(i32::from(mode == Mode::Include)),
            Field::Within(within) => document(named(within, mode)).into(),
            // A bare number or boolean would show or hide.
            Field::Computed(Expression::Value(value)) if mode != Mode::Set => literal(value),
            Field::Computed(computed) => expression(computed),
        };
        (&**name, value)
    });
    written.collect()
}

fn unwound(unwind: &Unwind) -> RawBson {
    let path = RawBson::String(format!("${}", unwind.path));
    let mut fields = vec![("path", path)];
    if let Some(index) = &unwind.index {
        fields.push(("includeArrayIndex", RawBson::String(index.to_string())));
    }
    if unwind.preserve {
        fields.push(("preserveNullAndEmptyArrays", RawBson::Boolean(true)));
    }
    match fields.len() {
        1 => fields.remove(0).1,
        _ => document(fields).into(),
    }
}

fn grouped(group: &Group) -> RawBson {
    let mut fields = vec![("_id", expression(&group.id))];
    for (name, accumulator, operand) in &group.fields {
        let accumulated = document([(accumulator.name(), expression(operand))]);
        fields.push((&**name, accumulated.into()));
    }
    document(fields).into()
}

/// Sets in an order of their own: MongoDB has none for them.
fn sets(group: &Group) -> Option<RawDocumentBuf> {
    let sets = group
        .fields
        .iter()
        .filter(|(_, accumulator, _)| *accumulator == Accumulator::AddToSet);
    let sorted: Vec<(&str, RawBson)> = sets
        .map(|(name, _, _)| {
            let input = RawBson::String(format!("${name}"));
            let operand = document([("input", input), ("sortBy", RawBson::Int32(1))]);
            (&**name, document([("$sortArray", operand.into())]).into())
        })
        .collect();
    (!sorted.is_empty()).then(|| document([("$set", document(sorted).into())]))
}

fn sorted(sort: &Sort) -> Vec<RawDocumentBuf> {
    let mut fields: Vec<(&str, RawBson)> = sort
        .fields
        .iter()
        .map(|(path, direction)| {
            let sign = match direction {
                Direction::Ascending => 1,
                Direction::Descending => -1,
            };
            (&**path, RawBson::Int32(sign))
        })
        .collect();
    match sort.tie {
        Tie::Open => vec![document([("$sort", document(fields).into())])],
        Tie::Id => {
            fields.push(("_id", RawBson::Int32(1)));
            vec![document([("$sort", document(fields).into())])]
        }
        Tie::WholeId => {
            // Within a document an array is compared as a whole, not by its smallest element.
            let wrapped = document([("whole", RawBson::String("$_id".into()))]);
            fields.push((RESERVED, RawBson::Int32(1)));
            vec![
                document([("$set", document([(RESERVED, wrapped.into())]).into())]),
                document([("$sort", document(fields).into())]),
                document([("$unset", RawBson::String(RESERVED.into()))]),
            ]
        }
    }
}

fn joined(join: &Join, for_database: bool) -> RawBson {
    let text = |text: &str| RawBson::String(text.to_owned());
    let mut fields = vec![
        ("from", text(&join.from)),
        ("localField", text(&join.local)),
        ("foreignField", text(&join.foreign)),
        ("as", text(&join.target)),
    ];
    if for_database {
        // Otherwise the joined documents come in no order.
        let by_id = document([("$sort", document([("_id", RawBson::Int32(1))]).into())]);
        fields.push(("pipeline", array([by_id.into()])));
    }
    document(fields).into()
}

/// An expression as MongoDB reads it.
fn expression(written: &Expression) -> RawBson {
    let several = |members: &[Expression]| array(members.iter().map(expression));
    match written {
        Expression::Value(value) => match value {
            RawBson::String(text) if text.starts_with('$') => literal(value),
            RawBson::Document(_) | RawBson::Array(_) => literal(value),
            value => value.clone(),
        },
        Expression::Path(path) => RawBson::String(format!("${path}")),
        Expression::Root => RawBson::String("$$ROOT".into()),
        Expression::Remove => RawBson::String("$$REMOVE".into()),
        Expression::Document(fields) => {
            let fields = fields
                .iter()
                .map(|(name, field)| (&**name, expression(field)));
            document(fields).into()
        }
        Expression::Array(members) => several(members),
        Expression::Call(function, arguments) => {
            document([(function.name(), several(arguments))]).into()
        }
        Expression::Switch {
            branches,
            otherwise,
        } => {
            let branches = branches.iter().map(|(case, then)| {
                document([("case", expression(case)), ("then", expression(then))]).into()
            });
            let mut operand = vec![("branches", array(branches))];
            if let Some(otherwise) = otherwise {
                operand.push(("default", expression(otherwise)));
            }
            document([("$switch", document(operand).into())]).into()
        }
    }
}

fn literal(value: &RawBson) -> RawBson {
    document([("$literal", value.clone())]).into()
}

fn array(members: impl IntoIterator<Item = RawBson>) -> RawBson {
    let mut array = RawArrayBuf::new();
    for member in members {
        array.push(member);
    }
    RawBson::Array(array)
}

/// A document of these fields.
pub(super) fn document<'a>(fields: impl IntoIterator<Item = (&'a str, RawBson)>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for (name, value) in fields {
        // Names come out of BSON documents or are constants: they hold no U+0000, so none is left out here.
        if let Ok(name) = CString::try_from(name) {
            document.append(name, value);
        }
    }
    document
}
