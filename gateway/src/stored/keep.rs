//! `PUT` and `DELETE /v1/{db}/_queries/{hash}`. Storing needs a right of its own (`store_queries`; without it the right
//! to write the collection), since where only stored queries are answered it decides what may be asked.

use bson::{RawBsonRef, rawdoc};
use freshet_core::freshness::etag;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use http::header::{ETAG, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::json;

use super::{Stored, place};
use crate::app::App;
use crate::auth::access::Right;
use crate::error::{Kind, Limit, Problem};
use crate::read::asked::Asked;
use crate::read::query_body::parameters;
use crate::respond::{self, FRESHET_POSITION, Reply};
use crate::route::Route;
use crate::server::Body;
use crate::store::StoreError;

/// Stores a query under its hash: 201, or 200 where it was stored already.
///
/// # Errors
/// 400 for a body that is no query, or a query of another hash; 401, 403; 413 for too long a query; 429 where there are
/// too many.
pub async fn put(
    app: &App,
    db: &str,
    hash: &str,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Reply, Problem> {
    let stored = understood(app, db, headers, body)?;
    let right = stored.hash();
    if right != hash {
        let detail = "the hash in the path is not that of this query's key";
        return Err(Problem::malformed(detail).with_hash(right));
    }
    let place = place(db)?;
    let id = RawBsonRef::String(hash);
    let got = app.store.get(&place, id, app.pipeline.position()).await?;
    if let Some(record) = got.document {
        return match Stored::of_record(db, hash, &record) {
            Some(there) if there.key == stored.key => {
                Ok(reply(&stored, StatusCode::OK, got.position))
            }
            _ => Err(Problem::new(
                Kind::Conflict,
                "something else is stored under this hash",
            )),
        };
    }
    let stored_max = app.settings.limits.stored_queries_max;
    let all = app.store.count(&place, &rawdoc! {}, got.position).await?;
    if all.count >= stored_max {
        let detail = format!("at most {stored_max} stored queries in a database; DELETE some");
        return Err(Problem::new(Kind::TooManyRequests, detail).of_limit(Limit::StoredQueries));
    }
    let record = stored.record(app.clock.wall_ms());
    match app.store.insert(&place, &[record]).await {
        Ok(position) => {
            app.pipeline.observe(position);
            Ok(reply(&stored, StatusCode::CREATED, position))
        }
        // Another one stored it just now.
        Err(StoreError::DuplicateId) => Ok(reply(&stored, StatusCode::OK, app.store.committed())),
        Err(error) => Err(error.into()),
    }
}

/// Forgets a stored query. Gateways that have it at hand answer it for up to a minute more.
///
/// # Errors
/// 404 where none is stored; 401, 403.
pub async fn delete(
    app: &App,
    db: &str,
    hash: &str,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let place = place(db)?;
    let id = RawBsonRef::String(hash);
    let got = app.store.get(&place, id, app.pipeline.position()).await?;
    let stored = got
        .document
        .and_then(|record| Stored::of_record(db, hash, &record))
        .ok_or_else(|| not_stored(db))?;
    app.access
        .check(&stored.query.namespace, Right::Store, headers)?;
    let deleted = app.store.delete(&place, id).await?;
    app.shelf.forget(db, hash);
    let position = deleted.ok_or_else(|| not_stored(db))?;
    app.pipeline.observe(position);
    let mut headers = respond::private(None);
    headers.insert(FRESHET_POSITION, respond::position(position));
    Ok(respond::reply(
        StatusCode::NO_CONTENT,
        headers,
        Body::empty(),
    ))
}

/// 404 for a hash under which nothing is stored.
#[must_use]
pub fn not_stored(db: &str) -> Problem {
    let detail = format!(
        "no query of this collection is stored under this hash: PUT /v1/{db}/_queries/{{hash}} stores one"
    );
    Problem::new(Kind::NotFound, detail)
}

/// The body's query, which the caller may store, and which would be answered.
fn understood(app: &App, db: &str, headers: &HeaderMap, body: &[u8]) -> Result<Stored, Problem> {
    let mut params = parameters(body)?;
    let at = params.iter().position(|(name, _)| name == "collection");
    let wrong = |detail: String| Problem::malformed(detail).at("/collection");
    let (_, collection) = at
        .map(|at| params.remove(at))
        .ok_or_else(|| wrong("the body names a collection".to_owned()))?;
    let namespace = Namespace::new(db, &collection).map_err(|error| wrong(error.to_string()))?;
    let (rule, _) = app.access.check(&namespace, Right::Store, headers)?;
    let asked = Asked::parse(Route::Collection(namespace), &params)?;
    asked.check(rule)?;
    let key = asked.key();
    let bytes_max = app.settings.limits.stored_query_bytes_max;
    if key.as_str().len() > bytes_max.len() {
        let detail = format!("at most {} bytes in canonical form", bytes_max.0);
        return Err(Problem::new(Kind::TooLarge, detail));
    }
    Stored::of_key(key.as_str())
        .ok_or_else(|| Problem::new(Kind::Internal, "a key that names no query"))
}

fn reply(stored: &Stored, status: StatusCode, position: Position) -> Reply {
    let url = stored.url();
    let said = json!({"hash": stored.hash(), "key": stored.key.as_str(), "url": url});
    let body = said.to_string();
    let mut reply = respond::private_body(status, respond::JSON, body.clone());
    let headers = reply.headers_mut();
    headers.insert(FRESHET_POSITION, respond::position(position));
    let tag = etag(body.as_bytes()).to_string();
    for (name, value) in [(ETAG, tag), (LOCATION, url)] {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
    reply
}
