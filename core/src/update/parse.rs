//! Reads an update document, and refuses what the server would refuse whatever the document it is for.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::action::{Action, Step};
use super::arithmetic::Operation;
use super::array::{ELEMENT, Pull, Push, PushSort};
use super::edit::{array_index, fields};
use super::{Reason, Update, UpdateError};
use crate::value::ejson::NESTING_MAX;
use crate::value::number::Number;
use crate::value::path::{Path, field};
use crate::value::sort::Direction;

type Parsed<T> = Result<T, UpdateError>;

/// Paths that one update may name.
const PATHS_MAX: usize = 1000;

/// Reads an update document: operators with their fields, nothing else.
///
/// # Errors
/// Something in it is wrong; the error points at it.
pub fn parse(update: &RawDocument) -> Result<Update, UpdateError> {
    let mut steps = Vec::new();
    // A path that must stay untouched while another step reads it: the source of `$rename`.
    let mut reserved = Vec::new();
    if update.is_empty() {
        return Err(malformed("an update needs at least one operator"));
    }
    for (operator, operand) in fields(update) {
        check_operator(operator)?;
        let RawBsonRef::Document(operand) = operand else {
            return Err(malformed("expected a document of fields").within(operator));
        };
        for (path, value) in fields(operand) {
            let step =
                step(operator, path, value).map_err(|error| error.within(path).within(operator))?;
            if let Action::Rename(from) = &step.action {
                reserved.push((from.clone(), place(&step)));
            }
            steps.push(step);
        }
    }
    if steps.len() > PATHS_MAX {
        return Err(malformed(format!("more than {PATHS_MAX} paths")));
    }
    steps.sort_by(|a, b| compare_paths(&a.path, &b.path));
    check_conflicts(&steps, reserved)?;
    Ok(Update { steps })
}

fn malformed(detail: impl Into<String>) -> UpdateError {
    UpdateError::new(Reason::Malformed, detail)
}

fn check_operator(name: &str) -> Parsed<()> {
    match name {
        "$set" | "$unset" | "$inc" | "$mul" | "$min" | "$max" | "$push" | "$pull" | "$addToSet"
        | "$pop" | "$rename" | "$currentDate" => Ok(()),
        _ if name.starts_with('$') => {
            Err(UpdateError::new(Reason::Unsupported, "no such update operator").within(name))
        }
        _ => Err(malformed("expected an update operator, which begins with '$'").within(name)),
    }
}

fn step(operator: &str, written: &str, value: RawBsonRef<'_>) -> Parsed<Step> {
    let mut path = split(written)?;
    let action = match operator {
        "$set" => Action::Set(value.into()),
        "$unset" => Action::Unset,
        "$inc" => Action::Arithmetic(Operation::Add, number(value)?),
        "$mul" => Action::Arithmetic(Operation::Multiply, number(value)?),
        "$min" => Action::Min(value.into()),
        "$max" => Action::Max(value.into()),
        "$push" => Action::Push(push(value)?),
        "$pull" => Action::Pull(pull(value)),
        "$addToSet" => Action::AddToSet(set_members(value)?),
        "$pop" => Action::Pop(pop(value)?),
        "$currentDate" => Action::Now(date_kind(value)?),
        _ => {
            let RawBsonRef::String(to) = value else {
                return Err(malformed("expected the new path, a string"));
            };
            let from = std::mem::replace(&mut path, split(to)?);
            if starts_with(&path, &from) || starts_with(&from, &path) {
                return Err(malformed(
                    "source and destination must not contain each other",
                ));
            }
            Action::Rename(from)
        }
    };
    Ok(Step {
        operator: operator.into(),
        written: written.into(),
        path,
        action,
    })
}

/// The components of an update's path.
fn split(path: &str) -> Parsed<Box<[Box<str>]>> {
    let names: Box<[Box<str>]> = path.split('.').map(Box::from).collect();
    if names.len() >= NESTING_MAX as usize {
        return Err(malformed("the path is too long"));
    }
    if names.iter().any(|name| name.is_empty()) {
        return Err(malformed("a path must not have an empty component"));
    }
    if path.as_bytes().contains(&0) {
        return Err(malformed("a path must not hold U+0000"));
    }
    if names.iter().any(|name| name.starts_with('$')) {
        let detail = "positional operators, and other path components that begin with '$', are not supported";
        return Err(UpdateError::new(Reason::Unsupported, detail));
    }
    Ok(names)
}

fn number(value: RawBsonRef<'_>) -> Parsed<RawBson> {
    match Number::of(value) {
        Some(_) => Ok(value.into()),
        None => Err(malformed("expected a number")),
    }
}

fn push(value: RawBsonRef<'_>) -> Parsed<Push> {
    let modifiers = value.as_document().filter(|d| field(d, "$each").is_some());
    let Some(modifiers) = modifiers else {
        return Ok(Push {
            each: array_of(value),
            position: None,
            sort: None,
            slice: None,
        });
    };
    let mut push = Push {
        each: RawBson::Null,
        position: None,
        sort: None,
        slice: None,
    };
    for (name, operand) in fields(modifiers) {
        let read: Parsed<()> = match name {
            "$each" => each(operand).map(|each| push.each = each),
            "$position" => integer(operand).map(|n| push.position = Some(n)),
            "$slice" => integer(operand).map(|n| push.slice = Some(n)),
            "$sort" => push_sort(operand).map(|sort| push.sort = Some(sort)),
            _ => Err(malformed("no such modifier of $push")),
        };
        read.map_err(|error| error.within(name))?;
    }
    Ok(push)
}

/// `[value]`.
fn array_of(value: RawBsonRef<'_>) -> RawBson {
    let mut array = bson::RawArrayBuf::new();
    array.push(value);
    RawBson::Array(array)
}

fn each(value: RawBsonRef<'_>) -> Parsed<RawBson> {
    match value {
        RawBsonRef::Array(_) => Ok(value.into()),
        _ => Err(malformed("expected an array")),
    }
}

fn integer(value: RawBsonRef<'_>) -> Parsed<i64> {
    Number::of(value)
        .and_then(|number| number.to_i64_exact())
        .ok_or_else(|| malformed("expected an integer"))
}

fn direction(value: RawBsonRef<'_>) -> Parsed<Direction> {
    match integer(value) {
        Ok(1) => Ok(Direction::Ascending),
        Ok(-1) => Ok(Direction::Descending),
        _ => Err(malformed("expected 1 or -1")),
    }
}

fn push_sort(value: RawBsonRef<'_>) -> Parsed<PushSort> {
    let RawBsonRef::Document(pattern) = value else {
        return direction(value).map(PushSort::Whole);
    };
    let paths: Parsed<Vec<_>> = fields(pattern)
        .map(|(path, value)| {
            if path.split('.').any(str::is_empty) {
                return Err(malformed("a path must not have an empty component").within(path));
            }
            let direction = direction(value).map_err(|error| error.within(path))?;
            Ok((Path::new(path), direction))
        })
        .collect();
    match paths?.as_slice() {
        [] => Err(malformed("expected at least one field")),
        paths => Ok(PushSort::Fields(paths.to_vec())),
    }
}

/// A document whose first field is an operator with an operand is about the element itself; with any other
/// first field it is a filter over documents. (`$and` and its like combine filters.)
fn pull(value: RawBsonRef<'_>) -> Pull {
    let about_element = match value {
        RawBsonRef::RegularExpression(_) => true,
        RawBsonRef::Document(condition) => fields(condition).next().is_some_and(|(name, _)| {
            name.starts_with('$') && !matches!(name, "$and" | "$or" | "$nor" | "$expr" | "$comment")
        }),
        _ => return Pull::Value(value.into()),
    };
    match value {
        RawBsonRef::Document(filter) if !about_element => Pull::Filter(filter.to_owned()),
        condition => {
            let mut filter = RawDocumentBuf::new();
            filter.append(ELEMENT, condition);
            Pull::Element(filter)
        }
    }
}

fn set_members(value: RawBsonRef<'_>) -> Parsed<RawBson> {
    if let RawBsonRef::Document(document) = value
        && let Some(("$each", members)) = fields(document).next()
    {
        if fields(document).nth(1).is_some() {
            return Err(malformed("nothing may stand beside $each"));
        }
        return each(members).map_err(|error| error.within("$each"));
    }
    Ok(array_of(value))
}

fn pop(value: RawBsonRef<'_>) -> Parsed<bool> {
    Ok(direction(value)? == Direction::Descending)
}

fn date_kind(value: RawBsonRef<'_>) -> Parsed<bool> {
    let wrong = || malformed("expected true, {$type: \"date\"} or {$type: \"timestamp\"}");
    match value {
        RawBsonRef::Boolean(_) => Ok(false),
        RawBsonRef::Document(document) => {
            let mut fields = fields(document);
            match (fields.next(), fields.next()) {
                (Some(("$type", RawBsonRef::String("date"))), None) => Ok(false),
                (Some(("$type", RawBsonRef::String("timestamp"))), None) => Ok(true),
                _ => Err(wrong()),
            }
        }
        _ => Err(wrong()),
    }
}

/// Component by component: two numbers by value, others by bytes (the server's
/// `cmpPathsAndArrayIndexes`).
fn compare_paths(a: &[Box<str>], b: &[Box<str>]) -> Ordering {
    let pairs = a.iter().zip(b);
    for (a, b) in pairs {
        let order = match (array_index(a), array_index(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => a.as_bytes().cmp(b.as_bytes()),
        };
        if order.is_ne() {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

fn starts_with(path: &[Box<str>], prefix: &[Box<str>]) -> bool {
    path.len() >= prefix.len() && path[..prefix.len()] == *prefix
}

/// Operator and written path of a step, to point at it.
fn place(step: &Step) -> (Box<str>, Box<str>) {
    (step.operator.clone(), step.written.clone())
}

/// No path may be another one or lie within it.
fn check_conflicts(steps: &[Step], reserved: Vec<Reserved>) -> Parsed<()> {
    let mut paths: Vec<Reserved> = steps
        .iter()
        .map(|step| (step.path.clone(), place(step)))
        .chain(reserved)
        .collect();
    // By plain bytes, so that whatever lies within a path follows it directly.
    paths.sort();
    for pair in paths.windows(2) {
        if starts_with(&pair[1].0, &pair[0].0) {
            let (operator, written) = &pair[1].1;
            return Err(UpdateError::new(
                Reason::PathConflict,
                "another operator touches this path",
            )
            .within(written)
            .within(operator));
        }
    }
    Ok(())
}

type Reserved = (Box<[Box<str>]>, (Box<str>, Box<str>));
