//! `$group`, and `$sortByCount`, which is a `$group` with a `$sort` behind it.

use bson::{RawBsonRef, RawDocument};

use super::super::error::shown;
use super::super::{
    Accumulator, Expression, FIELDS_MAX, Group, PipelineError, PipelineErrorKind, Sort, Stage, Tie,
    constant,
};
use super::expression::{expression, operator};
use super::{field_name, operands};
use crate::value::sort::Direction;

/// `$group`.
pub(super) fn group(document: &RawDocument) -> Result<Stage, PipelineError> {
    let (mut id, mut fields) = (None, Vec::<(Box<str>, Accumulator, Expression)>::new());
    for field in document {
        let (name, value) = field?;
        let name = name.as_str();
        let read = if name == "_id" {
            expression(value).map(|read| id = Some(read))
        } else {
            field_name(name).and_then(|checked| {
                if fields.iter().any(|(known, _, _)| *known == checked) {
                    return Err(PipelineError::path("a field is named twice"));
                }
                let (accumulator, operand) = accumulated(value)?;
                fields.push((checked, accumulator, operand));
                Ok(())
            })
        };
        read.map_err(|error| error.within(name))?;
    }
    if fields.len() > FIELDS_MAX {
        let detail = format!("$group has {FIELDS_MAX} fields at most");
        return Err(PipelineError::too_many(detail));
    }
    match id {
        Some(id) => Ok(Stage::Group(Group { id, fields })),
        None => Err(PipelineError::operand("$group needs an _id")),
    }
}

fn accumulated(value: RawBsonRef<'_>) -> Result<(Accumulator, Expression), PipelineError> {
    let wrong = || PipelineError::operand("a field of $group is {accumulator: expression}");
    let RawBsonRef::Document(document) = value else {
        return Err(wrong());
    };
    let (name, operand) = operator(document)?.ok_or_else(wrong)?;
    let read = match (name, operand) {
        ("$count", RawBsonRef::Document(none)) if none.is_empty() => {
            Ok((Accumulator::Sum, constant(1)))
        }
        ("$count", _) => Err(PipelineError::operand("$count is {$count: {}} here")),
        _ => match Accumulator::ALL.iter().find(|known| known.name() == name) {
            None => Err(PipelineError::new(
                PipelineErrorKind::Accumulator,
                format!(
                    "{} is not an accumulator that is answered here",
                    shown(name)
                ),
            )),
            Some(_) if matches!(operand, RawBsonRef::Array(_)) => Err(PipelineError::operand(
                format!("{name} takes one expression, no array"),
            )),
            Some(known) => expression(operand).map(|read| (*known, read)),
        },
    };
    read.map_err(|error| error.within(name))
}

/// `$sortByCount` as the two stages that MongoDB itself takes it for.
pub(super) fn sort_by_count(value: RawBsonRef<'_>) -> Result<[Stage; 2], PipelineError> {
    let by = match value {
        RawBsonRef::String(text) if text.starts_with('$') => expression(value)?,
        RawBsonRef::Document(_) if operator(operands("$sortByCount", value)?)?.is_some() => {
            expression(value)?
        }
        _ => {
            return Err(PipelineError::operand(
                "$sortByCount needs a path that begins with $, or an operator",
            ));
        }
    };
    let fields = vec![("count".into(), Accumulator::Sum, constant(1))];
    Ok([
        Stage::Group(Group { id: by, fields }),
        Stage::Sort(Sort {
            fields: vec![("count".into(), Direction::Descending)],
            tie: Tie::Open,
        }),
    ])
}
