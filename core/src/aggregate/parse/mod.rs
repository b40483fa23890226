//! From an array of documents to a pipeline: the list of stages, and what each of them takes.

mod expression;
mod group;
mod reshape;

use bson::{RawArray, RawBsonRef, RawDocument};

use super::error::shown;
use super::{
    FACETS_MAX, Join, Pipeline, PipelineError, PipelineErrorKind, RESERVED, STAGES_MAX, Sort,
    Stage, Tie, Unwind,
};
use crate::name::Namespace;
use crate::query::{FILTER_NODES_MAX, Filter, SORT_FIELDS_MAX, check_allowed, check_path, integer};
use crate::value::sort::Direction;

/// Reads a whole pipeline.
pub(super) fn pipeline(array: &RawArray) -> Result<Pipeline, PipelineError> {
    check_allowed(array)?;
    let mut count = 0;
    let stages = stages(array, false, &mut count)?;
    Ok(Pipeline { stages })
}

fn stages(
    array: &RawArray,
    in_facet: bool,
    count: &mut usize,
) -> Result<Vec<Stage>, PipelineError> {
    let mut stages = Vec::new();
    for (index, member) in array.into_iter().enumerate() {
        let read = match member? {
            RawBsonRef::Document(document) => stage(document, in_facet, count, &mut stages),
            _ => Err(malformed()),
        };
        read.map_err(|error| error.within(index))?;
    }
    Ok(stages)
}

fn malformed() -> PipelineError {
    let detail = "a stage is a document with one field, its name";
    PipelineError::new(PipelineErrorKind::Malformed, detail)
}

fn stage(
    document: &RawDocument,
    in_facet: bool,
    count: &mut usize,
    stages: &mut Vec<Stage>,
) -> Result<(), PipelineError> {
    *count += 1;
    if *count > STAGES_MAX {
        let detail = format!("a pipeline has {STAGES_MAX} stages at most");
        return Err(PipelineError::too_many(detail));
    }
    let (name, value) = only_field(document)?.ok_or_else(malformed)?;
    let read = match name {
        "$facet" if in_facet => Err(PipelineError::new(
            PipelineErrorKind::Stage,
            "$facet cannot stand within $facet",
        )),
        "$facet" => facet(value, count).map(|facet| stages.push(facet)),
        "$sortByCount" => group::sort_by_count(value).map(|two| stages.extend(two)),
        name => one(name, value).map(|stage| stages.push(stage)),
    };
    read.map_err(|error| error.within(name))
}

fn one(name: &str, value: RawBsonRef<'_>) -> Result<Stage, PipelineError> {
    match name {
        "$match" => Ok(Stage::Match(Filter::parse(operands(name, value)?)?)),
        "$project" => reshape::project(operands(name, value)?),
        "$set" | "$addFields" => reshape::set(operands(name, value)?),
        "$unset" => reshape::unset(value),
        "$unwind" => unwind(value),
        "$group" => group::group(operands(name, value)?),
        "$sort" => sort(operands(name, value)?),
        "$skip" => match integer(value).and_then(|n| u64::try_from(n).ok()) {
            Some(n) => Ok(Stage::Skip(n)),
            None => Err(PipelineError::operand("$skip needs an integer from 0")),
        },
        "$limit" => match integer(value).and_then(|n| u64::try_from(n).ok()) {
            Some(n) if n > 0 => Ok(Stage::Limit(n)),
            _ => Err(PipelineError::operand("$limit needs an integer from 1")),
        },
        "$count" => match value {
            RawBsonRef::String(name) => Ok(Stage::Count(field_name(name)?)),
            _ => Err(PipelineError::operand("$count needs the name of a field")),
        },
        "$lookup" => lookup(operands(name, value)?),
        _ => Err(PipelineError::new(
            PipelineErrorKind::Stage,
            format!(
                "{} is not a stage that is answered here: $match $project $set $unset $unwind $group $sort $skip \
                 $limit $count $sortByCount $facet $lookup are",
                shown(name)
            ),
        )),
    }
}

/// The one field of a document.
fn only_field(document: &RawDocument) -> Result<Option<(&str, RawBsonRef<'_>)>, PipelineError> {
    let mut fields = document.iter();
    let first = fields.next().transpose()?;
    Ok(match (first, fields.next()) {
        (Some((name, value)), None) => Some((name.as_str(), value)),
        _ => None,
    })
}

fn operands<'a>(name: &str, value: RawBsonRef<'a>) -> Result<&'a RawDocument, PipelineError> {
    match value {
        RawBsonRef::Document(document) => Ok(document),
        _ => Err(PipelineError::operand(format!("{name} needs a document"))),
    }
}

fn facet(value: RawBsonRef<'_>, count: &mut usize) -> Result<Stage, PipelineError> {
    let mut branches: Vec<(Box<str>, Vec<Stage>)> = Vec::new();
    for field in operands("$facet", value)?.iter() {
        let (name, value) = field?;
        let name = name.as_str();
        let branch = match value {
            RawBsonRef::Array(array) => field_name(name).and_then(|checked| {
                if branches.iter().any(|(known, _)| *known == checked) {
                    return Err(PipelineError::path("a branch is named twice"));
                }
                Ok((checked, stages(array, true, count)?))
            }),
            _ => Err(PipelineError::operand(
                "a branch of $facet is an array of stages",
            )),
        };
        branches.push(branch.map_err(|error| error.within(name))?);
    }
    match branches.len() {
        0 => Err(PipelineError::operand("$facet needs at least one branch")),
        1..=FACETS_MAX => Ok(Stage::Facet(branches)),
        _ => Err(PipelineError::too_many(format!(
            "$facet has {FACETS_MAX} branches at most"
        ))),
    }
}

fn unwind(value: RawBsonRef<'_>) -> Result<Stage, PipelineError> {
    let mut unwind = Unwind {
        path: "".into(),
        index: None,
        preserve: false,
    };
    match value {
        RawBsonRef::String(text) => unwind.path = dollar_path(text)?,
        RawBsonRef::Document(document) => {
            for field in document {
                let (name, value) = field?;
                let read = match (name.as_str(), value) {
                    ("path", RawBsonRef::String(text)) => {
                        dollar_path(text).map(|path| unwind.path = path)
                    }
                    ("includeArrayIndex", RawBsonRef::String(text)) => {
                        path(text).map(|path| unwind.index = Some(path))
                    }
                    ("preserveNullAndEmptyArrays", RawBsonRef::Boolean(preserve)) => {
                        unwind.preserve = preserve;
                        Ok(())
                    }
                    _ => Err(PipelineError::operand(
                        "$unwind takes path, includeArrayIndex (texts) and preserveNullAndEmptyArrays (a boolean)",
                    )),
                };
                read.map_err(|error| error.within(name.as_str()))?;
            }
        }
        _ => {}
    }
    let overlaps = |index: &str| {
        let within = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('.'));
        index == &*unwind.path || within(index, &unwind.path) || within(&unwind.path, index)
    };
    match &unwind.index {
        _ if unwind.path.is_empty() => Err(PipelineError::operand(
            "$unwind needs a path that begins with $",
        )),
        Some(index) if overlaps(index) || is_id(index) => Err(PipelineError::path(
            "includeArrayIndex is neither _id nor the unwound path",
        )),
        _ if is_id(&unwind.path) => Err(PipelineError::path("_id cannot be unwound")),
        _ => Ok(Stage::Unwind(unwind)),
    }
}

fn sort(document: &RawDocument) -> Result<Stage, PipelineError> {
    let mut fields: Vec<(Box<str>, Direction)> = Vec::new();
    for field in document {
        let (name, value) = field?;
        let read = path(name.as_str()).and_then(|path| {
            if fields.iter().any(|(known, _)| *known == path) {
                return Err(PipelineError::path("a field is named twice"));
            }
            match integer(value) {
                Some(1) => Ok((path, Direction::Ascending)),
                Some(-1) => Ok((path, Direction::Descending)),
                _ => Err(PipelineError::operand("a field is sorted by 1 or -1")),
            }
        });
        fields.push(read.map_err(|error| error.within(name.as_str()))?);
    }
    match fields.len() {
        0 => Err(PipelineError::operand("$sort needs at least one field")),
        // One more is what breaks ties.
        n if n >= SORT_FIELDS_MAX => Err(PipelineError::too_many(format!(
            "$sort has {} fields at most",
            SORT_FIELDS_MAX - 1
        ))),
        _ => Ok(Stage::Sort(Sort {
            fields,
            tie: Tie::Open,
        })),
    }
}

fn lookup(document: &RawDocument) -> Result<Stage, PipelineError> {
    let (mut from, mut local, mut foreign, mut target) = (None, None, None, None);
    for field in document {
        let (name, value) = field?;
        let name = name.as_str();
        let into = match name {
            "from" => &mut from,
            "localField" => &mut local,
            "foreignField" => &mut foreign,
            "as" => &mut target,
            _ => {
                return Err(PipelineError::operand(
                    "$lookup takes from, localField, foreignField and as, and nothing else",
                )
                .within(shown(name)));
            }
        };
        let RawBsonRef::String(text) = value else {
            return Err(PipelineError::operand("a text is needed").within(name));
        };
        let checked = match name {
            // Of which database does not matter for the rules of the name.
            "from" => Namespace::new("db", text)
                .map(|_| text.into())
                .map_err(|error| PipelineError::path(error.to_string())),
            "as" if is_id(text) => Err(PipelineError::path("the result cannot go into _id")),
            _ => path(text),
        };
        *into = Some(checked.map_err(|error| error.within(name))?);
    }
    match (from, local, foreign, target) {
        (Some(from), Some(local), Some(foreign), Some(target)) => Ok(Stage::Lookup(Join {
            from,
            local,
            foreign,
            target,
        })),
        _ => Err(PipelineError::operand(
            "$lookup needs from, localField, foreignField and as",
        )),
    }
}

/// A path as `$project`, `$sort` and their like have it.
fn path(text: &str) -> Result<Box<str>, PipelineError> {
    check_path(text).map_err(|error| PipelineError::path(error.to_string()))?;
    if text.split('.').any(|name| name.starts_with(RESERVED)) {
        return Err(PipelineError::path(format!(
            "names that begin with {RESERVED} are reserved"
        )));
    }
    Ok(text.into())
}

/// `$a.b` without the dollar.
fn dollar_path(text: &str) -> Result<Box<str>, PipelineError> {
    match text.strip_prefix('$') {
        Some(rest) => path(rest),
        None => Err(PipelineError::path("a path begins with $")),
    }
}

/// The name of one field.
fn field_name(name: &str) -> Result<Box<str>, PipelineError> {
    if name.contains('.') {
        return Err(PipelineError::path("the name of a field holds no dot here"));
    }
    path(name)
}

fn is_id(path: &str) -> bool {
    path == "_id" || path.starts_with("_id.")
}

/// A bound that the check over the whole pipeline has made sure of already, for lists that recursion builds.
const MEMBERS_MAX: usize = FILTER_NODES_MAX;
