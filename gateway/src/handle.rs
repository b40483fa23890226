//! One request: the tier first, by the target as it came; everything else is routed, checked and carried out.
//! Whatever goes wrong becomes a problem document here, and nowhere else.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http::header::{AUTHORIZATION, CACHE_CONTROL, COOKIE, HOST};
use http::{HeaderMap, Method, Request, Version};
use hyper::body::{Body as _, Incoming};

use crate::app::App;
use crate::auth::access::Right;
use crate::error::{Kind, Limit, Problem};
use crate::read::answer::{self, Wanted};
use crate::read::{explain, path as reading, query_body, sketch};
use crate::respond::{self, CacheStatus, Reply};
use crate::route::{Params, Route, parse_params};
use crate::server::Connection;
use crate::stored::keep;
use crate::telemetry::activity::Event;
use crate::write::plan::Request as WriteRequest;
use crate::write::{body, path as writing};
use crate::{live, ops, preflight};

/// Answers a request, always.
pub async fn handle(
    app: Arc<App>,
    request: Request<Incoming>,
    connection: Arc<Connection>,
) -> Reply {
    if let Some(hit) = from_tier(&app, &request, &connection) {
        return hit;
    }
    connection.answers(false);
    let started = app.clock.now();
    let method = request.method().clone();
    let route = Route::parse(request.uri().path());
    let word = route.as_ref().map_or("none", Route::word);
    let answering = AssertUnwindSafe(dispatch(&app, route, request, &connection)).catch_unwind();
    let answered = answering
        .await
        .unwrap_or_else(|_| Err(Problem::new(Kind::Internal, "something went wrong here")));
    let reply = answered.unwrap_or_else(|problem| {
        connection.answers(false);
        if let Some(limit) = problem.limit {
            app.metrics.refused(limit);
        }
        log(&problem, word);
        respond::problem(&problem)
    });
    let ms = app.clock.now().since(started);
    app.metrics
        .answered(word, &method, reply.status().as_u16(), ms);
    match method {
        Method::HEAD => respond::without_body(reply),
        _ => reply,
    }
}

/// The answer under exactly this target, if the tier has it. Nothing is parsed: a target that is not canonical is
/// no key, and goes the long way.
fn from_tier(app: &App, request: &Request<Incoming>, connection: &Connection) -> Option<Reply> {
    let head = request.method() == Method::HEAD;
    if !head && request.method() != Method::GET || !request.body().is_end_stream() {
        return None;
    }
    if !names_its_host(request.version(), request.headers()) {
        return None;
    }
    let headers = request.headers();
    if headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE) || wants_reload(headers)
    {
        return None;
    }
    let target = request.uri().path_and_query()?.as_str();
    let now = app.clock.now();
    let entry = app.kept(target, now).filter(|entry| entry.by_url)?;
    let wanted = Wanted {
        headers,
        target,
        connection,
        url_bytes_max: app.settings.limits.url_bytes_max.len(),
    };
    let reply = answer::entry(app, wanted, target, &entry, CacheStatus::Hit).ok()?;
    app.metrics.hit();
    Some(if head {
        respond::without_body(reply)
    } else {
        reply
    })
}

/// Exactly one `Host` (RFC 9112 §3.2): what a cache in front takes for one request must not be another here.
fn names_its_host(version: Version, headers: &HeaderMap) -> bool {
    version != Version::HTTP_11 || headers.get_all(HOST).iter().count() == 1
}

/// `Cache-Control: no-cache`, which fetch mode `reload` sends (C9). `max-age=0` may be answered by the tier.
fn wants_reload(headers: &HeaderMap) -> bool {
    headers.get_all(CACHE_CONTROL).iter().any(|value| {
        value.to_str().is_ok_and(|text| {
            text.split(',')
                .any(|directive| directive.trim().eq_ignore_ascii_case("no-cache"))
        })
    })
}

async fn dispatch(
    app: &Arc<App>,
    route: Result<Route, Problem>,
    request: Request<Incoming>,
    connection: &Arc<Connection>,
) -> Result<Reply, Problem> {
    let (parts, incoming) = request.into_parts();
    if !names_its_host(parts.version, &parts.headers) {
        return Err(Problem::malformed("an HTTP/1.1 request has one Host field"));
    }
    let target = parts
        .uri
        .path_and_query()
        .map_or("/", |target| target.as_str());
    if target.len() > app.settings.limits.url_bytes_max.len() {
        let detail = format!(
            "at most {} bytes; QUERY takes the same query in a body",
            app.settings.limits.url_bytes_max.0
        );
        return Err(Problem::new(Kind::UriTooLong, detail));
    }
    let route = route?;
    if parts.method == Method::OPTIONS {
        return Ok(preflight::reply(&route));
    }
    if !route.allows(&parts.method) {
        return Err(Problem::method_not_allowed(route.allow()));
    }
    let reads = matches!(parts.method, Method::GET | Method::HEAD);
    if reads && !incoming.is_end_stream() {
        return Err(Problem::malformed("a GET has no body; QUERY has one"));
    }
    let params = parse_params(parts.uri.query())?;
    let wanted = Wanted {
        headers: &parts.headers,
        target,
        connection,
        url_bytes_max: app.settings.limits.url_bytes_max.len(),
    };
    match route {
        Route::Later(what, _) => Err(Problem::not_implemented(what)),
        Route::Operation(operation) => ops::reply(app, operation, &params).await,
        Route::Live(of) => live::open(app, *of, &params, &parts.headers, connection).await,
        Route::Explain(namespace) => explain::read(app, namespace, &params, &parts.headers).await,
        Route::Stored(db, hash) => store_query(app, &db, &hash, &parts, &params, incoming).await,
        Route::Sketch(db) => sketch::read(app, &db, &params, &parts.headers).await,
        Route::QueryBody(namespace) => query(app, namespace, incoming, &params, wanted).await,
        Route::Collection(namespace) if parts.method.as_str() == "QUERY" => {
            query(app, namespace, incoming, &params, wanted).await
        }
        route if reads => {
            let request = reading::Request {
                route,
                params,
                wanted,
                reload: wants_reload(&parts.headers),
            };
            let reply = reading::read(app, request).await?;
            note_read(app, target, &reply);
            Ok(reply)
        }
        route => write(app, route, parts.clone(), params, incoming).await,
    }
}

async fn query(
    app: &App,
    namespace: freshet_core::name::Namespace,
    incoming: Incoming,
    params: &Params,
    wanted: Wanted<'_>,
) -> Result<Reply, Problem> {
    if let Some((name, _)) = params.first() {
        return Err(Problem::malformed("the query is in the body").of_parameter(name.clone()));
    }
    app.access.check(&namespace, Right::Read, wanted.headers)?;
    body::Media::of(wanted.headers, &[body::Media::Json])?;
    let body = body::collect(incoming, wanted.headers, &app.settings).await?;
    query_body::read(app, namespace, &body, wanted).await
}

/// Stores or forgets a query. Whose collection it is of is said in the body.
async fn store_query(
    app: &App,
    db: &str,
    hash: &str,
    parts: &http::request::Parts,
    params: &Params,
    incoming: Incoming,
) -> Result<Reply, Problem> {
    if let Some((name, _)) = params.first() {
        return Err(Problem::malformed("no such parameter here").of_parameter(name.clone()));
    }
    let _permit = app.writes.try_acquire().map_err(|_| too_many_writes())?;
    if parts.method == Method::DELETE {
        return keep::delete(app, db, hash, &parts.headers).await;
    }
    body::Media::of(&parts.headers, &[body::Media::Json])?;
    let body = body::collect(incoming, &parts.headers, &app.settings).await?;
    keep::put(app, db, hash, &parts.headers, &body).await
}

/// Checked before its body is read; carried through even if the client goes away meanwhile.
async fn write(
    app: &Arc<App>,
    route: Route,
    parts: http::request::Parts,
    params: Params,
    incoming: Incoming,
) -> Result<Reply, Problem> {
    let namespace = match &route {
        Route::Collection(namespace) | Route::Record(namespace, _) => namespace.clone(),
        _ => return Err(Problem::no_such_path()),
    };
    app.access.check(&namespace, Right::Write, &parts.headers)?;
    let permit = Arc::clone(&app.writes)
        .try_acquire_owned()
        .map_err(|_| too_many_writes())?;
    let body = body::collect(incoming, &parts.headers, &app.settings).await?;
    let request = WriteRequest {
        route,
        target: parts
            .uri
            .path_and_query()
            .map_or_else(String::new, ToString::to_string),
        method: parts.method,
        params,
        headers: parts.headers,
        body,
    };
    let app = Arc::clone(app);
    let carried = tokio::spawn(async move {
        let _permit = permit;
        let (rule, _) = app
            .access
            .check(&namespace, Right::Write, &request.headers)?;
        let reply = writing::write(&app, rule, &request).await?;
        note_write(&app, &request.target, &reply);
        Ok(reply)
    });
    carried.await.unwrap_or_else(|error| {
        Err(Problem::new(Kind::Internal, "something went wrong here").because(error.to_string()))
    })
}

fn too_many_writes() -> Problem {
    let problem = Problem::new(Kind::TooManyRequests, "too many writes are under way");
    problem.of_limit(Limit::Writes)
}

/// What fails is a warning; a limit that is reached is no failure, however often that is.
fn log(problem: &Problem, route: &'static str) {
    let status = problem.kind.status();
    let internal = problem.internal.as_deref().unwrap_or("");
    let refused = problem.limit.is_some() || problem.kind == Kind::NotImplemented;
    if status >= 500 && !refused {
        tracing::warn!(
            kind = problem.kind.word(),
            status,
            route,
            internal,
            "a request failed"
        );
    } else {
        tracing::debug!(
            kind = problem.kind.word(),
            status,
            route,
            internal,
            limit = problem.limit.map_or("", Limit::setting),
            "a request was refused"
        );
    }
}

fn note_read(app: &App, target: &str, reply: &Reply) {
    if let Some(activity) = &app.activity {
        let status = reply.headers().get(respond::CACHE_STATUS);
        let status = status
            .and_then(|value| value.to_str().ok())
            .unwrap_or("")
            .to_owned();
        let key = target.to_owned();
        activity.add(Event::Read { key, status }, app.clock.wall_ms());
    }
}

fn note_write(app: &App, target: &str, reply: &Reply) {
    if let Some(activity) = &app.activity {
        let position = reply.headers().get(respond::FRESHET_POSITION);
        let position = position
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .unwrap_or(0);
        let key = target.to_owned();
        activity.add(Event::Written { key, position }, app.clock.wall_ms());
    }
}
