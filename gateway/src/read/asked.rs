//! What a read asks for, in canonical form: one key per question, however it was spelled.

use std::sync::Arc;

use bson::RawDocument;
use freshet_core::aggregate::ANSWER_DOCUMENTS_MAX;
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;
use freshet_core::predicate::Predicate;
use freshet_core::query::{
    AggregateQuery, CountQuery, Direction, Filter, Query, QueryError, RecordRequest, Sort, View,
};
use freshet_core::value::path::Path;
use freshet_core::value::sort::{self, compare_keys, sort_key};
use freshet_invalidation::{Matches, NotCached, Order, Resource, Watched};

use crate::auth::access::Rule;
use crate::config::settings::DatabaseOnly;
use crate::error::Problem;
use crate::route::{Params, Route};

/// A question.
#[derive(Clone, Debug)]
pub enum Asked {
    /// For one record.
    Record(RecordRequest),
    /// For a query's result.
    Query(Box<Query>),
    /// For a count.
    Count(CountQuery),
    /// For what a pipeline makes of a collection.
    Aggregate(Box<AggregateQuery>),
}

impl Asked {
    /// Reads the question.
    ///
    /// # Errors
    /// 400 with parameter and pointer; 501 for a stored query; 404 for a route that has no reads.
    pub fn parse(route: Route, params: &Params) -> Result<Asked, Problem> {
        if params.iter().any(|(name, _)| name == "qid") {
            return Err(Problem::not_implemented("a stored query"));
        }
        match route {
            Route::Record(namespace, id) => {
                RecordRequest::parse(&namespace, id, params).map(Asked::Record)
            }
            Route::Collection(namespace) => {
                Query::parse(&namespace, params).map(|query| Asked::Query(Box::new(query)))
            }
            Route::Count(namespace) => CountQuery::parse(&namespace, params).map(Asked::Count),
            Route::Aggregate(namespace) => AggregateQuery::parse(&namespace, params)
                .map(|aggregate| Asked::Aggregate(Box::new(aggregate))),
            _ => return Err(Problem::no_such_path()),
        }
        .map_err(refused)
    }

    /// The collection.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        match self {
            Asked::Record(record) => &record.namespace,
            Asked::Query(query) => &query.namespace,
            Asked::Count(count) => &count.namespace,
            Asked::Aggregate(aggregate) => &aggregate.namespace,
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Asked::Record(record) => record.key(),
            Asked::Query(query) => query.key(),
            Asked::Count(count) => count.key(),
            Asked::Aggregate(aggregate) => aggregate.key(),
        }
    }

    /// What the key names.
    #[must_use]
    pub fn kind(&self) -> ResourceKind {
        match self {
            Asked::Record(_) => ResourceKind::Record,
            _ => ResourceKind::Query,
        }
    }

    /// The operator that only the database can decide, if the filter has one.
    #[must_use]
    pub fn database_only(&self) -> Option<&'static str> {
        match self {
            Asked::Aggregate(aggregate) => aggregate.pipeline.database_only(),
            _ => self.filter().and_then(Filter::database_only),
        }
    }

    /// The other collections that the answer shows documents of.
    #[must_use]
    pub fn joined(&self) -> Vec<Namespace> {
        let Asked::Aggregate(aggregate) = self else {
            return Vec::new();
        };
        let joined = aggregate.pipeline.joined_collections();
        joined
            .iter()
            .filter_map(|from| Namespace::new(aggregate.namespace.db(), from).ok())
            .collect()
    }

    /// What the collection's rule limits further than the protocol does.
    ///
    /// # Errors
    /// 400.
    pub fn check(&self, rule: &Rule) -> Result<(), Problem> {
        if let Some(operator) = self.database_only()
            && rule.database_only == DatabaseOnly::Deny
        {
            let detail = format!("{operator} is not allowed on this collection");
            let parameter = match self {
                Asked::Aggregate(_) => "pipeline",
                _ => "filter",
            };
            return Err(Problem::malformed(detail).of_parameter(parameter));
        }
        if let Asked::Aggregate(aggregate) = self {
            let documents_max = aggregate.pipeline.documents_max();
            if rule.limit_max < ANSWER_DOCUMENTS_MAX
                && documents_max.is_none_or(|most| most > u64::from(rule.limit_max))
            {
                let detail = format!(
                    "this collection answers at most {} documents: end the pipeline with $limit",
                    rule.limit_max
                );
                return Err(Problem::malformed(detail).of_parameter("pipeline"));
            }
        }
        if let Asked::Query(query) = self {
            if query.limit > rule.limit_max {
                let detail = format!(
                    "at most {} on this collection, where it has to be named",
                    rule.limit_max
                );
                return Err(Problem::malformed(detail).of_parameter("limit"));
            }
            if query.skip > rule.skip_max {
                let detail = format!("at most {} on this collection", rule.skip_max);
                return Err(Problem::malformed(detail).of_parameter("skip"));
            }
        }
        Ok(())
    }

    /// The question as the matcher watches it (C14: exactly, or not at all).
    ///
    /// # Errors
    /// `Undecidable`.
    pub fn resource(&self, key: Key) -> Result<Resource, NotCached> {
        let watched = match self {
            Asked::Record(_) => Watched::Record,
            Asked::Query(query) => Watched::Query {
                filter: matcher(&query.effective_filter())?,
                order: order(&query.sort),
                representation: representation(query.view),
                skips: query.effective_skip() > 0,
            },
            Asked::Count(count) => Watched::Count(matcher(&count.filter)?),
            Asked::Aggregate(_) => return Err(NotCached::Undecidable),
        };
        Ok(Resource {
            namespace: self.namespace().clone(),
            key,
            watched,
        })
    }

    fn filter(&self) -> Option<&Filter> {
        match self {
            Asked::Record(_) | Asked::Aggregate(_) => None,
            Asked::Query(query) => Some(&query.filter),
            Asked::Count(count) => Some(&count.filter),
        }
    }
}

/// What a query's items are. The cost model has nothing to say yet for `auto`: whole records, which clients can
/// use without a second request.
#[must_use]
pub fn representation(view: View) -> Representation {
    match view {
        View::Objects | View::Auto => Representation::Objects,
        View::Ids => Representation::Ids,
    }
}

/// A refused parameter as a problem.
#[must_use]
pub fn refused(error: QueryError) -> Problem {
    let problem = Problem::malformed(error.detail).of_parameter(error.parameter);
    if error.pointer.is_empty() {
        problem
    } else {
        problem.at(error.pointer)
    }
}

struct ByPredicate(Predicate);

impl Matches for ByPredicate {
    fn matches(&self, document: &RawDocument) -> bool {
        self.0.matches(document)
    }
}

fn matcher(filter: &Filter) -> Result<Arc<dyn Matches>, NotCached> {
    match Predicate::compile(filter) {
        Ok(predicate) => Ok(Arc::new(ByPredicate(predicate))),
        Err(_) => Err(NotCached::Undecidable),
    }
}

struct BySort(Vec<(Path, sort::Direction)>);

impl Order for BySort {
    fn same_place(&self, before: &RawDocument, after: &RawDocument) -> bool {
        match (sort_key(before, &self.0), sort_key(after, &self.0)) {
            (Ok(before), Ok(after)) => compare_keys(&before, &after, &self.0).is_eq(),
            // A record that cannot be placed: the safe side is that it moved.
            _ => false,
        }
    }
}

/// A result in `_id` order alone never changes its order.
fn order(sort: &Sort) -> Option<Arc<dyn Order>> {
    match sort.id_only() {
        Some(_) => None,
        None => Some(Arc::new(BySort(pattern(sort)))),
    }
}

fn pattern(sort: &Sort) -> Vec<(Path, sort::Direction)> {
    sort.fields()
        .iter()
        .map(|field| {
            let direction = match field.direction {
                Direction::Ascending => sort::Direction::Ascending,
                Direction::Descending => sort::Direction::Descending,
            };
            (Path::new(&field.path), direction)
        })
        .collect()
}
