//! `freshet serve`: settings → store, pipeline, application → serve until SIGTERM → drain.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use freshet_core::time::Clock;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{layers, mistaken};
use crate::app::App;
use crate::assemble::{self, Assembled};
use crate::cli::Configured;
use crate::clock::SystemClock;
use crate::config::{self, Settings};
use crate::handle::handle;
use crate::server::{self, Ended};
use crate::telemetry::activity::Activity;
use crate::telemetry::log;
use crate::write::idempotency;

/// How often kept first answers are looked through for old ones.
const SWEEP: Duration = Duration::from_secs(600);

/// Reads the settings and serves.
///
/// # Errors
/// What keeps it from starting.
pub async fn run(configured: Configured) -> anyhow::Result<ExitCode> {
    match config::load(configured.config.as_deref(), &layers(configured.flags())) {
        Ok(settings) => serve(settings, None, |_| ()).await,
        Err(mistakes) => Ok(mistaken(&mistakes)),
    }
}

/// Serves, calling `ready` with the address once requests are taken.
///
/// # Errors
/// What keeps it from starting.
pub async fn serve(
    settings: Settings,
    activity: Option<Arc<Activity>>,
    ready: impl FnOnce(std::net::SocketAddr),
) -> anyhow::Result<ExitCode> {
    log::start(&settings.log);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let stop = CancellationToken::new();
    let assembled = assemble::assemble(
        settings,
        Arc::clone(&clock),
        super::entropy(),
        activity,
        &stop,
    )
    .await?;
    serve_app(assembled, stop, ready).await
}

/// Serves an application that is put together already.
///
/// # Errors
/// What keeps it from listening.
pub async fn serve_app(
    assembled: Assembled,
    stop: CancellationToken,
    ready: impl FnOnce(std::net::SocketAddr),
) -> anyhow::Result<ExitCode> {
    let Assembled { app, tasks } = assembled;
    let listen = app.settings.server.listen;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("cannot listen on {listen} (`--port` or `server.listen` name another)")
    })?;
    let address = listener.local_addr().context("no local address")?;
    tasks.spawn(sweep(Arc::clone(&app), stop.clone()));
    tracing::info!(address = %address, "listening");
    ready(address);
    let for_requests = Arc::clone(&app);
    let ended = server::serve(
        listener,
        &app.settings.server,
        Arc::clone(&app.clock),
        move |request, connection| {
            let answer = handle(Arc::clone(&for_requests), request, connection);
            async move { Ok(answer.await) }
        },
        told_to_drain(Arc::clone(&app)),
    )
    .await;
    stop.cancel();
    tasks.close();
    let _ = tokio::time::timeout(Duration::from_secs(5), tasks.wait()).await;
    match ended {
        Ended::Drained => tracing::info!("drained"),
        Ended::CutOff(connections) => {
            tracing::warn!(connections, "the drain deadline cut connections off")
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn told_to_drain(app: Arc<App>) {
    super::told_to_stop().await;
    app.draining.store(true, Ordering::Relaxed);
    app.lives.close();
    tracing::info!("draining");
}

/// Forgets first answers older than 24 h, in the databases that writes came for.
async fn sweep(app: Arc<App>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(SWEEP) => {}
        }
        for db in app.repeatable_dbs() {
            match idempotency::sweep(&*app.store, &db, app.clock.wall_ms()).await {
                Ok(0) => {}
                Ok(removed) => tracing::debug!(removed, "old first answers are forgotten"),
                Err(error) => tracing::warn!(%error, "old first answers cannot be looked through"),
            }
        }
    }
}
