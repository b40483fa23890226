//! The other side of a join: a result that looks records up in another collection (`$lookup` by equality) is watched
//! there as well. Which records it can meet is known from the local values that it saw: those whose field is one
//! of them. Before they are known, or where they are too many, any record of the collection counts.

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawDocumentBuf};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{AggregateQuery, Filter, MEMBERS_MAX};
use freshet_core::value::compare::compare;

use super::Resource;
use crate::matcher::{Home, Watch};

/// A join of a result with a collection.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The collection in which records are looked up.
    pub from: Namespace,
    /// The field there that equals the local values.
    pub field: Box<str>,
}

/// A query is listed in the other collection under a name of its own: no key has a `#` in it.
pub(super) fn listed_as(resource: &Resource, index: usize) -> Key {
    Key::from(format!("{}#{index}", resource.key))
}

/// Where a query is listed: in its own collection, then in those of its joins.
pub(super) fn places(resource: &Resource) -> impl Iterator<Item = (&Namespace, Key)> {
    let joins = resource.joins.iter().enumerate();
    let joined = joins.map(|(at, join)| (&join.from, listed_as(resource, at)));
    std::iter::once((&resource.namespace, resource.key.clone())).chain(joined)
}

/// Whose the join is.
pub(super) fn home(resource: &Resource) -> Home {
    Home {
        namespace: resource.namespace.clone(),
        key: resource.key.clone(),
        values: None,
    }
}

impl Join {
    /// The joins of a pipeline, in the order of its `$lookup` stages.
    #[must_use]
    pub fn all_of(query: &AggregateQuery) -> Vec<Join> {
        let lookups = query.pipeline.lookups().into_iter();
        let joins = lookups.filter_map(|lookup| {
            Some(Join {
                from: Namespace::new(query.namespace.db(), &lookup.from).ok()?,
                field: lookup.foreign_field,
            })
        });
        joins.collect()
    }

    /// What is watched: the records that the values can meet, `None` any.
    pub(super) fn watch(&self, values: Option<&[RawBson]>) -> Watch {
        let narrow = values.and_then(|values| self.membership(values));
        Watch::aggregate(narrow.unwrap_or_else(Filter::all), None)
    }

    /// `{field: {$in: values}}`. A missing local value looks for null, which `$in` finds missing, too.
    fn membership(&self, values: &[RawBson]) -> Option<Filter> {
        // A pattern among them is looked for as a value, which `$in` would not do.
        let pattern = |value: &RawBson| matches!(value, RawBson::RegularExpression(_));
        if values.len() > MEMBERS_MAX || values.iter().any(pattern) {
            return None;
        }
        let members: RawArrayBuf = values.iter().cloned().collect();
        let mut within = RawDocumentBuf::new();
        within.append(bson::raw::cstr!("$in"), members);
        let mut filter = RawDocumentBuf::new();
        filter.append(CString::try_from(&*self.field).ok()?, within);
        Filter::parse(&filter).ok()
    }
}

/// The values of two results, of which both may be out. `None`: any.
pub(super) fn union(
    known: Option<Vec<RawBson>>,
    more: Option<Vec<RawBson>>,
) -> Option<Vec<RawBson>> {
    let (mut all, more) = known.zip(more)?;
    all.extend(more);
    let order = |a: &RawBson, b: &RawBson| compare(a.as_raw_bson_ref(), b.as_raw_bson_ref());
    all.sort_by(order);
    all.dedup_by(|a, b| order(a, b).is_eq());
    Some(all)
}
