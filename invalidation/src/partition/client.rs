//! A gateway's side of the grid: asks the cells of a query's row to match it, and knows which rows are whole.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tracing::warn;

use super::requests::{Answer, Request, Verdict};
use super::streams::{From, Line, Reader, Row, StreamError, Streams};
use super::{Cell, Shape};

/// How long cells may take to answer, milliseconds.
const ANSWER_MS_MAX: u64 = 500;
/// How long answers are waited for at a time, milliseconds.
const WAIT_MS: u64 = 100;
/// Requests that wait for their answers at once.
const WAITING_MAX: usize = 10_000;

/// The client of one gateway.
pub struct Client {
    streams: Arc<dyn Streams>,
    shape: Shape,
    /// The gateway's name.
    name: Box<str>,
    next: AtomicU64,
    waiting: Mutex<HashMap<u64, Waiting>>,
    rows: Mutex<Vec<Row>>,
    /// The cells that have reported to the sketch in its epoch.
    reported: Mutex<HashSet<String>>,
}

/// A request under way.
struct Waiting {
    /// Columns whose cells have not answered yet.
    columns: Vec<u32>,
    done: oneshot::Sender<Verdict>,
}

impl Client {
    /// A client; `name` is the gateway's own among all, `life` another one each time it is started.
    #[must_use]
    pub fn new(streams: Arc<dyn Streams>, shape: Shape, name: &str, life: u64) -> Client {
        Client {
            streams,
            shape,
            name: name.into(),
            // Answers to an earlier life have other numbers.
            next: AtomicU64::new(life << 20),
            waiting: Mutex::default(),
            rows: Mutex::new(vec![Row::default(); shape.queries as usize]),
            reported: Mutex::default(),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    pub(crate) fn streams(&self) -> &Arc<dyn Streams> {
        &self.streams
    }

    /// The generation of each row, as far as is known; `None`: not all of its cells are up. One that says so but has not
    /// reported in the sketch's epoch may be gone without anybody knowing what it took with it.
    pub(crate) fn generations(&self) -> Vec<Option<u64>> {
        let (rows, reported) = (self.rows.lock(), self.reported.lock());
        let shape = self.shape;
        let is_up = |row: u32, state: &Row| {
            (0..shape.writes).all(|column| {
                let cell = Cell { shape, row, column };
                state.up.contains(&column) && reported.contains(&cell.member())
            })
        };
        let rows = (0..).zip(rows.iter());
        rows.map(|(row, state)| is_up(row, state).then_some(state.generation))
            .collect()
    }

    /// Who has reported to the sketch in its epoch.
    pub(crate) fn learn(&self, members: Vec<String>) {
        *self.reported.lock() = members.into_iter().collect();
    }

    /// Whether the edges confirm too late what some cell purges.
    pub(crate) fn lags(&self) -> bool {
        let rows = self.rows.lock();
        rows.iter().any(|row| !row.lagging.is_empty())
    }

    /// Looks how the rows are.
    pub(crate) async fn look(&self) -> Result<(), StreamError> {
        let mut rows = Vec::new();
        for row in 0..self.shape.queries {
            rows.push(self.streams.row(row).await?);
        }
        *self.rows.lock() = rows;
        Ok(())
    }

    /// Whether a row is of this generation still.
    pub(crate) async fn is_of(&self, row: u32, generation: u64) -> Result<bool, StreamError> {
        let now = self.streams.row(row).await?;
        Ok(now.generation == generation)
    }

    /// Has every cell of the row match a query: what the least agreeable of them says.
    pub(crate) async fn ask(&self, row: u32, mut request: Request) -> Result<Verdict, StreamError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        request.id = id;
        request.gateway = self.name.clone();
        let (done, verdict) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            if waiting.len() >= WAITING_MAX {
                return Ok(Verdict::Full);
            }
            let columns = (0..self.shape.writes).collect();
            waiting.insert(id, Waiting { columns, done });
        }
        let _forget = Forget(self, id);
        let line = Line::Requests(row);
        self.streams
            .append(&line, vec![request.write()], None)
            .await?;
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        match tokio::time::timeout(limit, verdict).await {
            Ok(Ok(verdict)) => Ok(verdict),
            _ => Err(StreamError::of("a cell does not answer")),
        }
    }

    /// Reads what cells answer, for ever.
    pub(crate) async fn listen(&self) {
        let line = Line::Answers(self.name.clone());
        let mut reader: Option<Box<dyn Reader>> = None;
        let mut failing = false;
        loop {
            match self.listen_once(&line, &mut reader).await {
                Ok(()) => failing = false,
                Err(error) => {
                    if !failing {
                        warn!(%error, "answers of cells cannot be read");
                    }
                    failing = true;
                    tokio::time::sleep(Duration::from_millis(WAIT_MS)).await;
                }
            }
        }
    }

    async fn listen_once(
        &self,
        line: &Line,
        reader: &mut Option<Box<dyn Reader>>,
    ) -> Result<(), StreamError> {
        let reader = match reader {
            Some(reader) => reader,
            None => reader.insert(self.streams.read(line, From::Now).await?),
        };
        for entry in reader.next(WAIT_MS).await? {
            if let Ok(answer) = Answer::read(&entry.body) {
                self.hear(answer);
            }
        }
        Ok(())
    }

    fn hear(&self, answer: Answer) {
        let mut waiting = self.waiting.lock();
        let Some(one) = waiting.get_mut(&answer.id) else {
            return;
        };
        one.columns.retain(|column| *column != answer.column);
        // One refusal is enough.
        let decided = answer.verdict != Verdict::Active || one.columns.is_empty();
        if decided && let Some(one) = waiting.remove(&answer.id) {
            // Who asked may have given up.
            let _ = one.done.send(answer.verdict);
        }
    }
}

/// Takes a request out, however its wait ends.
struct Forget<'a>(&'a Client, u64);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().remove(&self.1);
    }
}
