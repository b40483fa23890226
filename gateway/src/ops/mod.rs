//! What is there for the people who run the gateway, and the page that greets the curious.

use freshet_invalidation::purge::EdgeStatus;
use freshet_invalidation::{Pipeline, Status};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde_json::Value;

use crate::app::App;
use crate::error::Problem;
use crate::respond::{self, Reply};
use crate::route::{Operation, Params};
use crate::server::Body;
use crate::telemetry::metrics::Current;

/// The description of the interface.
pub const OPENAPI: &str = include_str!("openapi.json");
/// The media type of metrics.
pub const OPENMETRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const LANDING: &str = include_str!("landing.html");

/// Answers an operation.
///
/// # Errors
/// 400 for a parameter, 404 for what only `freshet dev` shows.
pub async fn reply(app: &App, operation: Operation, params: &Params) -> Result<Reply, Problem> {
    if operation != Operation::Activity
        && let Some((name, _)) = params.first()
    {
        return Err(Problem::malformed("no such parameter here").of_parameter(name.clone()));
    }
    let json = respond::JSON;
    match operation {
        Operation::Health => Ok(respond::private_body(
            StatusCode::OK,
            json,
            r#"{"status":"ok"}"#,
        )),
        Operation::Ready => Ok(ready(app).await),
        Operation::Metrics => {
            let text = metrics(app).await;
            Ok(respond::private_body(StatusCode::OK, OPENMETRICS, text))
        }
        Operation::OpenApi => Ok(respond::private_body(StatusCode::OK, json, OPENAPI)),
        Operation::Landing if app.activity.is_some() => {
            let html = HeaderValue::from_static("text/html; charset=utf-8");
            Ok(respond::private_body(StatusCode::OK, html, LANDING))
        }
        Operation::Console if app.activity.is_some() => {
            let mut headers = respond::private(None);
            headers.insert(LOCATION, HeaderValue::from_static("/"));
            Ok(respond::reply(
                StatusCode::TEMPORARY_REDIRECT,
                headers,
                Body::empty(),
            ))
        }
        Operation::Activity => activity(app, params),
        Operation::Landing | Operation::Console => Err(Problem::no_such_path()),
    }
}

fn activity(app: &App, params: &Params) -> Result<Reply, Problem> {
    let activity = app.activity.as_ref().ok_or_else(Problem::no_such_path)?;
    let since = match params.as_slice() {
        [] => 0,
        [(name, value)] if name == "since" => value
            .parse()
            .map_err(|_| Problem::malformed("must be a number").of_parameter("since"))?,
        [(name, _), ..] => {
            return Err(Problem::malformed("no such parameter here").of_parameter(name.clone()));
        }
    };
    Ok(respond::private_body(
        StatusCode::OK,
        respond::JSON,
        activity.since(since),
    ))
}

/// Ready while the database answers and the gateway is not draining. A sketch or matcher that is down does not
/// make it unready: reads still work, uncached (C16).
async fn ready(app: &App) -> Reply {
    let limit = std::time::Duration::from_secs(1);
    let store = matches!(
        tokio::time::timeout(limit, app.store.ping()).await,
        Ok(Ok(()))
    );
    let draining = app.draining.load(std::sync::atomic::Ordering::Relaxed);
    let pipeline = app.pipeline.probe().await;
    let ready = store && !draining;
    let body = serde_json::json!({
        "ready": ready,
        "store": store,
        "draining": draining,
        "caching": pipeline.live && pipeline.sketch,
        "pipeline": state(&pipeline),
        "edges": edges(&app.pipeline),
    });
    let status = match ready {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    respond::private_body(status, respond::JSON, body.to_string())
}

/// How a pipeline is doing.
#[must_use]
pub fn state(pipeline: &Status) -> Value {
    let unbounded = pipeline.invalidation_ms == u32::MAX;
    serde_json::json!({
        "live": pipeline.live,
        "sketch": pipeline.sketch,
        "saturated": pipeline.saturated,
        "epoch": pipeline.epoch.to_string(),
        "watermark": pipeline.watermark.to_string(),
        "watermark_age_ms": pipeline.watermark_age_ms,
        "invalidation_ms": if unbounded { None } else { Some(pipeline.invalidation_ms) },
        "active_queries": pipeline.active_queries,
        "purges_pending": pipeline.purges_pending,
    })
}

/// How its edges are doing.
#[must_use]
pub fn edges(pipeline: &Pipeline) -> Vec<Value> {
    pipeline.edges().iter().map(edge).collect()
}

/// One that is down does not make the gateway unready: what it holds ends with its lifetime, and it is given no more (C3).
fn edge(status: &EdgeStatus) -> Value {
    serde_json::json!({
        "name": status.name,
        "down": status.down,
        "pending": status.pending,
        "unconfirmed_ms": status.unconfirmed_ms,
        "failing_ms": status.failing_ms,
    })
}

async fn metrics(app: &App) -> String {
    app.pipeline.refresh_metrics().await;
    let (entries, bytes) = app.tier.size();
    app.metrics.text(Current {
        tier: (entries as u64, bytes),
        live: app.lives.count(),
    })
}
