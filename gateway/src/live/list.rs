//! The answer of a live query that lists records: its window, and what changes of it are told.

use std::sync::Arc;

use bson::RawDocumentBuf;
use bytes::Bytes;
use freshet_core::notification::Representation;
use freshet_core::query::Query;
use freshet_core::time::{Moment, Position};
use freshet_core::value::ejson;
use freshet_invalidation::live::Did;
use freshet_invalidation::matcher::live::{Event, EventKind, LiveWindow, Step};
use freshet_invalidation::{View, Watch};

use super::kept::{Read, Told};
use crate::app::App;
use crate::error::{Kind, Problem};
use crate::read::asked::representation;
use crate::read::fetch::{dialect, item, listed};
use crate::store::Find;

/// The answer.
pub(super) struct List {
    query: Box<Query>,
    window: LiveWindow,
}

impl List {
    pub(super) fn new(query: Box<Query>) -> List {
        let view = match representation(query.view) {
            Representation::Ids => View::Nothing,
            _ if query.projection.is_all() => View::Whole,
            _ => View::Projection(query.projection.clone()),
        };
        let (skip, limit) = (query.effective_skip() as usize, query.limit as usize);
        List {
            window: LiveWindow::new(&query.sort, skip, limit, view),
            query,
        }
    }

    /// Every change in the match set counts, wherever it is in the order.
    pub(super) fn watch(&self) -> Watch {
        let query = &self.query;
        let (filter, sort) = (query.effective_filter(), query.sort.clone());
        match representation(query.view) {
            Representation::Ids => Watch::ids(filter, sort, false),
            _ => Watch::records(filter, sort, query.projection.clone(), false),
        }
    }

    pub(super) async fn read(
        &mut self,
        app: &App,
        from: Position,
        now: Moment,
    ) -> Result<Read, Problem> {
        let wanted = self.window.read(now);
        let filter = self.query.effective_filter().to_document();
        let sort = self.query.sort.to_document();
        let find = Find {
            namespace: &self.query.namespace,
            filter: &filter,
            sort: Some(&sort),
            skip: 0,
            limit: u32::try_from(wanted + 1).unwrap_or(u32::MAX),
            projection: None,
            at_least: from,
        };
        let found = app.store.find(&find).await?;
        let position = found.snapshot.ok_or_else(no_snapshot)?;
        let documents = found.documents.iter().take(wanted);
        let documents: Vec<RawDocumentBuf> = documents.map(ToOwned::to_owned).collect();
        let more = found.documents.len() > wanted;
        match self.window.load(documents, more) {
            Step::Events(events) => Ok(Read {
                position,
                events: self.tell(events)?,
            }),
            // Only changes between the beginning and the end of a read do that, and none is let in.
            Step::Renew(_) => Err(Problem::new(Kind::Internal, "the window cannot be read")),
        }
    }

    pub(super) fn apply(&mut self, changes: &[Did]) -> Result<Told, Problem> {
        let mut events = Vec::new();
        for did in changes {
            let Did::Record { id, after, .. } = did else {
                return Ok(Told::Read(Moment(0)));
            };
            let after = after.as_ref().map(Arc::as_ref);
            match self
                .window
                .apply(id.as_raw_bson_ref(), after.map(AsRef::as_ref))
            {
                Step::Events(more) => events.extend(self.tell(more)?),
                Step::Renew(not_before) => return Ok(Told::Read(not_before)),
            }
        }
        Ok(Told::Events(events))
    }

    pub(super) fn result(&self) -> Result<Bytes, Problem> {
        listed(&self.query, self.window.shown())
    }

    fn tell(&self, events: Vec<Event>) -> Result<Vec<(&'static str, Vec<u8>)>, Problem> {
        let mut told = Vec::with_capacity(events.len());
        for event in &events {
            if self.shows(event)? {
                told.push(self.told(event)?);
            }
        }
        Ok(told)
    }

    /// Whether anything of it is to be seen: relaxed Extended JSON does not tell all types of numbers apart.
    fn shows(&self, event: &Event) -> Result<bool, Problem> {
        let (Some(was), Some(document)) = (&event.was, &event.document) else {
            return Ok(true);
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        item(&self.query, was, &mut before)?;
        item(&self.query, document, &mut after)?;
        Ok(before != after)
    }

    /// `{"id":…,"index":…,"document":…}`; of a move also where it comes from.
    fn told(&self, event: &Event) -> Result<(&'static str, Vec<u8>), Problem> {
        let name = match event.kind {
            EventKind::Add => "add",
            EventKind::Change => "change",
            EventKind::Move { .. } => "move",
            EventKind::Remove => "remove",
        };
        let mut data = b"{\"id\":".to_vec();
        ejson::write_value(
            event.id.as_raw_bson_ref(),
            dialect(self.query.rep),
            &mut data,
        );
        data.extend_from_slice(format!(",\"index\":{}", event.index).as_bytes());
        if let EventKind::Move { from } = event.kind {
            data.extend_from_slice(format!(",\"from\":{from}").as_bytes());
        }
        if let Some(document) = &event.document {
            data.extend_from_slice(b",\"document\":");
            item(&self.query, document, &mut data)?;
        }
        data.push(b'}');
        Ok((name, data))
    }
}

pub(super) fn no_snapshot() -> Problem {
    // A collection that was just created has none for a moment; a capped one never has.
    let detail = "no snapshot of this collection can be read now, which live queries need";
    Problem::new(Kind::Unavailable, detail)
}
