//! What the gateway is measured against: the least that an axum server can do for the same answer.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bson::{RawDocumentBuf, doc};
use bytes::Bytes;

/// Which baseline to serve.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Answer a constant body of this many bytes.
    #[arg(long, conflicts_with = "mongodb")]
    body_bytes: Option<usize>,
    /// Answer `/{id}` with the bytes of `find_one` in `bench.records` of this deployment.
    #[arg(long)]
    mongodb: Option<String>,
}

/// Serves on a free port of loopback and prints the address as the first line on stdout.
///
/// # Errors
/// The port could not be bound or the database not be reached.
pub(crate) async fn serve(options: &Options) -> anyhow::Result<()> {
    let router = match (&options.mongodb, options.body_bytes) {
        (Some(uri), _) => driver(uri).await?,
        (None, Some(bytes)) => constant(bytes),
        (None, None) => anyhow::bail!("give --body-bytes or --mongodb"),
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    axum::serve(listener, router).await.context("serving")
}

#[allow(clippy::print_stdout)] // the parent process reads the address here
fn announce(address: SocketAddr) {
    println!("{address}");
}

fn constant(bytes: usize) -> Router {
    let body = Bytes::from(vec![b'x'; bytes]);
    Router::new().route(
        "/{*path}",
        get(move || {
            let body = body.clone();
            async move { ([(CONTENT_TYPE, "application/json")], body) }
        }),
    )
}

type Records = Arc<mongodb::Collection<RawDocumentBuf>>;

async fn driver(uri: &str) -> anyhow::Result<Router> {
    let client = mongodb::Client::with_uri_str(uri).await?;
    let records: Records = Arc::new(client.database("bench").collection("records"));
    Ok(Router::new()
        .route("/{id}", get(find_one))
        .with_state(records))
}

async fn find_one(State(records): State<Records>, Path(id): Path<String>) -> Response {
    match records.find_one(doc! { "_id": id }).await {
        Ok(Some(document)) => {
            ([(CONTENT_TYPE, "application/bson")], document.into_bytes()).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
