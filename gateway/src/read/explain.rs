//! `GET …/_explain`: why a query is or is not cached, and for how long. The query is run, since its members decide how
//! long it lives; nothing else of a read happens: it is no request that counts, and nothing is watched because of it.
//! Who may not read the collection learns nothing here, and who may learns of records only what the answer shows.

use std::collections::BTreeMap;

use freshet_core::freshness::{Lifetimes, resource_surrogates};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;
use freshet_core::query::View;
use freshet_core::ttl;
use freshet_invalidation::matcher::NotIndexed;
use freshet_invalidation::{Explained, NotCached, Resource};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::asked::{Asked, representation};
use super::fetch::{Fetched, fetch};
use super::path::{declare, granted, shareable};
use super::permit::{Permitted, permit};
use super::reason::Reason;
use crate::app::App;
use crate::auth::access::{Rule, Scope};
use crate::error::{Kind, Problem};
use crate::respond::{self, Reply};
use crate::route::{Params, Route, parse_params};

/// What is answered.
#[derive(Serialize)]
struct Explanation<'a> {
    key: &'a str,
    hash: String,
    surrogate_keys: Vec<String>,
    query: BTreeMap<&'a str, Box<RawValue>>,
    cacheable: bool,
    reason: Option<&'static str>,
    advice: Option<&'static str>,
    matcher: Option<Matcher>,
    lifetimes: Option<Life>,
    result: Answered,
    representation: Option<Represented>,
}

/// How the query is found when something changes.
#[derive(Serialize)]
struct Matcher {
    active: bool,
    indexed_by: Vec<Place>,
    /// The other sides, where it is touched as well.
    joins: Vec<Joined>,
    share: f64,
    not_indexed: Option<&'static str>,
    advice: Option<&'static str>,
}

#[derive(Serialize)]
struct Joined {
    from: String,
    field: String,
}

#[derive(Serialize)]
struct Place {
    path: String,
    kind: &'static str,
}

/// How long its answer lives, and why. A time without bound is null.
#[derive(Serialize)]
struct Life {
    lambda_per_second: f64,
    records_per_second: f64,
    hottest_record_per_second: f64,
    result_changes_per_second: f64,
    quantile: f64,
    computed_seconds: f64,
    observed_average_seconds: Option<f64>,
    observed_last_seconds: Option<f64>,
    holding_seconds: Option<f64>,
    alpha: f64,
    basis: &'static str,
    estimated_seconds: f64,
    floor_seconds: u32,
    max_age_cap_seconds: u32,
    s_maxage_cap_seconds: u32,
    max_age: u32,
    s_maxage: u32,
}

#[derive(Serialize)]
struct Answered {
    items: Option<usize>,
    more: bool,
    bytes: usize,
}

#[derive(Serialize)]
struct Represented {
    asked: &'static str,
    given: &'static str,
    why: &'static str,
}

/// Explains a query.
///
/// # Errors
/// Those of the query itself.
pub async fn read(
    app: &App,
    namespace: Namespace,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let route = match params.iter().any(|(name, _)| name == "pipeline") {
        true => Route::Aggregate(namespace),
        false => Route::Collection(namespace),
    };
    let Permitted {
        asked,
        rule,
        scope,
        clients,
    } = permit(app, route, params, headers).await?;
    let key = asked.key();
    let fetched = fetch(app, &asked, app.pipeline.position()).await?;

    let (mut matcher, mut lifetimes) = (None, None);
    let reason = match watched(app, &asked, scope, rule, &key).await {
        Err(reason) => Some(reason),
        Ok((resource, found)) => {
            let (policy, explained) = app.pipeline.explain_lifetimes(&resource, &fetched.members);
            let given = granted(
                policy.lifetimes(explained.expected_ms),
                clients,
                app.pipeline.shares(),
            );
            matcher = found.map(|found| how_found(&resource, found));
            lifetimes = Some(life(&policy, &explained, given));
            obstacle(app, &resource, given).err()
        }
    };
    let surrogates = resource_surrogates(asked.kind(), asked.namespace(), &key);
    let explanation = Explanation {
        key: key.as_str(),
        hash: key.hash().to_string(),
        surrogate_keys: surrogates.iter().map(ToString::to_string).collect(),
        query: canonical(&asked, &key)?,
        cacheable: reason.is_none(),
        reason: reason.map(Reason::word),
        advice: reason.map(Reason::advice),
        matcher,
        lifetimes,
        result: answered(&asked, &fetched),
        representation: represented(&asked),
    };
    let body = serde_json::to_vec(&explanation).map_err(|error| {
        Problem::new(Kind::Internal, "the explanation cannot be written").because(error.to_string())
    })?;
    Ok(respond::private_body(StatusCode::OK, respond::JSON, body))
}

/// What would be watched, and how the matcher finds it.
async fn watched(
    app: &App,
    asked: &Asked,
    scope: Scope,
    rule: &Rule,
    key: &Key,
) -> Result<(Resource, Option<Explained>), Reason> {
    shareable(asked, scope)?;
    let mut resource = asked.resource(key.clone())?;
    resource.hinted = rule.hinted;
    declare(app, &resource).await?;
    let found = app.pipeline.explain(&resource)?;
    Ok((resource, found))
}

/// What keeps an answer that is read now out of the caches.
fn obstacle(app: &App, resource: &Resource, given: Lifetimes) -> Result<(), Reason> {
    app.pipeline.outlook(resource)?;
    if given.is_zero() {
        return Err(NotCached::ShortLived.into());
    }
    match &app.doorkeeper {
        Some(doorkeeper) if !doorkeeper.knows(resource.key.as_str(), app.clock.now()) => {
            Err(Reason::FirstRequest)
        }
        _ => Ok(()),
    }
}

fn how_found(resource: &Resource, explained: Explained) -> Matcher {
    let Explained {
        active,
        explanation,
    } = explained;
    let joins = resource.joins.iter().map(|join| Joined {
        from: join.from.collection().to_owned(),
        field: join.field.to_string(),
    });
    let places = explanation.by.into_iter().map(|access| Place {
        path: access.path,
        kind: access.kind,
    });
    Matcher {
        active,
        indexed_by: places.collect(),
        joins: joins.collect(),
        share: explanation.share,
        not_indexed: explanation.not_indexed.map(NotIndexed::word),
        advice: explanation.not_indexed.map(|why| match why {
            NotIndexed::TooCommon => {
                "Most documents satisfy its narrowest condition, so every change of the collection is held against it. It works; a condition that fewer documents satisfy costs less."
            }
            _ => {
                "No condition leads to it, so every change of the collection is held against it. It works; an equality or a range, in every alternative of an $or, costs less."
            }
        }),
    }
}

fn life(policy: &ttl::Policy, explained: &ttl::Explained, given: Lifetimes) -> Life {
    #[allow(clippy::cast_precision_loss)]
    let seconds = |ms: u64| ms as f64 / 1000.0;
    Life {
        lambda_per_second: (explained.members_per_ms + explained.churn_per_ms) * 1000.0,
        records_per_second: explained.members_per_ms * 1000.0,
        hottest_record_per_second: explained.hottest_per_ms * 1000.0,
        result_changes_per_second: explained.churn_per_ms * 1000.0,
        quantile: policy.quantile,
        computed_seconds: explained.computed_ms / 1000.0,
        observed_average_seconds: explained.average_ms.map(|ms| ms / 1000.0),
        observed_last_seconds: explained.last_ms.map(seconds),
        holding_seconds: explained.holding_ms.map(seconds),
        alpha: policy.alpha,
        basis: explained.basis.word(),
        estimated_seconds: explained.expected_ms / 1000.0,
        floor_seconds: policy.floor.0,
        max_age_cap_seconds: policy.max_age_cap.0,
        s_maxage_cap_seconds: policy.shared_max_age_cap.0,
        max_age: given.m.0,
        s_maxage: given.s.0,
    }
}

fn answered(asked: &Asked, fetched: &Fetched) -> Answered {
    let read = fetched.members.len();
    let items = match asked {
        Asked::Query(query) => Some(read.min(query.limit as usize)),
        _ => None,
    };
    Answered {
        items,
        more: items.is_some_and(|items| read > items),
        bytes: fetched.body.len(),
    }
}

fn represented(asked: &Asked) -> Option<Represented> {
    let Asked::Query(query) = asked else {
        return None;
    };
    let given = match representation(query.view) {
        Representation::Ids => "ids",
        _ => "objects",
    };
    let (asked, why) = match query.view {
        View::Auto => (
            "auto",
            "the cost model is not built yet: whole records, which need no second request",
        ),
        View::Ids => ("ids", "asked for"),
        View::Objects => ("objects", "asked for, or by default"),
    };
    Some(Represented { asked, given, why })
}

/// The parameters in canonical form, defaults included.
fn canonical(asked: &Asked, key: &Key) -> Result<BTreeMap<&'static str, Box<RawValue>>, Problem> {
    let query = key.as_str().split_once('?').map(|(_, query)| query);
    let given = parse_params(query)?;
    let raw = |text: String| {
        RawValue::from_string(text).map_err(|error| {
            Problem::new(Kind::Internal, "a key that cannot be read").because(error.to_string())
        })
    };
    let known: &[_] = match asked {
        Asked::Aggregate(_) => &OF_AGGREGATE,
        _ => &OF_QUERY,
    };
    known
        .iter()
        .filter_map(|(name, default, is_json)| {
            let given = given.iter().find(|(known, _)| known == name);
            let text = given.map_or(*default, |(_, text)| text);
            if text.is_empty() && *name == "after" {
                return None;
            }
            let text = match is_json {
                true => text.to_owned(),
                false => serde_json::Value::from(text).to_string(),
            };
            Some(raw(text).map(|raw| (*name, raw)))
        })
        .collect()
}

/// A parameter: its name, its default, whether the text is JSON itself.
type Known = (&'static str, &'static str, bool);

const OF_AGGREGATE: [Known; 2] = [("pipeline", "[]", true), ("rep", "relaxed", false)];
const OF_QUERY: [Known; 8] = [
    ("after", "", false),
    ("fields", "", false),
    ("filter", "{}", true),
    ("limit", "100", true),
    ("rep", "relaxed", false),
    ("skip", "0", true),
    ("sort", "", false),
    ("view", "objects", false),
];
