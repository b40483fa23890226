//! `freshet import`: a file, a bar, a summary.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use freshet_core::name::Namespace;
use freshet_core::time::Clock;
use indicatif::{ProgressBar, ProgressStyle};

use super::{complain, layers, mistaken, say};
use crate::assemble;
use crate::cli::Import;
use crate::clock::SystemClock;
use crate::config;
use crate::import::{self, Options, Outcome, Progress};

/// Bad documents that are listed; the others are counted.
const BAD_LISTED_MAX: usize = 20;

/// Imports a file.
///
/// # Errors
/// What ended it early, with the line.
pub async fn run(arguments: Import) -> anyhow::Result<ExitCode> {
    let mut layers = layers(vec![("store".to_owned(), arguments.store.clone())]);
    layers.variables.clear();
    let settings = match config::parse("", "", &layers) {
        Ok(settings) => settings,
        Err(mistakes) => return Ok(mistaken(&mistakes)),
    };
    let (db, collection) = arguments
        .into
        .split_once('.')
        .context("--into must be DATABASE.COLLECTION")?;
    let namespace = Namespace::new(db, collection).context("--into")?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = assemble::open_store(&settings.store, &clock).await?;

    let file = arguments.file.as_path();
    let (input, size) = open(file)?;
    let from_stdin = file == Path::new("-");
    let after_line = match arguments.resume && !from_stdin {
        true => Progress::load(file, &arguments.into, size),
        false => 0,
    };
    let options = Options {
        batch: arguments.batch,
        skip_bad: arguments.skip_bad,
        after_line,
    };
    let bar = bar(size);
    let imported = import::import(&*store, &namespace, input, options, |line, bytes| {
        bar.set_position(bytes);
        if !from_stdin {
            let progress = Progress {
                into: arguments.into.clone(),
                file_bytes: size,
                line,
            };
            // An import that cannot keep its progress still imports; it only cannot be resumed.
            let _ = progress.save(file);
        }
    })
    .await;
    bar.finish_and_clear();
    let outcome = imported.with_context(|| match from_stdin {
        true => "the import ended early".to_owned(),
        false => format!(
            "the import ended early; go on with --resume ({})",
            file.display()
        ),
    })?;
    Progress::forget(file);
    summarise(&outcome, &arguments.into, after_line);
    Ok(match outcome.bad_count {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    })
}

fn open(file: &Path) -> anyhow::Result<(Box<dyn BufRead>, u64)> {
    if file == Path::new("-") {
        return Ok((Box::new(BufReader::new(std::io::stdin())), 0));
    }
    let opened = File::open(file).with_context(|| file.display().to_string())?;
    let size = opened
        .metadata()
        .with_context(|| file.display().to_string())?
        .len();
    Ok((Box::new(BufReader::with_capacity(1 << 20, opened)), size))
}

/// Drawn on a terminal only.
fn bar(size: u64) -> ProgressBar {
    let bar = ProgressBar::new(size);
    let template = "{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn summarise(outcome: &Outcome, into: &str, after_line: u64) {
    if after_line > 0 {
        say(&format!("went on after line {after_line}"));
    }
    say(&format!("{} documents stored in {into}", outcome.stored));
    for (line, reason) in outcome.bad.iter().take(BAD_LISTED_MAX) {
        complain(&format!("line {line}: {reason}"));
    }
    if outcome.bad_count > 0 {
        complain(&format!("{} documents left out", outcome.bad_count));
    }
}
