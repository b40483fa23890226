//! How far an import has come, kept beside its file so that a broken-off one can go on. It names documents by their
//! number, not by line, and holds a digest of those that are done: what follows them may be repaired before the import
//! goes on, they themselves may not change.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bson::oid::ObjectId;
use serde::{Deserialize, Serialize};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Everything up to this number is done.
    pub done: u64,
    /// [`Place::digest`](super::Place::digest) of that.
    pub digest: u64,
    /// From there up to this number, the store may have it or not.
    pub attempted: u64,
}

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The collection.
    pub into: String,
    /// What the `_id` of documents that have none are counted from: the same document gets the same one again.
    pub first_id: ObjectId,
    /// How far it has come.
    pub mark: Mark,
}

impl Progress {
    /// Where the progress of this file is kept.
    #[must_use]
    pub fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".freshet-progress");
        name.into()
    }

    /// What is known of an import of this file into this collection.
    #[must_use]
    pub fn load(file: &Path, into: &str) -> Option<Progress> {
        let text = std::fs::read(Progress::path(file)).ok()?;
        let kept: Progress = serde_json::from_slice(&text).ok()?;
        (kept.into == into).then_some(kept)
    }

    /// Keeps it: written aside and renamed, so that a crash leaves the old or the new.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, file: &Path) -> io::Result<()> {
        let path = Progress::path(file);
        let aside = path.with_extension("freshet-progress-new");
        let mut new = std::fs::File::create(&aside)?;
        new.write_all(&serde_json::to_vec(self)?)?;
        new.sync_data()?;
        std::fs::rename(aside, path)
    }

    /// Forgets it: the import is complete.
    pub fn forget(file: &Path) {
        let _ = std::fs::remove_file(Progress::path(file));
    }
}
