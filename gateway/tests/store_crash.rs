//! The embedded store under `kill -9`: a child process writes and says what was acknowledged; the parent kills
//! it at some moment, opens the store, and looks whether everything acknowledged is there, nothing is there by
//! halves, and the feed has each change exactly once.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use freshet_core::change::{Change, Image};
use freshet_core::name::Namespace;
use freshet_core::time::{ManualClock, Position};
use freshet_gateway::store::{EmbeddedOptions, EmbeddedStore, Find, Store};

const ROUNDS: u32 = 30;
const WRITERS: u32 = 4;
const BATCH: u32 = 5;
/// Where the child finds the store and the number of its round.
const DIRECTORY: &str = "FRESHET_TEST_CRASH_DIRECTORY";
const ROUND: &str = "FRESHET_TEST_CRASH_ROUND";

fn namespace() -> Namespace {
    Namespace::new("shop", "things").unwrap()
}

fn open(directory: &Path) -> EmbeddedStore {
    let options = EmbeddedOptions {
        changes_max: 1_000_000,
        ..EmbeddedOptions::new(directory)
    };
    EmbeddedStore::open(options, Arc::new(ManualClock::at(1))).unwrap()
}

/// Not a test by itself: it is what the child runs, and does nothing when nobody asked for a child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    #[allow(clippy::disallowed_methods)]
    let (Ok(directory), Ok(round)) = (std::env::var(DIRECTORY), std::env::var(ROUND)) else {
        return;
    };
    let store = Arc::new(open(Path::new(&directory)));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write_for_ever(store.clone(), format!("{round}-{writer}"))))
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
}

/// Says what was acknowledged, one line each, as soon as it was.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nack {line}").unwrap();
    out.flush().unwrap();
}

async fn write_for_ever(store: Arc<EmbeddedStore>, name: String) {
    let ns = namespace();
    for turn in 0_u32.. {
        let one = format!("one-{name}-{turn}");
        let position = store
            .insert(&ns, &[rawdoc! { "_id": &*one }])
            .await
            .unwrap();
        say(&format!("{one} {position}"));

        let batch = format!("batch-{name}-{turn}");
        let documents: Vec<RawDocumentBuf> = (0..BATCH)
            .map(|part| rawdoc! { "_id": format!("{batch}-{part}"), "batch": &*batch })
            .collect();
        let position = store.insert(&ns, &documents).await.unwrap();
        say(&format!("{batch} {position}"));

        let counter = RawBson::String(format!("counter-{name}"));
        let written = if turn == 0 {
            store
                .put(&ns, counter.as_raw_bson_ref(), &rawdoc! { "n": 1 })
                .await
                .unwrap()
        } else {
            let operators = rawdoc! { "$inc": { "n": 1 } };
            store
                .update(&ns, counter.as_raw_bson_ref(), &operators)
                .await
                .unwrap()
                .unwrap()
        };
        say(&format!("counter-{name}={} {}", turn + 1, written.position));
        store.put_meta(&name, &turn.to_be_bytes()).await.unwrap();
        say(&format!("meta-{name}={turn} 0"));
    }
}

/// Runs a child until it has acknowledged `acknowledgements` writes, kills it, and says what it said.
fn run_and_kill(directory: &Path, round: u32, acknowledgements: usize) -> Vec<(String, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(DIRECTORY, directory)
        .env(ROUND, round.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = Vec::new();
    let mut killed = false;
    loop {
        if !killed && said.len() >= acknowledgements {
            child.kill().unwrap();
            killed = true;
        }
        // What is left in the pipe was acknowledged, too.
        let Some(line) = lines.next() else { break };
        let line = line.unwrap();
        // The harness of the child has lines of its own; a last line may be cut off.
        let words: Vec<&str> = line.split(' ').collect();
        if let ["ack", what, position] = words[..]
            && let Ok(position) = position.parse()
        {
            said.push((what.to_owned(), position));
        }
    }
    child.wait().unwrap();
    assert!(killed, "the child ended by itself");
    said
}

/// The state that the feed's changes lead to, and where each record was inserted.
#[derive(Default)]
struct Replayed {
    records: BTreeMap<String, RawDocumentBuf>,
    inserted: BTreeMap<String, Position>,
    resume: Option<Vec<u8>>,
    last: Position,
}

impl Replayed {
    async fn catch_up(&mut self, store: &EmbeddedStore) {
        let mut source = store.source(self.resume.clone());
        loop {
            let batch = source.next().await.unwrap();
            for event in batch.events {
                assert!(event.position >= self.last, "out of order");
                self.last = event.position;
                let Change::Record {
                    id: RawBson::String(id),
                    before,
                    after,
                } = event.change
                else {
                    panic!("not a record of ours");
                };
                match (before, after) {
                    (Image::Absent, Image::Known(after)) => {
                        assert_eq!(
                            self.inserted.insert(id.clone(), event.position),
                            None,
                            "{id} twice"
                        );
                        assert_eq!(self.records.insert(id, after), None);
                    }
                    (Image::Known(before), Image::Known(after)) => {
                        assert_eq!(self.records.insert(id, after), Some(before));
                    }
                    other => panic!("{other:?}"),
                }
            }
            self.resume = batch.resume;
            if batch.watermark.is_some() {
                return;
            }
        }
    }
}

async fn stored(store: &EmbeddedStore) -> BTreeMap<String, RawDocumentBuf> {
    let (ns, filter, sort) = (namespace(), rawdoc! {}, rawdoc! { "_id": 1 });
    let find = Find {
        namespace: &ns,
        filter: &filter,
        sort: Some(&sort),
        skip: 0,
        limit: u32::MAX,
        projection: None,
        at_least: Position::ZERO,
    };
    let found = store.find(&find).await.unwrap();
    let id = |record: &RawDocument| record.get_str("_id").unwrap().to_owned();
    found
        .documents
        .iter()
        .map(|record| (id(record), record.to_owned()))
        .collect()
}

fn assert_batches_are_whole(records: &BTreeMap<String, RawDocumentBuf>) {
    let mut sizes: BTreeMap<&str, u32> = BTreeMap::new();
    for record in records.values() {
        if let Ok(batch) = record.get_str("batch") {
            *sizes.entry(batch).or_default() += 1;
        }
    }
    assert!(sizes.values().all(|size| *size == BATCH), "{sizes:?}");
}

fn assert_acknowledged(
    store: &EmbeddedStore,
    records: &BTreeMap<String, RawDocumentBuf>,
    feed: &Replayed,
    what: &str,
    position: u64,
) {
    if let Some((name, n)) = what.split_once('=') {
        let n: u32 = n.parse().unwrap();
        if let Some(meta) = name.strip_prefix("meta-") {
            let kept = store.get_meta(meta).unwrap().unwrap();
            assert!(u32::from_be_bytes(kept.try_into().unwrap()) >= n, "{what}");
        } else {
            let kept = records[name].get_i32("n").unwrap();
            assert!(kept >= i32::try_from(n).unwrap(), "{what} but {kept}");
        }
        return;
    }
    let first = if what.starts_with("batch-") {
        format!("{what}-0")
    } else {
        what.to_owned()
    };
    assert!(
        records.contains_key(&first),
        "{what} was acknowledged and is lost"
    );
    assert_eq!(feed.inserted[&first], Position(position), "{what}");
}

#[tokio::test]
async fn every_acknowledged_write_survives_being_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut feed = Replayed::default();
    {
        let store = open(directory.path());
        feed.catch_up(&store).await;
    }
    // A fixed sequence of moments (a linear congruential generator), from "at once" to some hundred writes.
    let mut moment: usize = 12_345;
    let mut acknowledged = BTreeSet::new();
    for round in 0..ROUNDS {
        moment = moment.wrapping_mul(1_103_515_245).wrapping_add(12_345) % (1 << 31);
        let after = if round % 10 == 0 {
            0
        } else {
            moment / 65_536 % 150
        };
        let said = run_and_kill(directory.path(), round, after);
        assert!(said.len() >= after);
        acknowledged.extend(said);

        let store = open(directory.path());
        feed.catch_up(&store).await;
        let records = stored(&store).await;
        assert!(records == feed.records, "the feed leads to what is stored");
        assert_batches_are_whole(&records);
        for (what, position) in &acknowledged {
            assert_acknowledged(&store, &records, &feed, what, *position);
        }
    }
    assert!(
        acknowledged.len() > 500,
        "{} acknowledged",
        acknowledged.len()
    );
}
