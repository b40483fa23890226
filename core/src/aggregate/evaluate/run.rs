//! The run of a pipeline, from the collections to the answer; and `$lookup`, which reads another collection.

use bson::{RawArrayBuf, RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::super::write::document;
use super::super::{Join, Plan, Stage, Tie};
use super::accumulate::Ordered;
use super::reshape::nested;
use super::stage::{Context, Flow, finish, prepare, push};
use super::{Failure, MEMORY_BYTES_MAX, STEPS_MAX, slots};
use crate::query::Filter;
use crate::value::path::elements;

/// Where documents come from.
pub trait Collections {
    /// Why they do not come, or why the pipeline has no answer.
    type Error: From<Failure>;

    /// Shows `visit` the documents of a collection that match, until it answers `false`: of the pipeline's own
    /// collection, or of another one of the database.
    ///
    /// # Errors
    /// What `visit` answers, or what is wrong with the collection.
    fn scan(
        &self,
        collection: Option<&str>,
        filter: &Filter,
        visit: &mut dyn FnMut(&RawDocument) -> Result<bool, Self::Error>,
    ) -> Result<(), Self::Error>;

    /// Whether the pipeline's own documents come in `_id` order.
    ///
    /// # Errors
    /// What is wrong with the collection.
    fn in_id_order(&self) -> Result<bool, Self::Error>;
}

/// Bytes that may still be held, and steps that may still be taken.
pub(super) struct Budget {
    bytes: usize,
    steps: u64,
}

impl Budget {
    fn full() -> Budget {
        Budget {
            bytes: MEMORY_BYTES_MAX,
            steps: STEPS_MAX,
        }
    }

    /// Hands a document of so many bytes to a stage.
    pub(super) fn step(&mut self, bytes: usize) -> Result<(), Failure> {
        let steps = 1 + bytes as u64 / 1_024;
        self.steps = self.steps.checked_sub(steps).ok_or(Failure::TooLong)?;
        Ok(())
    }

    /// Takes so many.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Failure> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Failure::TooLarge)?;
        Ok(())
    }

    /// Gives back what is held no longer.
    pub(super) fn give(&mut self, bytes: usize) {
        self.bytes += bytes;
    }
}

/// The answer of a planned pipeline.
///
/// # Errors
/// [`Failure`] as the collections' error, or theirs.
pub fn run<C: Collections>(plan: &Plan, collections: &C) -> Result<Vec<RawDocumentBuf>, C::Error> {
    let mut stages = plan.stages();
    slots::check(stages)?;
    let mut filter = &Filter::all();
    // The first filter is for the collection, which may know where to look.
    if let [Stage::Match(first), rest @ ..] = stages {
        (filter, stages) = (first, rest);
    }
    let filters = stages
        .iter()
        .take_while(|stage| matches!(stage, Stage::Match(_)))
        .count();
    let by_id = stages.get(filters).is_some_and(is_by_id);
    let given = by_id && collections.in_id_order()?;
    let mut works = prepare(&stages[..filters])?;
    works.extend(prepare(&stages[filters + usize::from(given)..])?);
    let mut answer = Vec::new();
    let mut context = Context {
        collections,
        budget: Budget::full(),
    };
    collections.scan(None, filter, &mut |document| {
        let flow = push(&mut works, document.to_owned(), &mut answer, &mut context)?;
        Ok(flow == Flow::More)
    })?;
    finish(&mut works, &mut answer, &mut context)?;
    Ok(answer)
}

/// A `$sort` that does nothing to documents in `_id` order.
fn is_by_id(stage: &Stage) -> bool {
    match stage {
        Stage::Sort(sort) => sort.fields.is_empty() && sort.tie == Tie::Id,
        _ => false,
    }
}

/// The documents that a `$lookup` joins to one, in `_id` order.
pub(super) fn joined<C: Collections>(
    join: &Join,
    document: &RawDocument,
    context: &mut Context<'_, C>,
) -> Result<RawArrayBuf, C::Error> {
    let filter = foreign_filter(join, document)?;
    let mut found: Vec<(Ordered, RawDocumentBuf)> = Vec::new();
    let budget = &mut context.budget;
    context
        .collections
        .scan(Some(&join.from), &filter, &mut |document| {
            budget.take(document.as_bytes().len())?;
            let id = nested(document, "_id").map_or(RawBson::Undefined, RawBson::from);
            found.push((Ordered(id), document.to_owned()));
            Ok(true)
        })?;
    found.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(found.into_iter().map(|(_, document)| document).collect())
}

/// What a joined document must satisfy: the server asks the same of the other collection.
fn foreign_filter(join: &Join, local: &RawDocument) -> Result<Filter, Failure> {
    let names: Vec<&str> = join.local.split('.').collect();
    let mut values = Vec::new();
    local_values(local, &names, &mut values);
    if values.is_empty() {
        values.push(RawBson::Null);
    }
    let equal = |value: RawBson| document([("$eq", value)]);
    let asked = match &values[..] {
        [_] => document([(&*join.foreign, equal(values.remove(0)).into())]),
        _ if values
            .iter()
            .any(|v| matches!(v, RawBson::RegularExpression(_))) =>
        {
            // Within `$in` it would be a pattern.
            let members = values.into_iter();
            let members: RawArrayBuf = members
                .map(|value| document([(&*join.foreign, equal(value).into())]))
                .collect();
            document([("$or", RawBson::Array(members))])
        }
        _ => {
            let members: RawArrayBuf = values.into_iter().collect();
            let within = document([("$in", RawBson::Array(members))]);
            document([(&*join.foreign, within.into())])
        }
    };
    Filter::parse(&asked)
        .map_err(|_| Failure::undecided("a $lookup by so many or so unusual values"))
}

/// The values at a `localField`: an array at the end stands for its elements, one on the way for its documents, unless
/// the path names one of its positions.
fn local_values(document: &RawDocument, names: &[&str], found: &mut Vec<RawBson>) {
    let Some((first, mut rest)) = names.split_first() else {
        return;
    };
    let mut value = crate::value::path::field(document, first);
    while let (Some(RawBsonRef::Array(array)), Some((name, further))) = (value, rest.split_first())
    {
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        match name.parse::<usize>() {
            Ok(position) if digits => (value, rest) = (elements(array).nth(position), further),
            _ => break,
        }
    }
    match value {
        None => {}
        Some(RawBsonRef::Array(array)) if rest.is_empty() => {
            found.extend(elements(array).map(RawBson::from));
        }
        Some(value) if rest.is_empty() => found.push(value.into()),
        Some(RawBsonRef::Array(array)) => {
            for element in elements(array) {
                if let RawBsonRef::Document(inner) = element {
                    local_values(inner, rest, found);
                }
            }
        }
        Some(RawBsonRef::Document(inner)) => local_values(inner, rest, found),
        Some(_) => {}
    }
}
