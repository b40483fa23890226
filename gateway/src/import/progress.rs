//! How far an import has come, kept beside its file so that a broken-off one can go on. The file's size and the
//! collection are kept too: progress of something else is not taken for this one's.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// What is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The collection.
    pub into: String,
    /// The file's size.
    pub file_bytes: u64,
    /// The last line that is done.
    pub line: u64,
}

impl Progress {
    /// Where the progress of this file is kept.
    #[must_use]
    pub fn path(file: &Path) -> PathBuf {
        let mut name = file.as_os_str().to_owned();
        name.push(".freshet-progress");
        name.into()
    }

    /// The last line that is done; 0 when nothing is known of this file and collection.
    #[must_use]
    pub fn load(file: &Path, into: &str, file_bytes: u64) -> u64 {
        let kept: Option<Progress> = std::fs::read(Progress::path(file))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok());
        kept.filter(|kept| kept.into == into && kept.file_bytes == file_bytes)
            .map_or(0, |kept| kept.line)
    }

    /// Keeps it: written aside and renamed, so that a crash leaves the old or the new.
    ///
    /// # Errors
    /// The file system's.
    pub fn save(&self, file: &Path) -> io::Result<()> {
        let path = Progress::path(file);
        let aside = path.with_extension("freshet-progress-new");
        std::fs::write(&aside, serde_json::to_vec(self)?)?;
        std::fs::rename(aside, path)
    }

    /// Forgets it: the import is complete.
    pub fn forget(file: &Path) {
        let _ = std::fs::remove_file(Progress::path(file));
    }
}
