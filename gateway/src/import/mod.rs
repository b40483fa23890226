//! `freshet import`: a file of documents into a collection, in batches, with progress, resumable.
//!
//! A batch is all or nothing in the store; when one fails, its documents are written one by one, so that exactly the
//! bad ones are reported by line number. Progress is kept beside the file after every batch.

mod file;
mod progress;

pub use file::{Document, Documents, FileError};
pub use progress::Progress;

use std::io::BufRead;

use bson::RawDocumentBuf;
use freshet_core::name::Namespace;

use crate::store::{Store, StoreError};

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Documents per write.
    pub batch: usize,
    /// Go on after bad documents.
    pub skip_bad: bool,
    /// Lines that are done already.
    pub after_line: u64,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Documents stored.
    pub stored: u64,
    /// Documents left out, with their line and why; at most [`BAD_SHOWN_MAX`] are kept.
    pub bad: Vec<(u64, String)>,
    /// How many were left out.
    pub bad_count: u64,
}

/// Bad documents that are remembered with their reason.
pub const BAD_SHOWN_MAX: usize = 1000;

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// A bad document, and it was not said to go on after one.
    #[error("line {line}: {reason}")]
    Bad {
        /// Its line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The database.
    #[error("line {line}: {error}")]
    Store {
        /// The first line of what was being written.
        line: u64,
        /// What it said.
        error: StoreError,
    },
}

/// Imports. `done` is told the last line and byte of the file that are finished, after every batch.
///
/// # Errors
/// [`ImportError`].
pub async fn import(
    store: &dyn Store,
    namespace: &Namespace,
    input: impl BufRead,
    options: Options,
    mut done: impl FnMut(u64, u64),
) -> Result<Outcome, ImportError> {
    let mut outcome = Outcome::default();
    let mut batch: Vec<(u64, RawDocumentBuf)> = Vec::with_capacity(options.batch);
    let mut documents = Documents::new(input);
    let mut line = 0;
    loop {
        let next = documents.next();
        let bytes = documents.bytes();
        line = match &next {
            Some(Ok(document)) => document.line,
            Some(Err(FileError::Bad { line, .. })) => *line,
            _ => line,
        };
        match next {
            Some(Ok(document)) if document.line <= options.after_line => {}
            Some(Ok(document)) => batch.push((document.line, document.document)),
            Some(Err(FileError::Read(error))) => return Err(ImportError::Read(error)),
            Some(Err(FileError::Bad { line, .. })) if line <= options.after_line => {}
            Some(Err(FileError::Bad { line, reason })) => bad(&mut outcome, options, line, reason)?,
            None => {
                write(store, namespace, &mut batch, options, &mut outcome).await?;
                done(line, bytes);
                return Ok(outcome);
            }
        }
        if batch.len() >= options.batch.max(1) {
            write(store, namespace, &mut batch, options, &mut outcome).await?;
            done(line, bytes);
        }
    }
}

async fn write(
    store: &dyn Store,
    namespace: &Namespace,
    batch: &mut Vec<(u64, RawDocumentBuf)>,
    options: Options,
    outcome: &mut Outcome,
) -> Result<(), ImportError> {
    let Some(first) = batch.first().map(|(line, _)| *line) else {
        return Ok(());
    };
    let (lines, documents): (Vec<u64>, Vec<RawDocumentBuf>) =
        std::mem::take(batch).into_iter().unzip();
    match store.insert(namespace, &documents).await {
        Ok(_) => {
            outcome.stored += documents.len() as u64;
            return Ok(());
        }
        Err(error) if is_about_a_document(&error) => {}
        Err(error) => return Err(ImportError::Store { line: first, error }),
    }
    for (line, document) in lines.into_iter().zip(documents) {
        match store
            .insert(namespace, std::slice::from_ref(&document))
            .await
        {
            Ok(_) => outcome.stored += 1,
            Err(error) if is_about_a_document(&error) => {
                bad(outcome, options, line, error.to_string())?
            }
            Err(error) => return Err(ImportError::Store { line, error }),
        }
    }
    Ok(())
}

fn is_about_a_document(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::DuplicateId
            | StoreError::DuplicateValue
            | StoreError::TooLarge
            | StoreError::Rejected
            | StoreError::BadRequest(_)
    )
}

fn bad(
    outcome: &mut Outcome,
    options: Options,
    line: u64,
    reason: String,
) -> Result<(), ImportError> {
    if !options.skip_bad {
        return Err(ImportError::Bad { line, reason });
    }
    outcome.bad_count += 1;
    if outcome.bad.len() < BAD_SHOWN_MAX {
        outcome.bad.push((line, reason));
    }
    Ok(())
}
