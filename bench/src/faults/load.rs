//! What those who read, those who write and those who break things have in common: the clock, the histories, the turns
//! of writers, the connections, the counts.

use std::collections::HashSet;
use std::time::Duration;

use bson::{Document, doc};
use freshet_core::time::Moment;
use mongodb::options::{ClientOptions, ReadConcern, WriteConcern};
use mongodb::{Client, Collection, Database};
use parking_lot::Mutex;

use super::history::Value;
use super::http::Http;
use super::judge::{Floor, Read, Shown, Violation, judge};
use super::tally::Tally;
use super::universe::{ALL, COLLECTIONS, DATABASE, Place, Question, Universe};
use crate::monotonic::Monotonic;

/// How long a foreign program waits for its write.
const WRITE_S_MAX: Duration = Duration::from_secs(5);

/// The shared part.
pub(super) struct Load {
    pub(super) clock: Monotonic,
    pub(super) universe: Universe,
    pub(super) http: Http,
    /// The caches in front, each of which may be asked.
    pub(super) edges: Vec<String>,
    pub(super) database: Database,
    /// Held shared by every writer of a collection, and alone by who drops or renames it.
    pub(super) gates: Vec<tokio::sync::RwLock<()>>,
    /// Writes of one record are made one after the other.
    turns: Vec<Vec<tokio::sync::Mutex<()>>>,
    tally: Mutex<Tally>,
    lost: Mutex<HashSet<(Place, u64)>>,
}

impl Load {
    pub(super) async fn new(uri: &str, edges: Vec<String>) -> anyhow::Result<Load> {
        let mut options = ClientOptions::parse(uri).await?;
        options.app_name = Some("foreign".to_owned());
        options.server_selection_timeout = Some(Duration::from_secs(3));
        options.write_concern = Some(WriteConcern::majority());
        options.read_concern = Some(ReadConcern::majority());
        let turns = || (0..ALL).map(|_| tokio::sync::Mutex::new(())).collect();
        Ok(Load {
            clock: Monotonic::start(),
            universe: Universe::new(),
            http: Http::new(),
            edges,
            database: Client::with_options(options)?.database(DATABASE),
            gates: COLLECTIONS
                .iter()
                .map(|_| tokio::sync::RwLock::default())
                .collect(),
            turns: COLLECTIONS.iter().map(|_| turns()).collect(),
            tally: Mutex::default(),
            lost: Mutex::default(),
        })
    }

    /// Now, as the decisions count it.
    pub(super) fn now(&self) -> Moment {
        Moment(self.clock.us() / 1_000)
    }

    /// The turn to write a record, unless somebody else has it.
    pub(super) fn turn(&self, place: Place) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        self.turns[place.collection][place.number].try_lock().ok()
    }

    /// The turn to write a record, once it is free.
    pub(super) async fn next_turn(&self, place: Place) -> tokio::sync::MutexGuard<'_, ()> {
        self.turns[place.collection][place.number].lock().await
    }

    pub(super) fn count(&self, what: impl FnOnce(&mut Tally)) {
        what(&mut self.tally.lock());
    }

    /// Begins to count anew; what was counted so far.
    pub(super) fn take(&self) -> Tally {
        std::mem::take(&mut *self.tally.lock())
    }

    /// A collection, as a foreign program sees it.
    pub(super) fn collection(&self, collection: usize) -> Collection<Document> {
        self.database.collection(COLLECTIONS[collection])
    }

    /// Writes one record as a foreign program does, and notes when and with which outcome. The caller has the turn. What
    /// comes late, when a later write was made already, does nothing: it is for an earlier version only.
    pub(super) async fn write(&self, place: Place, value: Option<Value>, more: Document) {
        let history = self.universe.of(place);
        let version = value.map_or_else(|| history.next_version(), |value| value.version);
        let state = history.begin(value, self.clock.us());
        let records = self.collection(place.collection);
        let version = i64::try_from(version).unwrap_or(i64::MAX);
        let selector = doc! { "_id": place.id(), "v": { "$lt": version } };
        let outcome = async {
            match value {
                Some(value) => {
                    let mut record = document(place, value);
                    record.extend(more);
                    let replaced = records.replace_one(selector, record).upsert(true);
                    replaced.await.map(drop)
                }
                None => records.delete_one(selector).await.map(drop),
            }
        };
        match tokio::time::timeout(WRITE_S_MAX, outcome).await {
            Ok(Ok(())) => {
                history.acknowledge(state, self.clock.us());
                self.count(|tally| tally.writes += 1);
            }
            Ok(Err(error)) if is_duplicate(&error) => {
                history.refuse(state);
                self.count(|tally| tally.writes_refused += 1);
            }
            _ => self.count(|tally| tally.writes_unknown += 1),
        }
    }

    /// Reads the database itself and notes which acknowledged writes are not in it. Answers how many were found now.
    ///
    /// # Errors
    /// The database does not answer.
    pub(super) async fn audit(&self) -> anyhow::Result<usize> {
        let before = self.lost.lock().len();
        for collection in 0..COLLECTIONS.len() {
            let began = self.clock.us();
            let records = self.collection(collection);
            let found = records
                .find(doc! {})
                .projection(doc! { "group": 1, "v": 1 });
            // In one reply: a later one could meet a fault that is meant for the change stream.
            let mut cursor = found.batch_size(10_000).await?;
            let mut shown = vec![None; ALL];
            while cursor.advance().await? {
                let document = cursor.deserialize_current()?;
                if let Some((number, value)) = stored(&document)
                    && let Some(at) = shown.get_mut(number)
                {
                    *at = Some(value);
                }
            }
            let ended = self.clock.us();
            for place in Universe::places(collection) {
                let read = Read {
                    began,
                    ended,
                    bound: 0,
                };
                self.note_loss(place, shown[place.number], read);
            }
        }
        Ok(self.lost.lock().len() - before)
    }

    fn note_loss(&self, place: Place, value: Option<Value>, read: Read) {
        let facts = self.universe.facts(&Question::Record(place), 0);
        let none = Floor::new();
        let verdict = judge(&Shown::Record(value), &facts, read, &none, &none);
        if let Err(violation @ (Violation::Stale(_) | Violation::NeverTrue)) = verdict {
            eprintln!("the database shows {value:?} of {place:?}: {violation:?}, of {facts:?}");
            let version = self.universe.of(place).next_version();
            self.lost.lock().insert((place, version));
        }
    }
}

/// A record as it is stored.
pub(super) fn document(place: Place, value: Value) -> Document {
    let version = i64::try_from(value.version).unwrap_or(i64::MAX);
    doc! { "_id": place.id(), "group": value.group, "v": version, "by": "driver", "text": "x".repeat(200) }
}

fn stored(document: &Document) -> Option<(usize, Value)> {
    let number = document
        .get_str("_id")
        .ok()?
        .strip_prefix('r')?
        .parse()
        .ok()?;
    let integer = |name: &str| match document.get(name) {
        Some(bson::Bson::Int32(number)) => u64::try_from(*number).ok(),
        Some(bson::Bson::Int64(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let value = Value {
        version: integer("v")?,
        group: integer("group")?.try_into().ok()?,
    };
    Some((number, value))
}

fn is_duplicate(error: &mongodb::error::Error) -> bool {
    use mongodb::error::{ErrorKind, WriteFailure};
    matches!(&*error.kind, ErrorKind::Write(WriteFailure::WriteError(error)) if error.code == 11_000)
}
