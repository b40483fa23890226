//! The embedded adapter: records and their changes in one crash-safe file (redb), for a gateway that needs
//! nothing else installed.
//!
//! A position is a sequence number: one per committed transaction. A read sees a snapshot and states exactly
//! its sequence. A write is answered when it is on disk; writes that wait together share one flush.
//! It has no secondary index: what would take too long or cannot be decided is refused.

mod adapter;
mod aggregate;
mod compile;
mod feed;
mod keys;
mod log;
mod plan;
mod query;
mod tables;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use freshet_core::time::{Clock, Position};
use parking_lot::Mutex;
use redb::{Database, ReadableTable};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use super::port::{Refused, StoreError, Transacted, Write, Written};
use plan::Work;
use query::Limits;
use tables::{BIRTH, CHANGES, DOCUMENTS, META, OWN, SEQUENCE, Snapshot, broken, number};
use writer::Job;

/// Where the store is, and what it may take.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// The directory of its file; made when it is not there.
    pub directory: PathBuf,
    /// Changes kept for readers of the feed.
    pub changes_max: u64,
    /// Writes that may wait; more are refused.
    pub queue_writes_max: usize,
    /// Writes in one commit.
    pub commit_writes_max: usize,
    /// Records that a query may look at.
    pub scanned_records_max: u64,
    /// Queries that run at the same time; more wait.
    pub running_queries_max: usize,
    /// How long a read waits for a position that is still to come.
    pub position_wait_ms_max: u64,
    /// Memory for pages of the file.
    pub cache_bytes_max: usize,
}

impl EmbeddedOptions {
    /// The defaults, in this directory.
    #[must_use]
    pub fn new(directory: &Path) -> EmbeddedOptions {
        EmbeddedOptions {
            directory: directory.to_owned(),
            changes_max: 100_000,
            queue_writes_max: 1_024,
            commit_writes_max: 256,
            scanned_records_max: 500_000,
            running_queries_max: 16,
            position_wait_ms_max: 1_000,
            cache_bytes_max: 64 * 1024 * 1024,
        }
    }

    fn limits(&self) -> Limits {
        Limits {
            scanned_records_max: self.scanned_records_max,
        }
    }
}

/// The name of the file in its directory.
const FILE: &str = "freshet.redb";

/// What the writer, the readers and the feeds share.
struct Shared {
    database: Database,
    committed: watch::Sender<u64>,
    /// The disk's error, while no commit has worked since: after one, the file takes none until it is opened anew.
    failed: Mutex<Option<StoreError>>,
    options: EmbeddedOptions,
    clock: Arc<dyn Clock>,
}

/// The adapter.
pub struct EmbeddedStore {
    shared: Arc<Shared>,
    queries: Arc<Semaphore>,
    /// `None` only while it is being dropped.
    jobs: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl EmbeddedStore {
    /// Opens the store, makes it when it is not there, and repairs it when its last process was killed.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when another process has it open or the disk refuses.
    pub fn open(
        options: EmbeddedOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<EmbeddedStore, StoreError> {
        std::fs::create_dir_all(&options.directory).map_err(|error| {
            StoreError::Unavailable(format!("{}: {error}", options.directory.display()))
        })?;
        let database = Database::builder()
            .set_cache_size(options.cache_bytes_max)
            .create(options.directory.join(FILE))
            .map_err(broken)?;
        let sequence = prepare(&database, &*clock)?;
        let (jobs, queue) = mpsc::channel(options.queue_writes_max);
        let shared = Arc::new(Shared {
            database,
            committed: watch::channel(sequence).0,
            failed: Mutex::new(None),
            options,
            clock,
        });
        let for_writer = shared.clone();
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer::run(&for_writer, queue))
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(EmbeddedStore {
            queries: Arc::new(Semaphore::new(shared.options.running_queries_max)),
            shared,
            jobs: Some(jobs),
            writer: Some(writer),
        })
    }

    /// Keeps a value of the gateway's own, durably, under a name.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn put_meta(&self, name: &str, value: &[u8]) -> Result<(), StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.submit(Job::Meta(name.to_owned(), value.to_vec(), answer))?;
        outcome.await.map_err(|_| stopped())?
    }

    /// A value that was kept under a name.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn get_meta(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let meta = Snapshot::of(&self.shared.database)?.meta()?;
        let value = meta.get(&*format!("{OWN}{name}")).map_err(broken)?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn submit(&self, job: Job) -> Result<(), StoreError> {
        let jobs = self.jobs.as_ref().ok_or_else(stopped)?;
        jobs.try_send(job).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => {
                StoreError::Unavailable("too many writes are waiting (queue_writes_max)".to_owned())
            }
            mpsc::error::TrySendError::Closed(_) => stopped(),
        })
    }

    async fn work(&self, work: Work) -> Result<Transacted, StoreError> {
        let (answer, outcome) = oneshot::channel();
        self.submit(Job::Work(work, answer))?;
        outcome.await.map_err(|_| stopped())?
    }

    async fn write(&self, write: Write) -> Result<Option<Written>, StoreError> {
        match self.work(Work::Write(vec![write])).await? {
            Transacted::Committed { mut written } => Ok(written.pop()),
            Transacted::Kept | Transacted::Refused(Refused::Missing) => Ok(None),
            Transacted::Refused(_) => {
                Err(StoreError::Internal("a plain write was refused".to_owned()))
            }
        }
    }

    /// A snapshot that is not before `at_least`.
    async fn snapshot(&self, at_least: Position) -> Result<Snapshot, StoreError> {
        if *self.shared.committed.borrow() < at_least.0 {
            let limit = Duration::from_millis(self.shared.options.position_wait_ms_max);
            let mut committed = self.shared.committed.subscribe();
            tokio::time::timeout(
                limit,
                committed.wait_for(|committed| *committed >= at_least.0),
            )
            .await
            .map_err(|_| StoreError::Timeout(format!("position {at_least} did not come")))?
            .map_err(|_| stopped())?;
        }
        Snapshot::of(&self.shared.database)
    }

    /// Runs what may look at many records on a thread that may block.
    async fn blocking<R: Send + 'static>(
        &self,
        run: impl FnOnce() -> Result<R, StoreError> + Send + 'static,
    ) -> Result<R, StoreError> {
        let permit = self
            .queries
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| stopped())?;
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            run()
        })
        .await
        .map_err(|error| StoreError::Internal(error.to_string()))?
    }
}

/// Makes what is missing, and says the newest sequence.
fn prepare(database: &Database, clock: &dyn Clock) -> Result<u64, StoreError> {
    let transaction = database.begin_write().map_err(broken)?;
    let sequence = {
        transaction.open_table(DOCUMENTS).map_err(broken)?;
        transaction.open_table(CHANGES).map_err(broken)?;
        let mut meta = transaction.open_table(META).map_err(broken)?;
        if meta.get(BIRTH).map_err(broken)?.is_none() {
            let birth = clock.wall_ms().to_be_bytes();
            meta.insert(BIRTH, &birth[..]).map_err(broken)?;
        }
        number(&meta, SEQUENCE)?
    };
    transaction.commit().map_err(broken)?;
    Ok(sequence)
}

fn stopped() -> StoreError {
    StoreError::Unavailable("the store is being closed".to_owned())
}

impl Drop for EmbeddedStore {
    /// Waits until the writes that were taken are on disk.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to wait for.
            let _panicked = writer.join().is_err();
        }
    }
}
