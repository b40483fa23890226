//! Pipelines of a case: what the gateway asks the database for one, what it makes of the answers, and how it has the
//! pipeline watched.

use bson::{RawArrayBuf, RawBson, RawDocumentBuf};
use freshet_core::aggregate::{ANSWER_DOCUMENTS_MAX, Pipeline, SingleGroup};
use freshet_core::query::{AggregateQuery, Rep};
use freshet_invalidation::{Join, Resource, Watch, Watched};

use super::{Answered, Asked, What, namespace};

/// What the database computed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Computed {
    pub documents: Vec<RawDocumentBuf>,
    /// Of each join the local values; `None`: too many, or not to be told.
    pub joined: Vec<Option<Vec<RawBson>>>,
    /// Of a single group what it can be kept from.
    pub renewal: Option<RawDocumentBuf>,
}

impl Computed {
    /// As it is sent; `None`: too much.
    pub(super) fn answered(&self) -> Option<Answered> {
        (self.documents.len() <= ANSWER_DOCUMENTS_MAX as usize).then(|| Answered {
            bytes: self
                .documents
                .iter()
                .flat_map(|one| one.as_bytes())
                .copied()
                .collect(),
            joined: self.joined.clone(),
            ..Answered::default()
        })
    }
}

impl Asked {
    /// The aggregation, if it is one: the filter is its first `$match`.
    pub fn aggregate(&self) -> Option<AggregateQuery> {
        let What::Aggregate { stages } = &self.what else {
            return None;
        };
        let mut all = RawArrayBuf::new();
        if !self.filter.is_empty() {
            let mut leading = RawDocumentBuf::new();
            leading.append(bson::raw::cstr!("$match"), self.filter.clone());
            all.push(leading);
        }
        stages.iter().for_each(|stage| all.push(stage.clone()));
        Some(AggregateQuery {
            namespace: namespace(),
            pipeline: Pipeline::parse(&all).ok()?,
            rep: Rep::default(),
        })
    }

    /// The group that is kept up to date, if it is one.
    pub fn single_group(&self) -> Option<SingleGroup> {
        self.aggregate()?.pipeline.single_group()
    }
}

/// As the gateway watches it; `None`: it is not cached.
pub(super) fn resource(query: &AggregateQuery) -> Option<Resource> {
    if query.pipeline.order_matters() {
        return None;
    }
    Some(Resource {
        namespace: query.namespace.clone(),
        key: query.key(),
        watched: Watched::Query(Watch::pipeline(&query.pipeline)?),
        joins: Join::all_of(query),
        hinted: false,
    })
}

/// What kind of pipeline it is: of a join, how much is known of its values; else what decides its answer most.
pub(super) fn kind(query: &AggregateQuery) -> String {
    let pipeline = &query.pipeline;
    let lookups = pipeline.lookups();
    if !lookups.is_empty() {
        let own = lookups
            .iter()
            .any(|lookup| *lookup.from == *query.namespace.collection());
        let told = |lookup| pipeline.local_values_pipeline(lookup).is_some();
        return [
            "join",
            if lookups.len() > 1 { " twice" } else { "" },
            if own { " with itself" } else { "" },
            if lookups.iter().all(told) {
                ""
            } else {
                " by anything"
            },
        ]
        .concat();
    }
    let text = pipeline.canonical_text();
    let stages = ["$facet", "$group", "$count", "$unwind", "$limit", "$skip"];
    let of = stages.iter().find(|name| text.contains(**name));
    format!("aggregate {}", of.unwrap_or(&"documents"))
}
