//! A ledger in a file of lines, for a process on its own: `+` and an order, or `-` and an order that is settled. What was
//! begun to be written when the process ended is no line, and nobody was told that it was noted.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::open::Open;
use super::{Ledger, LedgerError, entry};
use crate::purge::outbox::Confirmed;
use crate::purge::queue::Order;

/// With so many lines more than twice the orders, the file is written anew.
const LINES_MORE_MAX: usize = 10_000;

/// The ledger.
#[derive(Clone)]
pub struct FileLedger(Arc<Mutex<State>>);

struct State {
    path: PathBuf,
    file: Option<File>,
    /// With the text that settles it.
    open: Open<String>,
    lines: usize,
}

impl FileLedger {
    /// A ledger in this file, which is made where it is not there.
    #[must_use]
    pub fn new(path: &Path) -> FileLedger {
        FileLedger(Arc::new(Mutex::new(State {
            path: path.to_owned(),
            file: None,
            open: Open::default(),
            lines: 0,
        })))
    }

    async fn with<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut State) -> io::Result<R> + Send + 'static,
    ) -> Result<R, LedgerError> {
        let state = Arc::clone(&self.0);
        let working = tokio::task::spawn_blocking(move || work(&mut state.lock()));
        working
            .await
            .map_err(LedgerError::of)?
            .map_err(LedgerError::of)
    }
}

#[async_trait]
impl Ledger for FileLedger {
    async fn take_up(&self) -> Result<Vec<Order>, LedgerError> {
        self.with(State::read).await
    }

    async fn note(&self, orders: &[Order]) -> Result<(), LedgerError> {
        let orders = orders.to_vec();
        self.with(move |state| state.note(&orders)).await
    }

    async fn confirm(&self, confirmed: &[Confirmed]) -> Result<(), LedgerError> {
        let confirmed = confirmed.to_vec();
        self.with(move |state| state.confirm(&confirmed)).await
    }
}

impl State {
    fn read(&mut self) -> io::Result<Vec<Order>> {
        self.open = Open::default();
        let text = match std::fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            text => text?,
        };
        self.replay(&text);
        // What is appended to a line that was cut off would be no line either.
        if !text.is_empty() && !text.ends_with(b"\n") || self.has_grown() {
            self.rewrite()?;
        }
        Ok(self.open.orders().cloned().collect())
    }

    fn replay(&mut self, text: &[u8]) {
        self.lines = 0;
        for line in text.split(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else {
                continue;
            };
            self.lines += 1;
            let order = line.get(1..).and_then(entry::parse);
            match (line.as_bytes().first(), order) {
                (Some(b'+'), Some(order)) => {
                    self.open.note(&order, entry::text(&order));
                }
                (
                    Some(b'-'),
                    Some(Order {
                        target, position, ..
                    }),
                ) => {
                    self.open.confirm(&Confirmed { target, position });
                }
                _ => {}
            }
        }
    }

    fn has_grown(&self) -> bool {
        self.lines > 2 * self.open.len() + LINES_MORE_MAX
    }

    fn note(&mut self, orders: &[Order]) -> io::Result<()> {
        let texts: Vec<String> = orders.iter().map(entry::text).collect();
        let lines = texts.iter().map(|text| format!("+{text}\n"));
        self.append(&lines.collect::<String>(), texts.len())?;
        for (order, text) in orders.iter().zip(texts) {
            self.open.note(order, text);
        }
        Ok(())
    }

    fn confirm(&mut self, confirmed: &[Confirmed]) -> io::Result<()> {
        let settled: Vec<String> = confirmed
            .iter()
            .flat_map(|one| self.open.confirm(one))
            .collect();
        if settled.is_empty() {
            return Ok(());
        }
        let lines = settled.iter().map(|text| format!("-{text}\n"));
        self.append(&lines.collect::<String>(), settled.len())?;
        match self.has_grown() {
            true => self.rewrite(),
            false => Ok(()),
        }
    }

    fn append(&mut self, text: &str, lines: usize) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let file = OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&self.path)?;
                self.file.insert(file)
            }
        };
        file.write_all(text.as_bytes())?;
        self.lines += lines;
        file.sync_data()
    }

    /// Writes the open orders alone, into another file that then takes the place of this one.
    fn rewrite(&mut self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        let lines = self
            .open
            .orders()
            .map(|order| format!("+{}\n", entry::text(order)));
        file.write_all(lines.collect::<String>().as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        if let Some(directory) = self.path.parent().filter(|path| path.is_dir()) {
            File::open(directory)?.sync_all()?;
        }
        self.lines = self.open.len();
        self.file = None;
        Ok(())
    }
}
