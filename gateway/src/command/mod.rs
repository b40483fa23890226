//! The commands of the binary: each turns its arguments into settings, and settings into something that runs.

pub mod check;
pub mod dev;
pub mod import;
pub mod serve;
pub mod worker;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use crate::config::{Layers, Mistake};

/// The exit code of a usage mistake (`sysexits.h`, `EX_USAGE`).
pub const USAGE: u8 = 64;

/// Says why a command failed, on stderr.
#[must_use]
pub fn failed(error: &anyhow::Error) -> ExitCode {
    complain(&format!("freshet: {error:#}"));
    ExitCode::FAILURE
}

/// The environment and the flags, read once.
#[allow(clippy::disallowed_methods)]
fn layers(flags: Vec<(String, String)>) -> Layers {
    let variables: BTreeMap<String, String> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    Layers {
        variables,
        flags: flags.into_iter().collect(),
    }
}

fn mistaken(mistakes: &[Mistake]) -> ExitCode {
    for mistake in mistakes {
        complain(&mistake.to_string());
    }
    let count = mistakes.len();
    complain(&format!(
        "freshet: {count} mistake{} in the settings",
        if count == 1 { "" } else { "s" }
    ));
    ExitCode::from(USAGE)
}

/// A line on stderr. Where that is closed, nobody is there to be told.
fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A line on stdout.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// 32 bytes that nobody can foresee.
fn entropy() -> freshet_invalidation::sketch::Entropy {
    // The one place where randomness enters; below it, it is an argument.
    #[allow(clippy::disallowed_methods)]
    freshet_invalidation::sketch::Entropy(rand::random())
}

/// SIGTERM or SIGINT.
async fn told_to_stop() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
