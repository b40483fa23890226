//! The sketch of a database's public collections, as bytes (`docs/protocol.md`, *The sketch*).

use freshet_core::name::Namespace;
use freshet_invalidation::sketch::port::Scope;
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::app::App;
use crate::auth::access::Right;
use crate::error::Problem;
use crate::respond::{self, Reply};
use crate::route::Params;

const SKETCH: HeaderValue = HeaderValue::from_static("application/vnd.freshet.sketch");

/// More than fit into a URL.
const COLLECTIONS_MAX: usize = 256;

/// Answers with the sketch.
///
/// # Errors
/// 400 for another parameter than `collections` and `since`; 401 or 403 for a collection that may not be read.
pub async fn read(
    app: &App,
    db: &str,
    params: &Params,
    headers: &HeaderMap,
) -> Result<Reply, Problem> {
    let mut scope = Scope::Database(db.into());
    for (name, value) in params {
        match name.as_str() {
            "collections" => scope = Scope::Collections(named(app, db, value, headers)?),
            // A delta may be answered, and need not be: the whole sketch always is right.
            "since" => check_since(value)?,
            _ => {
                return Err(Problem::malformed("no such parameter here").of_parameter(name.clone()));
            }
        }
    }
    let bytes = app.pipeline.sketch(scope).await;
    Ok(respond::private_body(StatusCode::OK, SKETCH, bytes))
}

fn named(app: &App, db: &str, value: &str, headers: &HeaderMap) -> Result<Vec<Namespace>, Problem> {
    let names: Vec<&str> = value.split(',').collect();
    if names.len() > COLLECTIONS_MAX {
        return Err(Problem::malformed("too many collections").of_parameter("collections"));
    }
    names
        .into_iter()
        .map(|collection| {
            let namespace = Namespace::new(db, collection).map_err(|error| {
                Problem::malformed(error.to_string()).of_parameter("collections")
            })?;
            app.access.check(&namespace, Right::Read, headers)?;
            Ok(namespace)
        })
        .collect()
}

fn check_since(value: &str) -> Result<(), Problem> {
    let valid = value.split_once('.').is_some_and(|(epoch, watermark)| {
        epoch.parse::<u64>().is_ok() && watermark.parse::<u64>().is_ok()
    });
    match valid {
        true => Ok(()),
        false => Err(
            Problem::malformed("must be epoch.watermark, two decimal numbers")
                .of_parameter("since"),
        ),
    }
}
