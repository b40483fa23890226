//! `freshet import`: a file of documents into a collection, in batches, with progress, resumable.
//!
//! A batch is all or nothing in the store; when one fails, its documents are written one by one, so that exactly the
//! bad ones are reported by their place. What is about to be written is marked as attempted, what was written as done:
//! when an import breaks off, at most the write under way is in doubt, and a document of it that the store already has,
//! the same to the byte, counts as stored.

mod file;
mod identity;
mod progress;

pub use file::{Documents, Item, Place};
pub use progress::{Mark, Progress};

use std::io::BufRead;

use bson::RawDocumentBuf;
use bson::oid::ObjectId;
use freshet_core::name::Namespace;
use tokio_util::sync::CancellationToken;

use crate::store::{Store, StoreError};

/// Bad documents that are remembered with their reason.
pub const BAD_SHOWN_MAX: usize = 1000;
/// A batch is written when it has this size, whatever its count: two of the largest documents.
const BATCH_BYTES_MAX: usize = 32 << 20;

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Documents per write.
    pub batch: usize,
    /// Go on after bad documents.
    pub skip_bad: bool,
    /// How far an earlier import came.
    pub after: Mark,
    /// What new `_id` are counted from.
    pub first_id: ObjectId,
    /// Cancelled when it shall end early.
    pub stop: CancellationToken,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Documents stored.
    pub stored: u64,
    /// Documents left out, with their place and why; at most [`BAD_SHOWN_MAX`] are kept.
    pub bad: Vec<(Place, String)>,
    /// How many were left out.
    pub bad_count: u64,
    /// It was stopped before the end of the file.
    pub stopped: bool,
}

/// Why an import ended early.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Read(#[from] std::io::Error),
    /// What is done is not what the file has there.
    #[error("the first {done} documents of the file are not those that were imported")]
    Changed {
        /// How many are done.
        done: u64,
    },
    /// A bad document, and it was not said to go on after one.
    #[error("{place}: {reason}")]
    Bad {
        /// Its place.
        place: Place,
        /// What is wrong with it.
        reason: String,
    },
    /// The database.
    #[error("{place}: {error}")]
    Store {
        /// The first document of what was being written.
        place: Place,
        /// What it said.
        error: StoreError,
    },
}

/// Imports. `keep` is told how far it has come and the bytes that are read, before and after every write.
///
/// # Errors
/// [`ImportError`].
pub async fn import(
    store: &dyn Store,
    namespace: &Namespace,
    input: impl BufRead,
    options: Options,
    keep: impl FnMut(Mark, u64),
) -> Result<Outcome, ImportError> {
    let mut documents = Documents::new(input);
    pass_over(&mut documents, options.after)?;
    let mut run = Run {
        store,
        namespace,
        in_doubt: options.after.attempted,
        mark: options.after,
        options,
        keep,
        bytes: documents.bytes(),
        outcome: Outcome::default(),
        batch: Vec::new(),
        batch_bytes: 0,
    };
    while !run.options.stop.is_cancelled() {
        let next = documents.next();
        run.bytes = documents.bytes();
        match next {
            None => {
                run.write().await?;
                return Ok(run.outcome);
            }
            Some(Ok(item)) => run.take(item).await?,
            Some(Err(error)) => {
                run.write().await?;
                return Err(error.into());
            }
        }
    }
    run.outcome.stopped = true;
    run.settle();
    Ok(run.outcome)
}

/// Passes over what is done, and makes sure that it is what the file has there.
fn pass_over(documents: &mut Documents<impl BufRead>, after: Mark) -> Result<(), ImportError> {
    if after.done == 0 {
        return Ok(());
    }
    for item in documents {
        let place = item?.place;
        if place.number == after.done && place.digest == after.digest {
            return Ok(());
        }
        if place.number >= after.done {
            break;
        }
    }
    Err(ImportError::Changed { done: after.done })
}

struct Run<'a, K> {
    store: &'a dyn Store,
    namespace: &'a Namespace,
    options: Options,
    /// Up to this number, an earlier import may have stored what is not marked as done.
    in_doubt: u64,
    mark: Mark,
    keep: K,
    bytes: u64,
    outcome: Outcome,
    batch: Vec<(Place, RawDocumentBuf)>,
    batch_bytes: usize,
}

impl<K: FnMut(Mark, u64)> Run<'_, K> {
    async fn take(&mut self, item: Item) -> Result<(), ImportError> {
        let place = item.place;
        match item.document {
            Ok(document) => {
                let document = identity::identified(document, self.options.first_id, place.number);
                self.batch_bytes += document.as_bytes().len();
                self.batch.push((place, document));
                let full = self.batch.len() >= self.options.batch.max(1);
                if full || self.batch_bytes >= BATCH_BYTES_MAX {
                    self.write().await?;
                }
                Ok(())
            }
            Err(reason) => {
                if !self.options.skip_bad {
                    self.write().await?;
                }
                self.bad(place, reason)
            }
        }
    }

    /// Writes what has been gathered, and marks it.
    async fn write(&mut self) -> Result<(), ImportError> {
        let batch = std::mem::take(&mut self.batch);
        self.batch_bytes = 0;
        let (Some((first, _)), Some((last, _))) = (batch.first(), batch.last()) else {
            return Ok(());
        };
        let (first, last) = (*first, *last);
        // What an earlier import attempted beyond this batch is in doubt still.
        self.mark.attempted = last.number.max(self.in_doubt);
        self.keep();
        let (places, documents): (Vec<Place>, Vec<RawDocumentBuf>) = batch.into_iter().unzip();
        match self.store.insert(self.namespace, &documents).await {
            Ok(_) => {
                self.outcome.stored += documents.len() as u64;
                self.done(last);
                return Ok(());
            }
            Err(error) if is_about_a_document(&error) => {}
            Err(error) => {
                return Err(ImportError::Store {
                    place: first,
                    error,
                });
            }
        }
        for (place, document) in places.into_iter().zip(documents) {
            self.write_one(place, document).await?;
            self.done(place);
        }
        Ok(())
    }

    async fn write_one(
        &mut self,
        place: Place,
        document: RawDocumentBuf,
    ) -> Result<(), ImportError> {
        let one = std::slice::from_ref(&document);
        let error = match self.store.insert(self.namespace, one).await {
            Ok(_) => {
                self.outcome.stored += 1;
                return Ok(());
            }
            Err(error) if is_about_a_document(&error) => error,
            Err(error) => return Err(ImportError::Store { place, error }),
        };
        let in_doubt = place.number <= self.in_doubt && matches!(error, StoreError::DuplicateId);
        if in_doubt && self.has(place, &document).await? {
            self.outcome.stored += 1;
            return Ok(());
        }
        self.bad(place, error.to_string())
    }

    /// Whether the store has this very document.
    async fn has(&self, place: Place, document: &RawDocumentBuf) -> Result<bool, ImportError> {
        let Ok(Some(id)) = document.get("_id") else {
            return Ok(false);
        };
        let at_least = self.store.committed();
        let got = self.store.get(self.namespace, id, at_least).await;
        let got = got.map_err(|error| ImportError::Store { place, error })?;
        Ok(got
            .document
            .is_some_and(|stored| identity::is_same(&stored, document)))
    }

    fn bad(&mut self, place: Place, reason: String) -> Result<(), ImportError> {
        if !self.options.skip_bad {
            self.settle();
            return Err(ImportError::Bad { place, reason });
        }
        self.outcome.bad_count += 1;
        if self.outcome.bad.len() < BAD_SHOWN_MAX {
            self.outcome.bad.push((place, reason));
        }
        Ok(())
    }

    fn done(&mut self, place: Place) {
        self.mark.done = place.number;
        self.mark.digest = place.digest;
        self.keep();
    }

    /// It ends here, and no write is under way: only what an earlier import left in doubt remains so.
    fn settle(&mut self) {
        self.mark.attempted = self.mark.done.max(self.in_doubt);
        self.keep();
    }

    fn keep(&mut self) {
        (self.keep)(self.mark, self.bytes);
    }
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
