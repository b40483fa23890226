//! Logs: structured, to stderr, one subscriber for the process.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::config::settings::{Log, LogFormat};

/// Starts logging. A second call changes nothing.
pub fn start(settings: &Log) {
    let filter = EnvFilter::try_new(&settings.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let _ = match settings.format {
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
        LogFormat::Pretty => builder.with_target(false).try_init(),
    };
}
