//! The queries and the writes, and who hands them out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bson::RawBson;
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Position};
use freshet_invalidation::ingest::port::{Batch, Source, SourceError, Watermark};
use freshet_invalidation::{Resource, Watched, Window};

use crate::matcher::workload::Workload;

/// Records that are written to, in turns.
const RECORDS: i64 = 10_000;
/// Writes that a source hands out at a time.
const BATCH: usize = 500;
const SEED: u64 = 7;
/// How many times more values there are than the matcher's suite has for so many queries: a write then matches about four
/// of them instead of forty. Once touched, a query is not matched again before it is read again, and here nobody reads.
const SPREAD: u64 = 10;

/// The queries and the writes.
pub(super) struct Load {
    pub(super) resources: Vec<(Resource, Window)>,
    pub(super) by_key: HashMap<Key, Resource>,
    pub(super) events: Vec<ChangeEvent>,
}

pub(super) fn namespace() -> Namespace {
    Namespace::new("bench", "records").expect("a valid name")
}

impl Load {
    pub(super) fn new(queries: u64, writes: u64) -> Load {
        let mut workload = Workload::new(SEED, queries * SPREAD);
        let resources: Vec<(Resource, Window)> = (0..queries)
            .map(|index| {
                let asked = workload.query(index);
                let resource = Resource {
                    namespace: namespace(),
                    key: asked.key,
                    watched: Watched::Query(asked.watch),
                    joins: Vec::new(),
                    hinted: false,
                };
                (resource, asked.window)
            })
            .collect();
        let mut records: Vec<_> = (0..RECORDS).map(|id| workload.document(id)).collect();
        let events = (1..=writes).map(|n| {
            let at = usize::try_from(n).unwrap_or(0) % records.len();
            let after = workload.updated(&records[at]);
            let before = std::mem::replace(&mut records[at], after.clone());
            ChangeEvent {
                namespace: namespace(),
                position: Position(1 + n),
                change: Change::Record {
                    id: RawBson::Int64(i64::try_from(at).unwrap_or(0)),
                    before: Image::Known(before),
                    after: Image::Known(after),
                },
            }
        });
        Load {
            events: events.collect(),
            by_key: resources
                .iter()
                .map(|(one, _)| (one.key.clone(), one.clone()))
                .collect(),
            resources,
        }
    }

    pub(super) fn end(&self) -> Position {
        Position(1 + self.events.len() as u64)
    }
}

/// Hands the writes out once they are wanted.
pub(super) struct Writes {
    pub(super) load: Arc<Load>,
    pub(super) go: Arc<AtomicBool>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) next: Arc<AtomicUsize>,
}

#[async_trait]
impl Source for Writes {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        let next = self.next.load(Ordering::SeqCst);
        let left = &self.load.events[next..];
        let some = match self.go.load(Ordering::SeqCst) {
            true => left.len().min(BATCH),
            false => 0,
        };
        if some == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let position = Position(1 + (next + some) as u64);
        self.next.store(next + some, Ordering::SeqCst);
        Ok(Batch {
            events: left[..some].to_vec(),
            through: position,
            watermark: Some(Watermark {
                position,
                as_of: self.clock.now(),
            }),
            resume: Some(position.0.to_le_bytes().to_vec()),
        })
    }
}

/// A feed without changes.
pub(super) struct Nothing;

#[async_trait]
impl Source for Nothing {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        std::future::pending().await
    }
}
