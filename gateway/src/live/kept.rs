//! The answer of a live query, of whatever form.

use bytes::Bytes;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::Watch;
use freshet_invalidation::live::Did;

use super::list::List;
use super::value::Value;
use crate::app::App;
use crate::error::Problem;
use crate::read::asked::Asked;

/// The answer.
pub(super) enum Kept {
    /// Records.
    List(Box<List>),
    /// Something computed.
    Value(Box<Value>),
}

/// Events, by name and data.
pub(super) type Events = Vec<(&'static str, Vec<u8>)>;

/// What a read found.
pub(super) struct Read {
    /// Of exactly this position.
    pub(super) position: Position,
    /// They lead from what was shown last to what is shown now.
    pub(super) events: Events,
}

/// What changes come to.
pub(super) enum Told {
    /// These events.
    Events(Events),
    /// It has to be read again, not before then.
    Read(Moment),
}

impl Kept {
    /// The answer to a question, not read yet.
    ///
    /// # Errors
    /// 404 for what is no query.
    pub(super) fn of(asked: Asked) -> Result<Kept, Problem> {
        Ok(match asked {
            Asked::Query(query) => Kept::List(Box::new(List::new(query))),
            Asked::Count(query) => Kept::Value(Box::new(Value::count(query)?)),
            Asked::Aggregate(query) => Kept::Value(Box::new(Value::aggregate(query))),
            Asked::Record(_) => return Err(Problem::no_such_path()),
        })
    }

    /// What it depends on.
    #[must_use]
    pub(super) fn watch(&self) -> Watch {
        match self {
            Kept::List(list) => list.watch(),
            Kept::Value(value) => value.watch(),
        }
    }

    /// Reads it, at or after `from`.
    ///
    /// # Errors
    /// The store's; 503 where there is no snapshot to be read.
    pub(super) async fn read(
        &mut self,
        app: &App,
        from: Position,
        now: Moment,
    ) -> Result<Read, Problem> {
        match self {
            Kept::List(list) => list.read(app, from, now).await,
            Kept::Value(value) => value.read(app, from).await,
        }
    }

    /// What happened at one position.
    ///
    /// # Errors
    /// A record that cannot be shown.
    pub(super) fn apply(&mut self, changes: &[Did]) -> Result<Told, Problem> {
        match self {
            Kept::List(list) => list.apply(changes),
            Kept::Value(value) => Ok(value.apply(changes)),
        }
    }

    /// The whole answer.
    ///
    /// # Errors
    /// A record that cannot be shown.
    pub(super) fn result(&self) -> Result<Bytes, Problem> {
        match self {
            Kept::List(list) => list.result(),
            Kept::Value(value) => Ok(value.result()),
        }
    }
}
