//! The whole window of a live query, kept from its changes: the records from the query's start to its end, and a few
//! beyond (the slack), so that what leaves can be replaced without asking the database. When the slack is used up and
//! more followed, the window is read again.
//!
//! Pure. It is told of each record whether it is in the match set now and with what content; that it was told so
//! before, or is told of a change that the read has seen already, does no harm: what counts is the last word on each
//! record. So a read may be older or newer than the changes that are applied to it, as long as none is left out.

mod difference;
mod rows;
mod slack;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::query::Sort;
use freshet_core::time::Moment;
use freshet_core::value::sort::SortError;

use self::difference::event;
use self::rows::{Frame, Order, Row, Shift, place};
use self::slack::Slack;
use super::shapes::differs;
use super::watch::View;

pub use slack::{RENEWAL_INTERVAL_MS_MIN, SLACK_RECORDS_MAX, SLACK_RECORDS_MIN};

/// Changes that are kept while the window is read, at most. If more come, it is read once more.
pub const PENDING_CHANGES_MAX: usize = 1_024;

/// A live query's window.
#[derive(Debug)]
pub struct LiveWindow {
    order: Order,
    frame: Frame,
    view: View,
    slack: Slack,
    /// In order. What was shown last, and what is needed to show more.
    rows: Vec<Row>,
    /// More may follow.
    more: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The rows are what there is.
    Current,
    /// They ran out. What happens is not noted: the read that renews them is made after it.
    Lapsed,
    /// A read is under way, which may or may not have seen these changes. `None`: there were too many.
    Reading(Option<Vec<(RawBson, Option<RawDocumentBuf>)>>),
}

/// What a change did.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// This, to the shown list; often nothing.
    Events(Vec<Event>),
    /// The window has to be read again, not before then: see [`LiveWindow::read`].
    Renew(Moment),
}

/// One change of the shown list. Applied one after the other they lead from each answer to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// The record's `_id`.
    pub id: RawBson,
    /// What happened to it.
    pub kind: EventKind,
    /// Its place in the list afterwards; where it was, if it was removed.
    pub index: usize,
    /// The whole record, unless it was removed. What is shown of it is the caller's to cut out.
    pub document: Option<RawDocumentBuf>,
    /// What a change changed: to whoever shows less of it, it may be none.
    pub was: Option<RawDocumentBuf>,
}

/// What happened to a record of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// It is new, and inserted at its place.
    Add,
    /// It stays where it is, and shows something else.
    Change,
    /// It is taken out at `from` and inserted at its place; what it shows may differ too.
    Move {
        /// Where it was.
        from: usize,
    },
    /// It is taken out.
    Remove,
}

impl LiveWindow {
    /// A window that has to be read: [`LiveWindow::read`]. `view`: what the answer shows of each record.
    #[must_use]
    pub fn new(sort: &Sort, skip: usize, limit: usize, view: View) -> LiveWindow {
        LiveWindow {
            order: sort.pattern(),
            frame: Frame { skip, limit },
            view,
            slack: Slack::of(limit),
            rows: Vec::new(),
            more: true,
            state: State::Lapsed,
        }
    }

    /// A read begins, made at or after the last change that the window was told of; later ones are kept until
    /// [`LiveWindow::load`]. Answers how many records to ask for, from the query's start on, and one more to see
    /// whether any follow.
    pub fn read(&mut self, now: Moment) -> usize {
        self.slack.fill(now);
        self.state = State::Reading(Some(Vec::new()));
        self.capacity()
    }

    /// What was read: the records from the query's start on, in order, and whether more follow. The events lead from
    /// what was shown last to what is shown now. Without a [`LiveWindow::read`] before, no change may have come since.
    pub fn load(&mut self, documents: Vec<RawDocumentBuf>, more: bool) -> Step {
        let pending = match std::mem::replace(&mut self.state, State::Current) {
            State::Reading(pending) => pending,
            State::Current | State::Lapsed => Some(Vec::new()),
        };
        let Some(pending) = pending else {
            return self.lapse();
        };
        let row = |document: RawDocumentBuf| {
            let id = document.get("_id").ok().flatten()?.into();
            Some(Row { id, document })
        };
        let rows = documents.into_iter().map(row).collect::<Option<Vec<_>>>();
        let Some(rows) = rows.filter(|rows| !more || rows.len() >= self.frame.end()) else {
            return self.lapse();
        };
        let old = std::mem::replace(&mut self.rows, rows);
        self.more = more;
        for (id, document) in pending {
            if self.put(id.as_raw_bson_ref(), document).is_none() {
                self.rows = old;
                return self.lapse();
            }
        }
        let (old, new) = (self.frame.cut(&old), self.frame.cut(&self.rows));
        Step::Events(difference::events(old, new, &self.view))
    }

    /// A record was written: `document` is what it is now if it is in the match set, `None` if it is not.
    pub fn apply(&mut self, id: RawBsonRef<'_>, document: Option<&RawDocument>) -> Step {
        match &mut self.state {
            State::Lapsed => Step::Renew(self.slack.not_before()),
            State::Reading(pending) => {
                if let Some(kept) = pending {
                    kept.push((id.into(), document.map(RawDocument::to_owned)));
                    if kept.len() > PENDING_CHANGES_MAX {
                        *pending = None;
                    }
                }
                Step::Events(Vec::new())
            }
            State::Current => match self.put(id, document.map(RawDocument::to_owned)) {
                Some(events) => Step::Events(events),
                None => self.lapse(),
            },
        }
    }

    /// What is shown now.
    pub fn shown(&self) -> impl Iterator<Item = &RawDocument> {
        self.frame.cut(&self.rows).iter().map(|row| &*row.document)
    }

    /// Whether the window has to be read, or is being read.
    #[must_use]
    pub fn is_lapsed(&self) -> bool {
        !matches!(self.state, State::Current)
    }

    /// Records that are kept beyond the end, when the window has just been filled.
    #[must_use]
    pub fn slack(&self) -> usize {
        self.slack.records()
    }

    fn capacity(&self) -> usize {
        self.frame.end().saturating_add(self.slack.records())
    }

    /// Nothing is known of the rows any more but what was shown last.
    fn lapse(&mut self) -> Step {
        self.state = State::Lapsed;
        Step::Renew(self.slack.not_before())
    }

    /// The last word on a record. `None`: the rows do not suffice, or it has no place; nothing is changed then.
    fn put(&mut self, id: RawBsonRef<'_>, document: Option<RawDocumentBuf>) -> Option<Vec<Event>> {
        let from = self.rows.iter().position(|row| row.is(id));
        let new = document.map(|document| Row {
            id: id.into(),
            document,
        });
        let to = match &new {
            Some(row) => self.place_without(from, row).ok()?,
            None => None,
        };
        let before = self.rows.len();
        let after = before - usize::from(from.is_some()) + usize::from(to.is_some());
        if self.more && after < self.frame.end() {
            return None;
        }
        let shift = self.frame.shift((from, before), (to, after));
        let old = shift
            .leaves
            .map(|index| self.rows[self.frame.skip + index].clone());
        if let Some(from) = from {
            self.rows.remove(from);
        }
        if let (Some(to), Some(row)) = (to, new) {
            self.rows.insert(to, row);
        }
        let events = self.events(shift, old);
        let capacity = self.capacity();
        if self.rows.len() > capacity {
            self.rows.truncate(capacity);
            self.more = true;
        }
        Some(events)
    }

    /// The row that `row` belongs to when the one at `from` is gone; `None`: it is beyond all that are known.
    fn place_without(&self, from: Option<usize>, row: &Row) -> Result<Option<usize>, SortError> {
        let rows = &self.rows;
        let (ahead, behind) = match from {
            Some(from) => (&rows[..from], &rows[from + 1..]),
            None => (&rows[..], &rows[rows.len()..]),
        };
        let mut to = place(ahead, row, &self.order)?;
        if to == ahead.len() {
            to += place(behind, row, &self.order)?;
        }
        let others = ahead.len() + behind.len();
        Ok((to < others || !self.more).then_some(to))
    }

    /// `old`: what was at the place that is left.
    fn events(&self, shift: Shift, old: Option<Row>) -> Vec<Event> {
        let new = |index: usize| &self.rows[self.frame.skip + index];
        if let (true, Some(from), Some(to), Some(old)) =
            (shift.own, shift.leaves, shift.enters, &old)
        {
            let kind = match from == to {
                false => EventKind::Move { from },
                true if differs(&self.view, &old.document, &new(to).document) => EventKind::Change,
                true => return Vec::new(),
            };
            let was = (kind == EventKind::Change).then(|| old.document.clone());
            return vec![Event {
                was,
                ..event(new(to), kind, to)
            }];
        }
        let gone = shift.leaves.zip(old.as_ref());
        let gone = gone.map(|(index, row)| event(row, EventKind::Remove, index));
        let come = shift.enters;
        let come = come.map(|index| event(new(index), EventKind::Add, index));
        gone.into_iter().chain(come).collect()
    }
}

#[cfg(test)]
mod tests;
