//! The ingest leader: one process at a time reads the database's change stream and writes it to the columns. Every worker
//! stands by to become it. What a leader that lost its lease goes on to write is refused by the streams.
//!
//! There is nothing to hand over but the columns themselves: each page says where to resume after it, so a new leader
//! goes on after the one that is least far. What some columns get again is harmless.

use std::sync::Arc;
use std::time::Duration;

use freshet_core::change::{Change, ChangeEvent};
use freshet_core::time::{Clock, Moment, Position};
use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::Shape;
use super::page::{Number, Page};
use super::streams::{Line, StreamError, Streams};
use crate::ingest::port::{Batch, Source, SourceError};

/// The one office of its kind.
const OFFICE: &str = "ingest";
/// How long a leader that is not heard of keeps the others waiting, milliseconds.
const LEASE_MS: u64 = 3_000;
/// How often the lease is prolonged, or asked for, milliseconds.
const LEASE_EVERY_MS: u64 = 500;
/// Between two attempts, milliseconds.
const RETRY_MS: u64 = 50;
/// Bytes of images on one page, about.
const PAGE_BYTES_MAX: usize = 1 << 20;

/// Opens the change stream, after what an earlier leader read.
pub type Open = Arc<dyn Fn(Option<Vec<u8>>) -> Box<dyn Source> + Send + Sync>;

/// A worker's candidate for the lead.
pub struct Ingest {
    /// The streams.
    pub streams: Arc<dyn Streams>,
    /// The clock of this process.
    pub clock: Arc<dyn Clock>,
    /// How many columns there are.
    pub shape: Shape,
    /// Names this life of this process: no two have the same.
    pub holder: String,
    /// Opens the change stream.
    pub open: Open,
}

/// Where the leader is.
struct Lead {
    term: u64,
    /// Until then nobody else leads.
    renewed: Moment,
    columns: Vec<Number>,
    through: Position,
}

/// Why a leader stops.
enum Ended {
    Deposed,
    Unavailable(String),
}

impl Ingest {
    /// Leads whenever nobody else does, until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let stopped = tokio::select! {
            () = stop.cancelled() => true,
            () = self.stand_by() => false,
        };
        if stopped && let Err(error) = self.streams.step_down(OFFICE, &self.holder).await {
            warn!(%error, "the lead is not given up; it ends by itself");
        }
    }

    async fn stand_by(&self) {
        loop {
            let asked = self.clock.now();
            match self.streams.lead(OFFICE, &self.holder, LEASE_MS).await {
                Ok(Some(term)) => match self.lead(term, asked).await {
                    Ended::Deposed => {
                        info!(term, "another ingest leader has taken over");
                        // Where only the streams say so, a term above theirs is needed.
                        let _ = self.streams.step_down(OFFICE, &self.holder).await;
                    }
                    Ended::Unavailable(why) => warn!(why, "the ingest leader cannot go on"),
                },
                Ok(None) => {}
                Err(error) => warn!(%error, "the lead cannot be asked for"),
            }
            tokio::time::sleep(Duration::from_millis(LEASE_EVERY_MS)).await;
        }
    }

    async fn lead(&self, term: u64, asked: Moment) -> Ended {
        let (columns, resume) = match self.tails(term).await {
            Ok(tails) => tails,
            Err(error) => return Ended::Unavailable(error.to_string()),
        };
        info!(term, resumes = resume.is_some(), "leading the ingest");
        let lost = resume.is_none() && columns.iter().any(|column| column.sequence > 0);
        let mut source = (self.open)(resume);
        let mut lead = Lead {
            term,
            renewed: asked,
            columns,
            through: Position::ZERO,
        };
        if lost {
            // The last leader told some columns that changes were lost, and perhaps not all.
            let why = "the last ingest leader does not say where it was".to_owned();
            if let Err(ended) = self.hand_on(&mut lead, Batch::default(), Some(why)).await {
                return ended;
            }
        }
        loop {
            let next = source.next().await;
            let (batch, lost) = match next {
                Ok(batch) => (batch, None),
                Err(SourceError::Gap(why)) => (Batch::default(), Some(why)),
                Err(SourceError::Unavailable(why) | SourceError::Missed(why)) => {
                    warn!(why, "the change feed is interrupted");
                    tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
                    (Batch::default(), None)
                }
            };
            if let Err(ended) = self.hand_on(&mut lead, batch, lost).await {
                return ended;
            }
        }
    }

    /// The last page's number of each column, and where to resume: after the one that is least far. A column without a
    /// page begins a new life, which its cells notice.
    async fn tails(&self, term: u64) -> Result<(Vec<Number>, Option<Vec<u8>>), StreamError> {
        let mut columns = Vec::new();
        let mut least: Option<(Position, Option<Vec<u8>>)> = None;
        for column in 0..self.shape.writes {
            let last = self.streams.last(&Line::Changes(column)).await?;
            let page = last.and_then(|last| Page::read(&last.body).ok());
            let Some(page) = page else {
                columns.push(Number {
                    life: self.clock.wall_ms(),
                    term,
                    sequence: 0,
                });
                continue;
            };
            columns.push(Number {
                term,
                ..page.number
            });
            if least.as_ref().is_none_or(|(at, _)| page.through < *at) {
                least = Some((page.through, page.resume));
            }
        }
        Ok((columns, least.and_then(|(_, resume)| resume)))
    }

    /// Writes what is new to all columns, however often that takes, and keeps the lease meanwhile.
    async fn hand_on(
        &self,
        lead: &mut Lead,
        batch: Batch,
        lost: Option<String>,
    ) -> Result<(), Ended> {
        self.renew(lead).await?;
        let is_news = !batch.events.is_empty()
            || batch.watermark.is_some()
            || batch.through > lead.through
            || lost.is_some();
        if !is_news {
            return Ok(());
        }
        lead.through = lead.through.max(batch.through);
        let pages = self.pages(lead, batch, lost.as_deref());
        let written = pages.into_iter().enumerate().map(|(column, pages)| {
            let line = Line::Changes(u32::try_from(column).unwrap_or(u32::MAX));
            let term = lead.term;
            async move { self.append(&line, pages, term).await }
        });
        for written in join_all(written).await {
            written?;
        }
        Ok(())
    }

    async fn append(&self, line: &Line, pages: Vec<Vec<u8>>, term: u64) -> Result<(), Ended> {
        let began = self.clock.now();
        loop {
            match self.streams.append(line, pages.clone(), Some(term)).await {
                Ok(()) => return Ok(()),
                Err(StreamError::Deposed) => return Err(Ended::Deposed),
                Err(StreamError::Unavailable(why)) => {
                    if self.clock.now().since(began) > LEASE_MS {
                        return Err(Ended::Unavailable(why));
                    }
                    tokio::time::sleep(Duration::from_millis(RETRY_MS)).await;
                }
            }
        }
    }

    async fn renew(&self, lead: &mut Lead) -> Result<(), Ended> {
        let now = self.clock.now();
        if now.since(lead.renewed) < LEASE_EVERY_MS {
            return Ok(());
        }
        match self.streams.lead(OFFICE, &self.holder, LEASE_MS).await {
            Ok(Some(term)) if term == lead.term => {
                lead.renewed = now;
                Ok(())
            }
            Ok(_) => Err(Ended::Deposed),
            // The streams refuse what comes from an earlier term: nothing is wrong yet.
            Err(_) if now.since(lead.renewed) < LEASE_MS => Ok(()),
            Err(error) => Err(Ended::Unavailable(error.to_string())),
        }
    }

    /// By column, the pages that a batch comes to. Only the last of a column's says how far the batch reaches.
    fn pages(&self, lead: &mut Lead, batch: Batch, lost: Option<&str>) -> Vec<Vec<Vec<u8>>> {
        let watermark = batch.watermark.and_then(|watermark| {
            let stamp = self.streams.stamp(watermark.as_of)?;
            Some((watermark.position, stamp))
        });
        let mut columns = split(&self.shape, batch.events).into_iter();
        let numbers = lead.columns.iter_mut();
        let pages = numbers.map(|number| {
            let sheets = columns.next().unwrap_or_default();
            let last = sheets.len().saturating_sub(1);
            let page = |(at, events): (usize, Vec<ChangeEvent>)| {
                number.sequence += 1;
                let is_last = at == last;
                let page = Page {
                    number: *number,
                    lost: lost.map(str::to_owned),
                    events,
                    through: match is_last {
                        true => batch.through,
                        false => Position::ZERO,
                    },
                    watermark: watermark.filter(|_| is_last),
                    resume: batch.resume.clone().filter(|_| is_last),
                };
                page.write()
            };
            sheets.into_iter().enumerate().map(page).collect()
        });
        pages.collect()
    }
}

/// The events of each column, in sheets of some size; at least one sheet each. A collection is every column's.
fn split(shape: &Shape, events: Vec<ChangeEvent>) -> Vec<Vec<Vec<ChangeEvent>>> {
    let mut columns: Vec<(usize, Vec<Vec<ChangeEvent>>)> =
        (0..shape.writes).map(|_| (0, vec![Vec::new()])).collect();
    let put = |(bytes, sheets): &mut (usize, Vec<Vec<ChangeEvent>>), event: ChangeEvent| {
        let size = size(&event);
        if *bytes > 0 && *bytes + size > PAGE_BYTES_MAX {
            sheets.push(Vec::new());
            *bytes = 0;
        }
        *bytes += size;
        if let Some(sheet) = sheets.last_mut() {
            sheet.push(event);
        }
    };
    for event in events {
        match &event.change {
            Change::Collection => columns.iter_mut().for_each(|one| put(one, event.clone())),
            Change::Record { id, .. } => {
                let column = shape.column_of(&event.namespace, id.as_raw_bson_ref());
                if let Some(one) = columns.get_mut(column as usize) {
                    put(one, event);
                }
            }
        }
    }
    columns.into_iter().map(|(_, sheets)| sheets).collect()
}

fn size(event: &ChangeEvent) -> usize {
    use freshet_core::change::Image;
    let image = |image: &Image| match image {
        Image::Known(document) | Image::Later(Some(document)) => document.as_bytes().len(),
        _ => 0,
    };
    match &event.change {
        Change::Collection => 1,
        Change::Record { before, after, .. } => 64 + image(before) + image(after),
    }
}
