//! The stages at work: each takes documents one by one and hands on what it makes of them.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::super::write::document;
use super::super::{Field, Fields, Join, Reshape, Stage, Unwind};
use super::Failure;
use super::accumulate::Groups;
use super::expression::check_constants;
use super::reshape::{nested, reshape, with_nested};
use super::run::{Budget, Collections, joined};
use super::sorting::Sorting;
use crate::predicate::Predicate;
use crate::value::DOCUMENT_BYTES_MAX;
use crate::value::path::elements;

/// Whether a stage wants more documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    Enough,
}

/// A stage and what it holds.
pub(super) enum Work<'p> {
    Match(Predicate),
    Reshape(&'p Reshape),
    Unwind(&'p Unwind),
    Group(Groups<'p>),
    Sort(Sorting),
    Skip(u64),
    Limit(u64),
    Count(&'p str, u64),
    Facet(Vec<Branch<'p>>),
    Lookup(&'p Join),
}

/// A branch of a `$facet`.
pub(super) struct Branch<'p> {
    name: &'p str,
    stages: Vec<Work<'p>>,
    answer: Vec<RawDocumentBuf>,
    flow: Flow,
}

/// What runs through every stage.
pub(super) struct Context<'c, C> {
    pub(super) collections: &'c C,
    pub(super) budget: Budget,
}

/// The stages ready to work.
pub(super) fn prepare(stages: &[Stage]) -> Result<Vec<Work<'_>>, Failure> {
    let one = |(at, stage)| one(stage, &stages[at + 1..]);
    stages.iter().enumerate().map(one).collect()
}

fn one<'p>(stage: &'p Stage, rest: &[Stage]) -> Result<Work<'p>, Failure> {
    Ok(match stage {
        Stage::Match(filter) => Work::Match(
            Predicate::compile(filter).map_err(|error| Failure::undecided(error.to_string()))?,
        ),
        Stage::Reshape(reshape) => {
            check_fields(&reshape.fields)?;
            Work::Reshape(reshape)
        }
        Stage::Unwind(unwind) => Work::Unwind(unwind),
        Stage::Group(group) => {
            check_constants(&group.id)?;
            for (_, _, operand) in &group.fields {
                check_constants(operand)?;
            }
            Work::Group(Groups::new(group))
        }
        Stage::Sort(sort) => Work::Sort(Sorting::new(sort, rest)),
        Stage::Skip(n) => Work::Skip(*n),
        Stage::Limit(n) => Work::Limit(*n),
        Stage::Count(name) => Work::Count(name, 0),
        Stage::Lookup(join) => Work::Lookup(join),
        Stage::Facet(branches) => {
            let branches = branches.iter().map(|(name, stages)| {
                Ok(Branch {
                    name,
                    stages: prepare(stages)?,
                    answer: Vec::new(),
                    flow: Flow::More,
                })
            });
            Work::Facet(branches.collect::<Result<_, Failure>>()?)
        }
    })
}

fn check_fields(fields: &Fields) -> Result<(), Failure> {
    fields.0.iter().try_for_each(|(_, field)| match field {
        Field::Named => Ok(()),
        Field::Computed(computed) => check_constants(computed),
        Field::Within(within) => check_fields(within),
    })
}

/// Hands a document to the first of the stages; what comes out of the last is the answer.
pub(super) fn push<C: Collections>(
    stages: &mut [Work<'_>],
    document: RawDocumentBuf,
    answer: &mut Vec<RawDocumentBuf>,
    context: &mut Context<'_, C>,
) -> Result<Flow, C::Error> {
    let Some((first, rest)) = stages.split_first_mut() else {
        context.budget.take(document.as_bytes().len())?;
        answer.push(document);
        return Ok(Flow::More);
    };
    context.budget.step(document.as_bytes().len())?;
    match first {
        Work::Match(predicate) => {
            if !predicate.matches(&document) {
                return Ok(Flow::More);
            }
        }
        Work::Reshape(shape) => {
            let shaped = reshape(shape, &document)?;
            return push(rest, whole(shaped)?, answer, context);
        }
        Work::Unwind(unwind) => {
            for unwound in unwound(unwind, &document) {
                if push(rest, unwound, answer, context)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
            }
            return Ok(Flow::More);
        }
        Work::Group(groups) => {
            groups.add(&document, &mut context.budget)?;
            return Ok(Flow::More);
        }
        Work::Sort(sorting) => {
            sorting.add(document, &mut context.budget)?;
            return Ok(Flow::More);
        }
        Work::Skip(left) if *left > 0 => {
            *left -= 1;
            return Ok(Flow::More);
        }
        Work::Skip(_) => {}
        Work::Limit(0) => return Ok(Flow::Enough),
        Work::Limit(left) => {
            *left -= 1;
            let last = *left == 0;
            let flow = push(rest, document, answer, context)?;
            return Ok(if last { Flow::Enough } else { flow });
        }
        Work::Count(_, count) => {
            *count += 1;
            return Ok(Flow::More);
        }
        Work::Facet(branches) => return each_branch(branches, &document, context),
        Work::Lookup(join) => {
            let found = joined(join, &document, context)?;
            let with = with_nested(&document, &join.target, Some(RawBson::Array(found)));
            return push(rest, whole(with)?, answer, context);
        }
    }
    push(rest, document, answer, context)
}

fn each_branch<C: Collections>(
    branches: &mut [Branch<'_>],
    document: &RawDocument,
    context: &mut Context<'_, C>,
) -> Result<Flow, C::Error> {
    let mut flow = Flow::Enough;
    for branch in branches {
        if branch.flow == Flow::More {
            let document = document.to_owned();
            branch.flow = push(&mut branch.stages, document, &mut branch.answer, context)?;
        }
        if branch.flow == Flow::More {
            flow = Flow::More;
        }
    }
    Ok(flow)
}

/// Says that no more documents come: what the stages hold goes on.
pub(super) fn finish<C: Collections>(
    stages: &mut [Work<'_>],
    answer: &mut Vec<RawDocumentBuf>,
    context: &mut Context<'_, C>,
) -> Result<(), C::Error> {
    let Some((first, rest)) = stages.split_first_mut() else {
        return Ok(());
    };
    match std::mem::replace(first, Work::Limit(0)) {
        Work::Group(groups) => {
            for document in groups.finish() {
                if push(rest, whole(document)?, answer, context)? == Flow::Enough {
                    break;
                }
            }
        }
        Work::Sort(sorting) => {
            for document in sorting.finish() {
                if push(rest, document, answer, context)? == Flow::Enough {
                    break;
                }
            }
        }
        Work::Count(name, count @ 1..) => {
            let count = match i32::try_from(count) {
                Ok(count) => RawBson::Int32(count),
                Err(_) => RawBson::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
            };
            push(rest, document([(name, count)]), answer, context)?;
        }
        Work::Facet(branches) => {
            let mut fields = Vec::with_capacity(branches.len());
            for mut branch in branches {
                finish(&mut branch.stages, &mut branch.answer, context)?;
                let documents: RawArrayBuf = branch.answer.into_iter().collect();
                fields.push((branch.name, RawBson::Array(documents)));
            }
            push(rest, whole(document(fields))?, answer, context)?;
        }
        _ => {}
    }
    finish(rest, answer, context)
}

/// A document that is no larger than one may be.
fn whole(document: RawDocumentBuf) -> Result<RawDocumentBuf, Failure> {
    match document.as_bytes().len() <= DOCUMENT_BYTES_MAX {
        true => Ok(document),
        false => Err(Failure::TooLarge),
    }
}

fn unwound<'d>(
    unwind: &'d Unwind,
    document: &'d RawDocument,
) -> Box<dyn Iterator<Item = RawDocumentBuf> + 'd> {
    let indexed = |document: RawDocumentBuf, index: Option<usize>| match &unwind.index {
        None => document,
        Some(path) => {
            let index = index.and_then(|index| i64::try_from(index).ok());
            let index = index.map_or(RawBson::Null, RawBson::Int64);
            with_nested(&document, path, Some(index))
        }
    };
    match nested(document, &unwind.path) {
        Some(RawBsonRef::Array(array)) if !array.is_empty() => {
            Box::new(elements(array).enumerate().map(move |(index, element)| {
                let one = with_nested(document, &unwind.path, Some(element.into()));
                indexed(one, Some(index))
            }))
        }
        Some(RawBsonRef::Array(_)) if unwind.preserve => {
            let without = with_nested(document, &unwind.path, None);
            Box::new(std::iter::once(indexed(without, None)))
        }
        None | Some(RawBsonRef::Null | RawBsonRef::Undefined | RawBsonRef::Array(_))
            if !unwind.preserve =>
        {
            Box::new(std::iter::empty())
        }
        _ => Box::new(std::iter::once(indexed(document.to_owned(), None))),
    }
}
