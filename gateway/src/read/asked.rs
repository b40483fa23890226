//! What a read asks for, in canonical form: one key per question, however it was spelled.

use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;
use freshet_core::query::{CountQuery, Filter, Query, QueryError, RecordRequest, View};
use freshet_invalidation::{Resource, Watch, Watched};

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
        }
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Asked::Record(record) => record.key(),
            Asked::Query(query) => query.key(),
            Asked::Count(count) => count.key(),
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
        self.filter().and_then(Filter::database_only)
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
            return Err(Problem::malformed(detail).of_parameter("filter"));
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
    #[must_use]
    pub fn resource(&self, key: Key) -> Resource {
        let watched = match self {
            Asked::Record(_) => Watched::Record,
            Asked::Query(query) => Watched::Query(watch(query)),
            Asked::Count(count) => Watched::Query(Watch::count(count.filter.clone())),
        };
        Resource {
            namespace: self.namespace().clone(),
            key,
            watched,
            hinted: false,
        }
    }

    fn filter(&self) -> Option<&Filter> {
        match self {
            Asked::Record(_) => None,
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

fn watch(query: &Query) -> Watch {
    let filter = query.effective_filter();
    let skips = query.effective_skip() > 0;
    match representation(query.view) {
        Representation::Ids => Watch::ids(filter, query.sort.clone(), skips),
        _ => Watch::records(filter, query.sort.clone(), query.projection.clone(), skips),
    }
}
