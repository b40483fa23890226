//! `$lookup`: which collections an answer depends on besides its own, and by which values.

use std::collections::BTreeSet;

use bson::{RawBson, RawBsonRef, RawDocument};

use super::{Expression, Field, Fields, Group, Join, Mode, Pipeline, Reshape, Stage, Unwind};
use crate::value::compare::compare;
use crate::value::path::{Path, elements};

/// The most distinct local values of a `$lookup` that are worth knowing.
pub const VALUES_MAX: usize = 1_000;

/// The field that holds a local value.
const VALUE: &str = "value";

/// A `$lookup` in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The other collection, of the same database.
    pub from: Box<str>,
    /// The path in the documents that come to the stage.
    pub local_field: Box<str>,
    /// The path in the other collection's documents.
    pub foreign_field: Box<str>,
    /// Where the array of matching documents goes.
    pub as_field: Box<str>,
    /// Which stage, counted in [`Pipeline::stages`]; of one within a `$facet`, the `$facet`.
    pub at_stage: usize,
    /// The branch and the stage in it, of one within a `$facet`.
    pub in_facet: Option<(Box<str>, usize)>,
}

impl Lookup {
    fn new(join: &Join, at_stage: usize, in_facet: Option<(Box<str>, usize)>) -> Lookup {
        Lookup {
            from: join.from.clone(),
            local_field: join.local.clone(),
            foreign_field: join.foreign.clone(),
            as_field: join.target.clone(),
            at_stage,
            in_facet,
        }
    }
}

impl Pipeline {
    /// Every `$lookup`, in order.
    #[must_use]
    pub fn lookups(&self) -> Vec<Lookup> {
        let mut found = Vec::new();
        for (at, stage) in self.stages.iter().enumerate() {
            match stage {
                Stage::Lookup(join) => found.push(Lookup::new(join, at, None)),
                Stage::Facet(branches) => {
                    for (name, stages) in branches {
                        for (inner, stage) in stages.iter().enumerate() {
                            if let Stage::Lookup(join) = stage {
                                let place = Some((name.clone(), inner));
                                found.push(Lookup::new(join, at, place));
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// The collections that are joined, each once.
    #[must_use]
    pub fn joined_collections(&self) -> BTreeSet<Box<str>> {
        let lookups = self.lookups().into_iter();
        lookups.map(|lookup| lookup.from).collect()
    }

    /// The pipeline that answers the distinct local values that a `$lookup` sees, to be read with
    /// [`local_values`]. `None` where they depend on an earlier `$lookup`, or a path component is an array index.
    #[must_use]
    pub fn local_values_pipeline(&self, lookup: &Lookup) -> Option<Pipeline> {
        let mut stages = self.stages.get(..lookup.at_stage)?.to_vec();
        if let Some((name, inner)) = &lookup.in_facet {
            let Some(Stage::Facet(branches)) = self.stages.get(lookup.at_stage) else {
                return None;
            };
            let (_, branch) = branches.iter().find(|(known, _)| known == name)?;
            stages.extend_from_slice(branch.get(..*inner)?);
        }
        let joins = |stage: &Stage| matches!(stage, Stage::Lookup(_) | Stage::Facet(_));
        if stages.iter().any(joins) || Path::new(&lookup.local_field).indexes() > 0 {
            return None;
        }
        let value = Expression::Path(lookup.local_field.clone());
        stages.push(Stage::Reshape(Reshape {
            mode: Mode::Include,
            fields: Fields(vec![(VALUE.into(), Field::Computed(value))]),
        }));
        // An array stands for each of its elements; an empty one, as a missing field, for null.
        stages.push(Stage::Unwind(Unwind {
            path: VALUE.into(),
            index: None,
            preserve: true,
        }));
        stages.push(Stage::Group(Group {
            id: Expression::Path(VALUE.into()),
            fields: Vec::new(),
        }));
        stages.push(Stage::Limit(VALUES_MAX as u64 + 1));
        Some(Pipeline { stages })
    }
}

/// The values that the answer of a [`Pipeline::local_values_pipeline`] stands for, in BSON order: a foreign
/// document is joined only if its field is one of them (or holds one, as `$in` has it). Where the local path runs
/// through arrays of documents, an array among the values stands for its elements too, and an empty one for null: a
/// superset. `None`: too many.
#[must_use]
pub fn local_values<'d>(answer: impl IntoIterator<Item = &'d RawDocument>) -> Option<Vec<RawBson>> {
    let mut values: Vec<RawBson> = Vec::new();
    for (count, document) in answer.into_iter().enumerate() {
        if count == VALUES_MAX {
            return None;
        }
        let value = document.get("_id").ok().flatten()?;
        add(value, &mut values)?;
    }
    values.sort_by(|a, b| compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()));
    values.dedup_by(|a, b| compare(a.as_raw_bson_ref(), b.as_raw_bson_ref()).is_eq());
    (values.len() <= VALUES_MAX).then_some(values)
}

/// Arrays come as deep as documents nest; whoever stored them kept to MongoDB's limit for that.
fn add(value: RawBsonRef<'_>, values: &mut Vec<RawBson>) -> Option<()> {
    // Before equal ones are dropped there may be more of them, within reason.
    if values.len() > 8 * VALUES_MAX {
        return None;
    }
    values.push(value.into());
    if let Some(array) = value.as_array() {
        if array.is_empty() {
            values.push(RawBson::Null);
        }
        for element in elements(array) {
            add(element, values)?;
        }
    }
    Some(())
}
