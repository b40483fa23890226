//! What a read asks for, in canonical form: one key per question, however it was spelled.

use freshet_core::aggregate::{ANSWER_DOCUMENTS_MAX, Pipeline};
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;
use freshet_core::query::{
    AggregateQuery, CountQuery, Filter, Query, QueryError, RecordRequest, View,
};
use freshet_invalidation::{Join, NotCached, Resource, Watch, Watched};

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
    /// 400 with parameter and pointer; 404 for a route that has no reads.
    pub fn parse(route: Route, params: &Params) -> Result<Asked, Problem> {
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

    /// The question as the matcher watches it.
    ///
    /// # Errors
    /// What it does not watch.
    pub fn resource(&self, key: Key) -> Result<Resource, NotCached> {
        let watched = match self {
            Asked::Record(_) => Watched::Record,
            Asked::Query(query) => Watched::Query(watch(query)),
            Asked::Count(count) => Watched::Query(Watch::count(count.filter.clone())),
            Asked::Aggregate(aggregate) => Watched::Query(aggregated(&aggregate.pipeline)?),
        };
        Ok(Resource {
            namespace: self.namespace().clone(),
            key,
            watched,
            joins: self.joins(),
            hinted: false,
        })
    }

    /// The other sides of its joins.
    fn joins(&self) -> Vec<Join> {
        match self {
            Asked::Aggregate(aggregate) => Join::all_of(aggregate),
            _ => Vec::new(),
        }
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

/// C14: exactly, or not at all.
fn aggregated(pipeline: &Pipeline) -> Result<Watch, NotCached> {
    if pipeline.order_matters() {
        return Err(NotCached::Order);
    }
    Watch::pipeline(pipeline).ok_or(NotCached::Undecidable)
}

fn watch(query: &Query) -> Watch {
    let filter = query.effective_filter();
    let skips = query.effective_skip() > 0;
    match representation(query.view) {
        Representation::Ids => Watch::ids(filter, query.sort.clone(), skips),
        _ => Watch::records(filter, query.sort.clone(), query.projection.clone(), skips),
    }
}
