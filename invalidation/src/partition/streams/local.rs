//! Streams within one process: bounded rings, and a bell that wakes their readers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use freshet_core::time::{Clock, Moment};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{ENTRIES_AT_ONCE_MAX, Entry, From, Line, Reader, Row, StreamError, Streams};

/// The adapter. Clones share the streams.
#[derive(Clone)]
pub struct LocalStreams {
    clock: Arc<dyn Clock>,
    entries_max: usize,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    rings: HashMap<Line, Ring>,
    rows: HashMap<u32, Row>,
    offices: HashMap<Box<str>, Office>,
}

#[derive(Default)]
struct Office {
    leader: Option<(Box<str>, Moment)>,
    term: u64,
}

struct Ring {
    /// The number of the first entry that is kept.
    first: u64,
    entries: VecDeque<Arc<[u8]>>,
    term: u64,
    bell: watch::Sender<()>,
}

impl Default for Ring {
    fn default() -> Ring {
        Ring {
            first: 1,
            entries: VecDeque::new(),
            term: 0,
            bell: watch::Sender::new(()),
        }
    }
}

impl Ring {
    fn end(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn entry(&self, number: u64) -> Option<Entry> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.entries.get(at).map(|body| Entry {
            cursor: number.to_string(),
            body: body.to_vec(),
        })
    }
}

impl LocalStreams {
    /// Empty streams that keep so many entries each.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entries_max: usize) -> LocalStreams {
        LocalStreams {
            clock,
            entries_max: entries_max.max(1),
            state: Arc::default(),
        }
    }
}

#[async_trait]
impl Streams for LocalStreams {
    async fn append(
        &self,
        line: &Line,
        entries: Vec<Vec<u8>>,
        term: Option<u64>,
    ) -> Result<(), StreamError> {
        let mut state = self.state.lock();
        let ring = state.rings.entry(line.clone()).or_default();
        if let Some(term) = term {
            if term < ring.term {
                return Err(StreamError::Deposed);
            }
            ring.term = term;
        }
        for body in entries {
            ring.entries.push_back(body.into());
            if ring.entries.len() > self.entries_max {
                ring.entries.pop_front();
                ring.first += 1;
            }
        }
        ring.bell.send_replace(());
        Ok(())
    }

    async fn last(&self, line: &Line) -> Result<Option<Entry>, StreamError> {
        let state = self.state.lock();
        let ring = state.rings.get(line);
        Ok(ring.and_then(|ring| ring.entry(ring.end() - 1)))
    }

    async fn read(&self, line: &Line, from: From) -> Result<Box<dyn Reader>, StreamError> {
        let mut state = self.state.lock();
        let ring = state.rings.entry(line.clone()).or_default();
        let next = match from {
            From::Now => ring.end(),
            From::After(cursor) => cursor.parse().map_or(ring.first, |number: u64| number + 1),
        };
        Ok(Box::new(LocalReader {
            state: Arc::clone(&self.state),
            line: line.clone(),
            next,
            bell: ring.bell.subscribe(),
        }))
    }

    async fn lead(
        &self,
        office: &str,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<u64>, StreamError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let office = state.offices.entry(office.into()).or_default();
        let mine = match &office.leader {
            Some((leader, until)) if *until > now => &**leader == holder,
            _ => {
                office.term += 1;
                true
            }
        };
        if mine {
            office.leader = Some((holder.into(), now.after_ms(lease_ms)));
        }
        Ok(mine.then_some(office.term))
    }

    async fn step_down(&self, office: &str, holder: &str) -> Result<(), StreamError> {
        let mut state = self.state.lock();
        let office = state.offices.entry(office.into()).or_default();
        office.leader.take_if(|(leader, _)| &**leader == holder);
        Ok(())
    }

    async fn row(&self, row: u32) -> Result<Row, StreamError> {
        Ok(self
            .state
            .lock()
            .rows
            .get(&row)
            .cloned()
            .unwrap_or_default())
    }

    async fn mark(&self, row: u32, column: u32, up: bool) -> Result<(), StreamError> {
        let mut state = self.state.lock();
        let row = state.rows.entry(row).or_default();
        row.generation += 1;
        set(&mut row.up, column, up);
        if !up {
            set(&mut row.lagging, column, false);
        }
        Ok(())
    }

    async fn lag(&self, row: u32, column: u32, lags: bool) -> Result<(), StreamError> {
        let mut state = self.state.lock();
        set(
            &mut state.rows.entry(row).or_default().lagging,
            column,
            lags,
        );
        Ok(())
    }

    fn stamp(&self, at: Moment) -> Option<u64> {
        Some(at.0)
    }

    fn age_ms(&self, stamp: u64, now: Moment) -> Option<u64> {
        Some(now.since(Moment(stamp)))
    }
}

fn set(columns: &mut Vec<u32>, column: u32, is_in: bool) {
    columns.retain(|known| *known != column);
    if is_in {
        columns.push(column);
    }
}

struct LocalReader {
    state: Arc<Mutex<State>>,
    line: Line,
    next: u64,
    bell: watch::Receiver<()>,
}

impl LocalReader {
    fn take(&mut self) -> Vec<Entry> {
        self.bell.borrow_and_update();
        let state = self.state.lock();
        let Some(ring) = state.rings.get(&self.line) else {
            return Vec::new();
        };
        // What is gone is skipped: the numbers within say so.
        let from = self.next.max(ring.first);
        let entries = (from..ring.end()).filter_map(|number| ring.entry(number));
        let entries: Vec<Entry> = entries.take(ENTRIES_AT_ONCE_MAX).collect();
        self.next = from + entries.len() as u64;
        entries
    }
}

#[async_trait]
impl Reader for LocalReader {
    async fn next(&mut self, wait_ms: u64) -> Result<Vec<Entry>, StreamError> {
        let entries = self.take();
        if !entries.is_empty() || wait_ms == 0 {
            return Ok(entries);
        }
        let wait = Duration::from_millis(wait_ms);
        match tokio::time::timeout(wait, self.bell.changed()).await {
            Ok(Ok(())) => Ok(self.take()),
            _ => Ok(Vec::new()),
        }
    }
}
