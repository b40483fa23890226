//! What gateways ask of cells: to match a query from the position on at which its answer was read. Every cell of the
//! query's row answers; only when all have may the answer be cached (rule C1).

use std::collections::HashMap;
use std::sync::Arc;

use bson::{RawBson, RawBsonRef};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use tracing::warn;

use super::streams::{Entry, From, Line, Reader, StreamError, Streams};
use super::wire::{self, Fields, Malformed, Message};
use crate::matcher::{Shown, Window};
use crate::registry::Images;

/// How long requests are waited for at a time, milliseconds.
const WAIT_MS: u64 = 100;
/// Between two attempts, milliseconds.
const RETRY_MS: u64 = 100;

/// A query to match.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    pub(crate) id: u64,
    /// Who asks.
    pub(crate) gateway: Box<str>,
    pub(crate) namespace: Namespace,
    pub(crate) key: Key,
    /// The sketch's epoch under which it is to be cached.
    pub(crate) epoch: u64,
    /// Where its answer was read.
    pub(crate) position: Position,
    /// How long the copy may live, milliseconds.
    pub(crate) span_ms: u64,
    /// What the change feed says about the collection.
    pub(crate) images: Images,
    /// How far the gateway has heard of collections that were created, dropped or renamed.
    pub(crate) known: Position,
    /// What the answer shows.
    pub(crate) members: Option<Vec<Key>>,
    pub(crate) window: Window,
    pub(crate) joined: Vec<Option<Vec<RawBson>>>,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Matched from its position on.
    Active,
    /// It, or its collection, changed after its position.
    Changed,
    /// The changes after its position are not kept any more, or not matched yet.
    Late,
    /// No room.
    Full,
    Quota,
    Retiring,
    /// The matcher cannot decide it (rule C14).
    Undecidable,
}

impl Verdict {
    const ALL: [(Verdict, &'static str); 7] = [
        (Verdict::Active, "active"),
        (Verdict::Changed, "changed"),
        (Verdict::Late, "late"),
        (Verdict::Full, "full"),
        (Verdict::Quota, "quota"),
        (Verdict::Retiring, "retiring"),
        (Verdict::Undecidable, "undecidable"),
    ];

    fn word(self) -> &'static str {
        let known = Verdict::ALL.iter().find(|(verdict, _)| *verdict == self);
        known.map_or("late", |(_, word)| word)
    }

    fn of_word(word: &str) -> Option<Verdict> {
        let known = Verdict::ALL.iter().find(|(_, known)| *known == word);
        known.map(|(verdict, _)| *verdict)
    }
}

impl Request {
    /// What the answer shows, with a window that is known as far as `window` says.
    pub(crate) fn shown(&self, window: Window) -> Shown<'_> {
        Shown {
            members: self.members.as_deref(),
            window,
            joined: self.joined.clone(),
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let members = match &self.members {
            None => RawBson::Null,
            Some(members) => RawBson::Array(wire::keys(members)),
        };
        Message::default()
            .number("id", self.id)
            .with("g", &*self.gateway)
            .with("n", self.namespace.to_string())
            .with("k", self.key.as_str())
            .number("e", self.epoch)
            .number("p", self.position.0)
            .number("s", self.span_ms)
            .with("i", wire::images(self.images))
            .number("h", self.known.0)
            .with("m", members)
            .with("w", wire::window(&self.window))
            .with("j", wire::joined(&self.joined))
            .finish()
    }

    pub(crate) fn read(body: &[u8]) -> Result<Request, Malformed> {
        let fields = Fields::of(body)?;
        let members = fields.items_if_any("m")?;
        let window = fields.get("w").unwrap_or(RawBsonRef::Null);
        Ok(Request {
            id: fields.number("id")?,
            gateway: fields.text("g")?.into(),
            namespace: fields.namespace("n")?,
            key: Key::from(fields.text("k")?),
            epoch: fields.number("e")?,
            position: fields.position("p")?,
            span_ms: fields.number("s")?,
            images: wire::read_images(fields.text("i")?),
            known: fields.position("h")?,
            members: members.map(wire::read_keys).transpose()?,
            window: wire::read_window(window)?,
            joined: wire::read_joined(fields.items("j")?)?,
        })
    }
}

/// A cell's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    /// Which column's cell answers.
    pub(crate) column: u32,
    pub(crate) verdict: Verdict,
}

impl Answer {
    pub(crate) fn write(&self) -> Vec<u8> {
        Message::default()
            .number("id", self.id)
            .number("c", self.column.into())
            .with("v", self.verdict.word())
            .finish()
    }

    pub(crate) fn read(body: &[u8]) -> Result<Answer, Malformed> {
        let fields = Fields::of(body)?;
        Ok(Answer {
            id: fields.number("id")?,
            column: fields.small("c")?,
            verdict: Verdict::of_word(fields.text("v")?).ok_or(Malformed("v"))?,
        })
    }
}

/// Answers the requests of a row, for ever.
pub(crate) async fn answer_requests(
    streams: &Arc<dyn Streams>,
    row: u32,
    column: u32,
    judge: impl Fn(&Request) -> Verdict,
) {
    let line = Line::Requests(row);
    let mut reader: Option<Box<dyn Reader>> = None;
    let mut failing = false;
    loop {
        match answer_next(streams, &line, &mut reader, column, &judge).await {
            Ok(()) => failing = false,
            Err(error) => {
                if !failing {
                    warn!(%error, "requests of gateways cannot be read or answered");
                }
                failing = true;
                tokio::time::sleep(std::time::Duration::from_millis(RETRY_MS)).await;
            }
        }
    }
}

/// A request that goes unanswered is given up by who asked.
async fn answer_next(
    streams: &Arc<dyn Streams>,
    line: &Line,
    reader: &mut Option<Box<dyn Reader>>,
    column: u32,
    judge: &impl Fn(&Request) -> Verdict,
) -> Result<(), StreamError> {
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(streams.read(line, From::Now).await?),
    };
    let entries = reader.next(WAIT_MS).await?;
    let mut answers: HashMap<Box<str>, Vec<Vec<u8>>> = HashMap::new();
    for Entry { body, .. } in entries {
        let Ok(request) = Request::read(&body) else {
            continue;
        };
        let answer = Answer {
            id: request.id,
            column,
            verdict: judge(&request),
        };
        let all = answers.entry(request.gateway).or_default();
        all.push(answer.write());
    }
    for (gateway, answers) in answers {
        let line = Line::Answers(gateway);
        streams.append(&line, answers, None).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bson::RawBsonRef;
    use freshet_core::value::sort::SortKey;

    use super::*;
    use crate::matcher::End;

    #[test]
    fn requests_and_answers_are_written_and_read_again() {
        let place = |n| SortKey::of(&[RawBsonRef::Int32(n), RawBsonRef::Null]).expect("short");
        let request = Request {
            id: 7,
            gateway: "g".into(),
            namespace: Namespace::new("d", "c").expect("valid"),
            key: Key::from("/v1/d/c?filter=x"),
            epoch: 5,
            position: Position(3),
            span_ms: 4,
            images: Images::Both,
            known: Position(2),
            members: Some(vec![Key::from("/v1/d/c/a")]),
            window: Window {
                first: Some(place(1)),
                end: Some(End {
                    last: place(9),
                    beyond: [Some(u64::MAX), None],
                }),
                places: vec![place(1), place(9)],
            },
            joined: vec![None, Some(vec![RawBson::Int32(1), RawBson::Null])],
        };
        assert_eq!(Request::read(&request.write()), Ok(request.clone()));
        let bare = Request {
            members: None,
            window: Window::default(),
            joined: Vec::new(),
            ..request
        };
        assert_eq!(Request::read(&bare.write()), Ok(bare));
        for (verdict, _) in Verdict::ALL {
            let answer = Answer {
                id: 1,
                column: 2,
                verdict,
            };
            assert_eq!(Answer::read(&answer.write()), Ok(answer));
        }
    }
}
