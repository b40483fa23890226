//! A column's changes as a cell's source. What is missing between two pages, only this cell missed.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use freshet_core::time::{Clock, Moment};

use super::page::{Follows, Number, Page};
use super::streams::{From, Line, Reader, StreamError, Streams};
use super::wire::{Fields, Message};
use crate::ingest::port::{Batch, Source, SourceError, Watermark};

/// How long an idle column is waited for, milliseconds.
const WAIT_MS: u64 = 100;
/// A column that says nothing for so long is looked at: a leader writes several times a second, milliseconds.
const SILENCE_MS_MAX: u64 = 2_000;

/// The source of one cell.
pub struct CellSource {
    streams: Arc<dyn Streams>,
    clock: Arc<dyn Clock>,
    line: Line,
    /// What was read last: from where to read on.
    last: Option<(String, Number)>,
    reader: Option<Box<dyn Reader>>,
    heard: Moment,
    /// The next page was not read after the one before it, but looked for.
    jumped: bool,
    /// Pages that are read and not handed on yet.
    pages: VecDeque<(String, Page)>,
}

impl CellSource {
    /// Reads a column on after `resume` (a [`Batch::resume`] of an earlier source), or else from now.
    #[must_use]
    pub fn new(
        streams: Arc<dyn Streams>,
        clock: Arc<dyn Clock>,
        column: u32,
        resume: Option<&[u8]>,
    ) -> CellSource {
        CellSource {
            heard: clock.now(),
            streams,
            clock,
            line: Line::Changes(column),
            last: resume.and_then(read_token),
            reader: None,
            jumped: false,
            pages: VecDeque::new(),
        }
    }

    async fn fetch(&mut self) -> Result<(), StreamError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            None => {
                let from = match &self.last {
                    Some((cursor, _)) => From::After(cursor.clone()),
                    None => From::Now,
                };
                let reader = self.streams.read(&self.line, from).await?;
                self.reader.insert(reader)
            }
        };
        let entries = reader.next(WAIT_MS).await?;
        let now = self.clock.now();
        if !entries.is_empty() {
            self.heard = now;
        } else if now.since(self.heard) > SILENCE_MS_MAX {
            self.heard = now;
            return self.look().await;
        }
        for entry in entries {
            // A page that cannot be read is missing, which the next one's number says.
            if let Ok(page) = Page::read(&entry.body) {
                self.pages.push_back((entry.cursor, page));
            }
        }
        Ok(())
    }

    /// Nothing comes. The stream may have begun anew, at an earlier place: its last page tells.
    async fn look(&mut self) -> Result<(), StreamError> {
        let Some(entry) = self.streams.last(&self.line).await? else {
            return Ok(());
        };
        let last = self.last.as_ref().map(|(_, number)| *number);
        if let Ok(page) = Page::read(&entry.body)
            && last.is_some_and(|last| page.number != last)
        {
            let from = From::After(entry.cursor.clone());
            self.reader = Some(self.streams.read(&self.line, from).await?);
            self.pages.push_back((entry.cursor, page));
            self.jumped = true;
        }
        Ok(())
    }

    /// Puts the pages that follow one another together.
    fn batch(&mut self) -> Result<Batch, SourceError> {
        let mut batch = Batch::default();
        while let Some((cursor, page)) = self.pages.pop_front() {
            let last = self.last.as_ref().map(|(_, number)| *number);
            let follows = last.map_or(Follows::Directly, |last| match self.jumped {
                // Also what a later leader wrote again may lie between.
                true if page.number.sequence != last.sequence + 1 => Follows::NotAtAll,
                _ => page.number.follows(last),
            });
            self.jumped = false;
            if follows == Follows::Again {
                continue;
            }
            let ends = follows == Follows::NotAtAll || page.lost.is_some();
            if ends && batch.resume.is_some() {
                // First what came before.
                self.pages.push_front((cursor, page));
                return Ok(batch);
            }
            self.last = Some((cursor.clone(), page.number));
            if let Some(why) = page.lost {
                return Err(SourceError::Gap(why));
            }
            if follows == Follows::NotAtAll {
                let missed = format!("page {} came after {last:?}", page.number.sequence);
                // What is on it counts, after what was missed.
                self.last = None;
                self.pages.push_front((cursor, page));
                return Err(SourceError::Missed(missed));
            }
            batch.follow_with(self.read(&cursor, page));
        }
        Ok(batch)
    }

    fn read(&self, cursor: &str, page: Page) -> Batch {
        let now = self.clock.now();
        let watermark = page.watermark.and_then(|(position, stamp)| {
            let age = self.streams.age_ms(stamp, now)?;
            let as_of = Moment(now.0.checked_sub(age)?);
            Some(Watermark { position, as_of })
        });
        Batch {
            events: page.events,
            through: page.through,
            watermark,
            resume: Some(token(cursor, page.number)),
        }
    }
}

#[async_trait]
impl Source for CellSource {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        if self.pages.is_empty()
            && let Err(error) = self.fetch().await
        {
            return Err(SourceError::Unavailable(error.to_string()));
        }
        self.batch()
    }
}

fn token(cursor: &str, number: Number) -> Vec<u8> {
    number
        .append_to(Message::default().with("c", cursor))
        .finish()
}

fn read_token(token: &[u8]) -> Option<(String, Number)> {
    let fields = Fields::of(token).ok()?;
    let cursor = fields.text("c").ok()?.to_owned();
    Some((cursor, Number::read(&fields).ok()?))
}
