//! The real streams, counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use freshet_core::time::Moment;
use freshet_invalidation::partition::streams::{
    Entry, From, Line, Reader, Row, StreamError, Streams,
};

/// What went over them.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) appended: AtomicU64,
    pub(super) delivered: AtomicU64,
    pub(super) bytes: AtomicU64,
}

pub(super) struct Counted {
    pub(super) streams: Arc<dyn Streams>,
    pub(super) counts: Arc<Counts>,
}

struct CountedReader {
    reader: Box<dyn Reader>,
    counts: Arc<Counts>,
}

#[async_trait]
impl Reader for CountedReader {
    async fn next(&mut self, wait_ms: u64) -> Result<Vec<Entry>, StreamError> {
        let entries = self.reader.next(wait_ms).await?;
        self.counts
            .delivered
            .fetch_add(entries.len() as u64, Ordering::Relaxed);
        Ok(entries)
    }
}

#[async_trait]
impl Streams for Counted {
    async fn append(
        &self,
        line: &Line,
        entries: Vec<Vec<u8>>,
        term: Option<u64>,
    ) -> Result<(), StreamError> {
        let bytes: usize = entries.iter().map(Vec::len).sum();
        self.counts
            .appended
            .fetch_add(entries.len() as u64, Ordering::Relaxed);
        self.counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.streams.append(line, entries, term).await
    }

    async fn last(&self, line: &Line) -> Result<Option<Entry>, StreamError> {
        self.streams.last(line).await
    }

    async fn read(&self, line: &Line, from: From) -> Result<Box<dyn Reader>, StreamError> {
        Ok(Box::new(CountedReader {
            reader: self.streams.read(line, from).await?,
            counts: Arc::clone(&self.counts),
        }))
    }

    async fn lead(
        &self,
        office: &str,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<u64>, StreamError> {
        self.streams.lead(office, holder, lease_ms).await
    }

    async fn step_down(&self, office: &str, holder: &str) -> Result<(), StreamError> {
        self.streams.step_down(office, holder).await
    }

    async fn row(&self, row: u32) -> Result<Row, StreamError> {
        self.streams.row(row).await
    }

    async fn mark(&self, row: u32, column: u32, up: bool) -> Result<(), StreamError> {
        self.streams.mark(row, column, up).await
    }

    async fn lag(&self, row: u32, column: u32, lags: bool) -> Result<(), StreamError> {
        self.streams.lag(row, column, lags).await
    }

    fn stamp(&self, at: Moment) -> Option<u64> {
        self.streams.stamp(at)
    }

    fn age_ms(&self, stamp: u64, now: Moment) -> Option<u64> {
        self.streams.age_ms(stamp, now)
    }
}
