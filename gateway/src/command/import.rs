//! `freshet import`: a file, a bar, a summary.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, bail};
use bson::oid::ObjectId;
use freshet_core::name::Namespace;
use freshet_core::time::Clock;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::{complain, layers, mistaken, say};
use crate::assemble;
use crate::cli::Import;
use crate::clock::SystemClock;
use crate::config;
use crate::import::{self, ImportError, Mark, Options, Outcome, Progress};

/// Bad documents that are listed; the others are counted.
const BAD_LISTED_MAX: usize = 20;
/// 128 and the number of SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;

/// Imports a file.
///
/// # Errors
/// What ended it early, with the place.
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
    let mut journal = Journal::start(&arguments)?;
    let after = journal.progress.mark;
    let (stop, abandon) = stop_on_interrupt(journal.file.is_some())?;
    let options = Options {
        batch: usize::from(arguments.batch),
        skip_bad: arguments.skip_bad,
        after,
        first_id: journal.progress.first_id,
        stop,
    };
    let bar = bar(size);
    let importing = import::import(&*store, &namespace, input, options, |mark, bytes| {
        bar.set_position(bytes);
        journal.keep(mark);
    });
    let imported = tokio::select! {
        imported = importing => imported,
        () = abandon.cancelled() => return Ok(ExitCode::from(INTERRUPTED)),
    };
    bar.finish_and_clear();
    let outcome = imported.map_err(|error| match error {
        ImportError::Changed { .. } => {
            anyhow::Error::new(error).context("without --resume, the import begins anew")
        }
        error => anyhow::Error::new(error).context(journal.advice()),
    })?;
    summarise(&outcome, &arguments.into, after.done);
    if outcome.stopped {
        complain(&format!("freshet: {}", journal.advice()));
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if journal.file.is_some() {
        Progress::forget(file);
    }
    Ok(match outcome.bad_count {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(2),
    })
}

/// Where the progress goes; nowhere for standard input and pipes, which cannot be read again.
struct Journal {
    file: Option<PathBuf>,
    progress: Progress,
    kept: bool,
}

impl Journal {
    fn start(arguments: &Import) -> anyhow::Result<Journal> {
        let file = arguments.file.is_file().then(|| arguments.file.clone());
        let known = match (&file, arguments.resume) {
            (None, true) => bail!("--resume needs a file: a stream cannot be read again"),
            (Some(file), true) => Progress::load(file, &arguments.into),
            _ => None,
        };
        if arguments.resume && known.is_none() {
            complain(
                "no earlier import of this file into this collection is known: it begins at the first document",
            );
        }
        let progress = known.unwrap_or_else(|| Progress {
            into: arguments.into.clone(),
            first_id: ObjectId::new(),
            mark: Mark::default(),
        });
        Ok(Journal {
            kept: file.is_some(),
            file,
            progress,
        })
    }

    /// An import that cannot keep its progress still imports; it only cannot be resumed.
    fn keep(&mut self, mark: Mark) {
        self.progress.mark = mark;
        let Some(file) = &self.file else {
            return;
        };
        if let Err(error) = self.progress.save(file)
            && self.kept
        {
            self.kept = false;
            complain(&format!(
                "the progress cannot be kept in {} ({error}): --resume will not know of this import",
                Progress::path(file).display()
            ));
        }
    }

    fn advice(&self) -> String {
        match &self.file {
            Some(file) if self.kept => format!(
                "the import ended early; go on with --resume ({})",
                file.display()
            ),
            _ => "the import ended early".to_owned(),
        }
    }
}

/// Ctrl-C lets the write under way finish; a second one does not. Without a file there is no progress to keep, and a
/// read that waits for input must end at once: the signal does what it always does.
fn stop_on_interrupt(
    keeps_progress: bool,
) -> anyhow::Result<(CancellationToken, CancellationToken)> {
    let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
    if keeps_progress {
        let mut interrupts = signal(SignalKind::interrupt()).context("signals")?;
        let (stopping, abandoning) = (stop.clone(), abandon.clone());
        tokio::spawn(async move {
            interrupts.recv().await;
            stopping.cancel();
            interrupts.recv().await;
            abandoning.cancel();
        });
    }
    Ok((stop, abandon))
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

fn summarise(outcome: &Outcome, into: &str, after: u64) {
    if after > 0 {
        say(&format!("went on after document {after}"));
    }
    say(&format!("{} documents stored in {into}", outcome.stored));
    for (place, reason) in outcome.bad.iter().take(BAD_LISTED_MAX) {
        complain(&format!("{place}: {reason}"));
    }
    if outcome.bad_count > 0 {
        complain(&format!("{} documents left out", outcome.bad_count));
    }
}
