//! Whether a question may be asked: by whom, on which collection, and, where only stored queries are answered, whether
//! it is one. Nothing is looked up for who may not read.

use freshet_core::query::CountQuery;
use http::HeaderMap;

use super::asked::Asked;
use crate::app::App;
use crate::auth::access::{Right, Rule, Scope};
use crate::config::settings::{Clients, Queries};
use crate::error::{Kind, Problem};
use crate::route::{Params, Route};
use crate::stored::{self, keep};

/// A question that may be asked.
pub struct Permitted<'a> {
    /// The question.
    pub asked: Asked,
    /// The collection's rule.
    pub rule: &'a Rule,
    /// Whom the answer is for.
    pub scope: Scope,
    /// What browsers may keep of it: no more than of any collection it shows.
    pub clients: Clients,
}

/// Reads the question and checks it against the rules.
///
/// # Errors
/// 400, 401, 403; 404 for a stored query that is not there.
pub async fn permit<'a>(
    app: &'a App,
    route: Route,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Permitted<'a>, Problem> {
    let stored = match (&route, stored::qid(params)?) {
        (Route::Collection(_) | Route::Count(_), Some(hash)) => {
            Some(find(app, &route, hash, params, headers).await?)
        }
        _ => None,
    };
    let is_stored = stored.is_some();
    let asked = match stored {
        Some(asked) => asked,
        None => Asked::parse(route, params)?,
    };
    check(app, asked, is_stored, headers)
}

/// The same for a question that is read already; `is_stored`: it is a stored query.
///
/// # Errors
/// 400, 401, 403.
pub fn check<'a>(
    app: &'a App,
    asked: Asked,
    is_stored: bool,
    headers: &HeaderMap,
) -> Result<Permitted<'a>, Problem> {
    let (rule, mut scope) = app.access.check(asked.namespace(), Right::Read, headers)?;
    let mut clients = rule.clients;
    let mut refused = only_stored(rule, &asked) && !is_stored;
    for joined in asked.joined() {
        let (of_joined, scope_of_joined) = app.access.check(&joined, Right::Read, headers)?;
        // One private part makes the whole private.
        if scope_of_joined == Scope::Private {
            scope = Scope::Private;
        }
        if of_joined.clients == Clients::Revalidate {
            clients = Clients::Revalidate;
        }
        // A join asks for whatever the pipeline says.
        refused |= of_joined.queries == Queries::Stored;
    }
    asked.check(rule)?;
    if refused {
        let detail =
            "only stored queries are answered on this collection, asked for as ?qid={hash}";
        return Err(Problem::new(Kind::Forbidden, detail));
    }
    Ok(Permitted {
        asked,
        rule,
        scope,
        clients,
    })
}

/// Whether the answer is for those alone who ask for a stored query by its hash.
#[must_use]
pub fn only_stored(rule: &Rule, asked: &Asked) -> bool {
    rule.queries == Queries::Stored && !matches!(asked, Asked::Record(_))
}

async fn find(
    app: &App,
    route: &Route,
    hash: &str,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Asked, Problem> {
    let (Route::Collection(namespace) | Route::Count(namespace)) = route else {
        return Err(Problem::no_such_path());
    };
    app.access.check(namespace, Right::Read, headers)?;
    let db = namespace.db();
    let (from, now) = (app.pipeline.position(), app.clock.now());
    let found = app.shelf.find(&*app.store, (db, hash), from, now).await?;
    let stored = found
        .filter(|stored| stored.query.namespace == *namespace)
        .ok_or_else(|| keep::not_stored(db))?;
    if let Route::Collection(_) = route {
        return Ok(Asked::Query(Box::new(stored.with(params)?)));
    }
    match params.iter().find(|(name, _)| name != "qid") {
        Some((name, _)) => {
            Err(Problem::malformed("a count has nothing beside qid").of_parameter(name.clone()))
        }
        None => Ok(Asked::Count(CountQuery {
            namespace: namespace.clone(),
            filter: stored.query.filter.clone(),
        })),
    }
}
