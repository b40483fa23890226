//! From a raw request target to the resource it names. Strict: a trailing slash, an encoded slash, an unknown
//! suffix or a reserved name is an error, never something to be guessed, since caches in front key on the spelling.

mod params;
mod segment;

pub use params::{Params, parse_params};

use freshet_core::name::{NameError, Namespace};
use freshet_core::value::id::RecordId;
use http::Method;

use crate::error::Problem;

/// What a path names.
#[derive(Clone, Debug, PartialEq)]
pub enum Route {
    /// A collection: queries, inserts.
    Collection(Namespace),
    /// One record.
    Record(Namespace, RecordId),
    /// A count.
    Count(Namespace),
    /// An aggregation.
    Aggregate(Namespace),
    /// A query in a body.
    QueryBody(Namespace),
    /// Why a query is or is not cached.
    Explain(Namespace),
    /// What a query answers, and what changes of it.
    Live(Box<Route>),
    /// A stored query: its database and its hash.
    Stored(String, String),
    /// The sketch of a database.
    Sketch(String),
    /// A part of the protocol that this version does not answer, with the methods it would have.
    Later(&'static str, &'static str),
    /// Operations.
    Operation(Operation),
}

/// What is there for the people who run the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// The process answers.
    Health,
    /// The process is ready for requests, in detail.
    Ready,
    /// Prometheus text.
    Metrics,
    /// The description of this interface.
    OpenApi,
    /// The landing page.
    Landing,
    /// The console's address, which leads to the landing page.
    Console,
    /// What happened lately, for the landing page.
    Activity,
}

const READ: &str = "GET, HEAD, OPTIONS";

impl Route {
    /// What the path names.
    ///
    /// # Errors
    /// 404 where nothing can have this path, 400 where it is not a path.
    pub fn parse(path: &str) -> Result<Route, Problem> {
        match path.strip_prefix("/v1/") {
            Some(rest) => resource(rest),
            None => operation(path).map(Route::Operation),
        }
    }

    /// The methods that the resource knows.
    #[must_use]
    pub fn allow(&self) -> &'static str {
        match self {
            Route::Collection(_) => "GET, HEAD, POST, QUERY, OPTIONS",
            Route::Record(..) => "GET, HEAD, PUT, PATCH, DELETE, OPTIONS",
            Route::QueryBody(_) => "POST, OPTIONS",
            Route::Stored(..) => "PUT, DELETE, OPTIONS",
            Route::Live(_) => "GET, OPTIONS",
            Route::Count(_)
            | Route::Aggregate(_)
            | Route::Explain(_)
            | Route::Sketch(_)
            | Route::Operation(_) => READ,
            Route::Later(_, allow) => allow,
        }
    }

    /// Whether the resource knows the method.
    #[must_use]
    pub fn allows(&self, method: &Method) -> bool {
        self.allow()
            .split(", ")
            .any(|known| known == method.as_str())
    }

    /// The stable word for metrics and logs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Route::Collection(_) => "collection",
            Route::Record(..) => "record",
            Route::Count(_) => "count",
            Route::Aggregate(_) => "aggregate",
            Route::QueryBody(_) => "query-body",
            Route::Explain(_) => "explain",
            Route::Live(_) => "live",
            Route::Stored(..) => "stored-query",
            Route::Sketch(_) => "sketch",
            Route::Later(..) => "later",
            Route::Operation(_) => "operation",
        }
    }
}

fn operation(path: &str) -> Result<Operation, Problem> {
    Ok(match path {
        "/" => Operation::Landing,
        "/healthz" => Operation::Health,
        "/readyz" => Operation::Ready,
        "/metrics" => Operation::Metrics,
        "/openapi.json" => Operation::OpenApi,
        "/_console/" => Operation::Console,
        "/_console/activity.json" => Operation::Activity,
        _ => return Err(Problem::no_such_path()),
    })
}

fn resource(rest: &str) -> Result<Route, Problem> {
    let segments: Vec<&str> = rest.split('/').collect();
    match segments[..] {
        [db, "_sketch"] => Ok(Route::Sketch(database(db)?)),
        [db, "_transactions"] => {
            database(db).map(|_| Route::Later("a transaction", "POST, OPTIONS"))
        }
        [db, "_queries", hash] if is_hash(hash) => {
            Ok(Route::Stored(database(db)?, hash.to_owned()))
        }
        [db, collection] => Ok(Route::Collection(namespace(db, collection)?)),
        [db, collection, last] => below_collection(namespace(db, collection)?, last),
        [db, collection, form, "_live"] => {
            let route = below_collection(namespace(db, collection)?, form)?;
            match route {
                Route::Count(_) | Route::Aggregate(_) => Ok(Route::Live(Box::new(route))),
                _ => Err(Problem::no_such_path()),
            }
        }
        _ => Err(Problem::no_such_path()),
    }
}

fn below_collection(namespace: Namespace, last: &str) -> Result<Route, Problem> {
    match last {
        "_count" => Ok(Route::Count(namespace)),
        "_query" => Ok(Route::QueryBody(namespace)),
        "_live" => Ok(Route::Live(Box::new(Route::Collection(namespace)))),
        "_aggregate" => Ok(Route::Aggregate(namespace)),
        "_explain" => Ok(Route::Explain(namespace)),
        "" => Err(Problem::no_such_path()),
        _ if last.starts_with('_') => Err(Problem::no_such_path()),
        _ => {
            let decoded = segment::decode(last)?;
            if decoded.starts_with('_') {
                return Err(Problem::no_such_path());
            }
            let id = RecordId::parse_segment(&decoded)
                .map_err(|error| Problem::malformed(format!("not an id: {error}")))?;
            Ok(Route::Record(namespace, id))
        }
    }
}

fn namespace(db: &str, collection: &str) -> Result<Namespace, Problem> {
    let (db, collection) = (segment::decode(db)?, segment::decode(collection)?);
    Namespace::new(&db, &collection).map_err(|error| match error {
        NameError::Empty | NameError::Reserved => Problem::no_such_path(),
        other => Problem::malformed(format!("not a database and collection: {other}")),
    })
}

fn database(db: &str) -> Result<String, Problem> {
    let name = segment::decode(db)?.into_owned();
    namespace(db, "any").map(|_| name)
}

/// Whether a text is a key's hash.
#[must_use]
pub fn is_hash(text: &str) -> bool {
    text.len() == 32
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn kind(path: &str) -> Kind {
        Route::parse(path).expect_err(path).kind
    }

    #[test]
    fn paths_that_name_something() {
        let ns = Namespace::new("shop", "items").expect("valid");
        assert_eq!(
            Route::parse("/v1/shop/items").ok(),
            Some(Route::Collection(ns.clone()))
        );
        assert_eq!(
            Route::parse("/v1/shop/items/_count").ok(),
            Some(Route::Count(ns.clone()))
        );
        assert_eq!(
            Route::parse("/v1/shop/_sketch").ok(),
            Some(Route::Sketch("shop".into()))
        );
        for id in ["1", "a%20b", "~5", "656e6f7267616e69736d2e2e", "a;b=c"] {
            let path = format!("/v1/shop/items/{id}");
            assert!(
                matches!(Route::parse(&path), Ok(Route::Record(..))),
                "{path}"
            );
        }
        for path in ["_live", "_count/_live", "_aggregate/_live"] {
            let path = format!("/v1/shop/items/{path}");
            assert!(matches!(Route::parse(&path), Ok(Route::Live(_))), "{path}");
        }
        let later = Route::parse("/v1/shop/_transactions");
        assert!(matches!(later, Ok(Route::Later(..))));
    }

    #[test]
    fn paths_that_name_nothing() {
        for path in [
            "",
            "/v1",
            "/v1/",
            "/v1/shop",
            "/v1/shop/",
            "/v1/shop/items/",
            "/v1/shop/items/1/",
            "/v1/shop/items/1/x.css",
            "//v1/shop/items",
            "/v1//items",
            "/V1/shop/items",
            "/v1/_db/items",
            "/v1/shop/_items",
            "/v1/shop/items/_what",
            "/v1/shop/items/1/_live",
            "/v1/shop/items/_live/_live",
            "/v1/shop/_live",
            "/v1/shop/items/%5Fcount",
            "/v1/shop/items/a%2Fb",
            "/v1/shop/items/a%2fb",
            "/v1/shop/system.users",
            "/v1/shop/_queries/xyz",
            "/healthz/",
            "/v1/shop/items/..",
            "/v1/shop/../items",
        ] {
            assert_eq!(kind(path), Kind::NotFound, "{path}");
        }
        for path in [
            "/v1/shop/it%zz",
            "/v1/shop/items/%ff",
            "/v1/shop/items/%",
            "/v1/sh$op/items",
            "/v1/shop/items/~{",
        ] {
            assert_eq!(kind(path), Kind::Malformed, "{path}");
        }
    }
}
