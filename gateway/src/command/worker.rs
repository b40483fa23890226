//! `freshet worker`: settings → one cell of the grid → its pages until SIGTERM.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use freshet_core::time::Clock;
use freshet_invalidation::Pipeline;
use freshet_invalidation::partition::{Cell, Shape};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{layers, mistaken};
use crate::assemble::worker::{self, Worker};
use crate::cli;
use crate::clock::SystemClock;
use crate::config::settings::Grid;
use crate::config::{self, Settings};
use crate::ops;
use crate::respond::{self, Reply};
use crate::server;
use crate::telemetry::log;

/// How long streams keep their entries where the settings have no grid: the gateways' have one.
const RETENTION: Duration = Duration::from_secs(30);
/// How long the cell may take to end.
const END_MAX: Duration = Duration::from_secs(5);

/// Reads the settings and works.
///
/// # Errors
/// What keeps it from starting.
pub async fn run(arguments: cli::Worker) -> anyhow::Result<ExitCode> {
    let configured = &arguments.configured;
    match config::load(configured.config.as_deref(), &layers(configured.flags())) {
        Ok(settings) => work(settings, &arguments).await,
        Err(mistakes) => Ok(mistaken(&mistakes)),
    }
}

async fn work(settings: Settings, arguments: &cli::Worker) -> anyhow::Result<ExitCode> {
    let (row, column) = (arguments.query_partition, arguments.write_partition);
    let shape = Shape {
        queries: row.of,
        writes: column.of,
    };
    let grid = settings.grid.unwrap_or(Grid {
        shape,
        retention: RETENTION,
    });
    ensure!(
        grid.shape == shape,
        "the settings have a grid of {} query partitions and {} write partitions: `--query-partition` and `--write-partition` must say the same",
        grid.shape.queries,
        grid.shape.writes,
    );
    let cell = Cell {
        shape,
        row: row.index,
        column: column.index,
    };
    log::start(&settings.log);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let stop = CancellationToken::new();
    let listener = TcpListener::bind(settings.server.listen)
        .await
        .with_context(|| {
            let listen = settings.server.listen;
            format!("cannot listen on {listen} (`--listen` names another)")
        })?;
    let entropy = super::entropy();
    let worker =
        worker::assemble(&settings, &grid, cell, Arc::clone(&clock), entropy, &stop).await?;
    let address = listener.local_addr().context("no local address")?;
    tracing::info!(%address, %cell, "working");
    match serve(listener, &settings, clock, worker, stop).await {
        true => Ok(ExitCode::SUCCESS),
        false => bail!("another process has become cell {cell}"),
    }
}

/// Whether it was told to end, and did not end by itself.
async fn serve(
    listener: TcpListener,
    settings: &Settings,
    clock: Arc<dyn Clock>,
    worker: Worker,
    stop: CancellationToken,
) -> bool {
    let Worker { pipeline, tasks } = worker;
    let mut registry = Registry::default();
    pipeline.register(&mut registry);
    let registry = Arc::new(registry);
    let handler = move |request: Request<Incoming>, _| {
        let (pipeline, registry) = (pipeline.clone(), Arc::clone(&registry));
        async move { Ok(answer(request.uri().path(), &pipeline, &registry).await) }
    };
    let ended = stop.clone();
    let told = async move {
        tokio::select! {
            () = super::told_to_stop() => {}
            () = ended.cancelled() => {}
        }
    };
    server::serve(listener, &settings.server, clock, handler, told).await;
    let is_told = !stop.is_cancelled();
    stop.cancel();
    tasks.close();
    let _ = tokio::time::timeout(END_MAX, tasks.wait()).await;
    tracing::info!("ended");
    is_told
}

/// Ready once it matches what comes and its effects get through.
async fn answer(path: &str, pipeline: &Pipeline, registry: &Registry) -> Reply {
    match path {
        "/healthz" => {
            let body = r#"{"status":"ok"}"#;
            respond::private_body(StatusCode::OK, respond::JSON, body)
        }
        "/readyz" => {
            let status = pipeline.probe().await;
            let ready = status.live && status.sketch;
            let body = serde_json::json!({
                "ready": ready,
                "pipeline": ops::state(&status),
                "edges": ops::edges(pipeline),
            });
            let code = match ready {
                true => StatusCode::OK,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            respond::private_body(code, respond::JSON, body.to_string())
        }
        "/metrics" => {
            pipeline.refresh_metrics().await;
            let mut text = String::new();
            // Writing to a string cannot fail.
            let _ = encode(&mut text, registry);
            respond::private_body(StatusCode::OK, ops::OPENMETRICS, text)
        }
        _ => respond::private_body(
            StatusCode::NOT_FOUND,
            respond::JSON,
            r#"{"paths":["/healthz","/readyz","/metrics"]}"#,
        ),
    }
}
