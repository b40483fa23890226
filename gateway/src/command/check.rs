//! `freshet check` and `freshet settings`.

use std::process::ExitCode;

use super::{layers, mistaken, say};
use crate::cli::Configured;
use crate::config;
use crate::config::settings::{Grant, Queries};

/// Reports every mistake in the settings with its place.
///
/// # Errors
/// None; a mistake is an exit code.
pub fn run(configured: &Configured) -> anyhow::Result<ExitCode> {
    match config::load(configured.config.as_deref(), &layers(configured.flags())) {
        Ok(settings) => {
            say(&format!(
                "the settings are fine: {} access rules, {} edges, listening on {}",
                settings.access.len(),
                settings.edges.len(),
                settings.server.listen
            ));
            if settings.access.is_empty() {
                say("note: no access rule, so every collection is denied");
            }
            for rule in &settings.access {
                if rule.queries == Queries::Stored && rule.stores() == Grant::Deny {
                    say(&format!(
                        "note: on {:?} only stored queries are answered, and nobody may store one; `store_queries = \"token\"` lets the bearer of the token",
                        rule.collection
                    ));
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(mistakes) => Ok(mistaken(&mistakes)),
    }
}

/// Prints every setting.
///
/// # Errors
/// None.
pub fn print_reference() -> anyhow::Result<ExitCode> {
    say("# Every setting of freshet, with its default. Any of them can also come from a variable");
    say(
        "# (server.listen is FRESHET_SERVER_LISTEN; arrays as TOML) or a flag (--set server.listen=…).\n",
    );
    say(config::reference_toml().trim_start());
    Ok(ExitCode::SUCCESS)
}
