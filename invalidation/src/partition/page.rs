//! A page of a column's changes: what the ingest leader appends and the column's cells read. Its number tells whether
//! one is missing, whatever became of the stream between.

use bson::{RawArrayBuf, RawBsonRef};
use freshet_core::change::ChangeEvent;
use freshet_core::time::Position;

use super::wire::{self, Fields, Malformed, Message};

/// The page.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Page {
    pub(super) number: Number,
    /// Changes were lost before it, for everyone (rule C8).
    pub(super) lost: Option<String>,
    /// The column's changes.
    pub(super) events: Vec<ChangeEvent>,
    /// Every write at or before it was on this or an earlier page.
    pub(super) through: Position,
    /// What the change stream has proved to be complete, and as of when ([`super::streams::Streams::stamp`]).
    pub(super) watermark: Option<(Position, u64)>,
    /// Where a leader resumes after this page.
    pub(super) resume: Option<Vec<u8>>,
}

/// Where a page stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    /// Which life of the stream: it may have been emptied.
    pub(super) life: u64,
    /// Of the leader that wrote it.
    pub(super) term: u64,
    /// One more than that of the page before.
    pub(super) sequence: u64,
}

/// How a page stands to the one that was read before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    /// Nothing is missing between them.
    Directly,
    /// It was written twice.
    Again,
    /// Something is.
    NotAtAll,
}

impl Number {
    /// A later leader resumes where the stream ended for it, which may be before what was read of it already: a server
    /// that took over had not got the last pages. What it writes then are the same changes again, and those after them.
    pub(super) fn follows(self, last: Number) -> Follows {
        let same_life = self.life == last.life;
        let same_term = self.term == last.term;
        match self.sequence {
            sequence if same_life && sequence == last.sequence + 1 => Follows::Directly,
            sequence if same_life && sequence <= last.sequence => match same_term {
                true => Follows::Again,
                false if self.term > last.term => Follows::Directly,
                false => Follows::Again,
            },
            _ => Follows::NotAtAll,
        }
    }

    pub(super) fn append_to(self, message: Message) -> Message {
        message
            .number("x", self.life)
            .number("t", self.term)
            .number("s", self.sequence)
    }

    pub(super) fn read(fields: &Fields<'_>) -> Result<Number, Malformed> {
        Ok(Number {
            life: fields.number("x")?,
            term: fields.number("t")?,
            sequence: fields.number("s")?,
        })
    }
}

impl Page {
    pub(super) fn write(&self) -> Vec<u8> {
        let events: RawArrayBuf = self.events.iter().map(wire::event).collect();
        let mut message = self.number.append_to(Message::default());
        if let Some(why) = &self.lost {
            message = message.with("l", why.as_str());
        }
        message
            .number("h", self.through.0)
            .number_if_any("w", self.watermark.map(|(position, _)| position.0))
            .number_if_any("a", self.watermark.map(|(_, stamp)| stamp))
            .bytes_if_any("r", self.resume.as_deref())
            .with("e", events)
            .finish()
    }

    pub(super) fn read(body: &[u8]) -> Result<Page, Malformed> {
        let fields = Fields::of(body)?;
        let events = fields.items("e")?.into_iter().map(wire::read_event);
        let watermark = fields.number_if_any("w").map(Position);
        Ok(Page {
            number: Number::read(&fields)?,
            lost: fields
                .get("l")
                .and_then(RawBsonRef::as_str)
                .map(str::to_owned),
            events: events.collect::<Result<_, _>>()?,
            through: fields.position("h")?,
            watermark: watermark.zip(fields.number_if_any("a")),
            resume: fields.bytes_if_any("r"),
        })
    }
}

#[cfg(test)]
mod tests {
    use bson::{RawBson, rawdoc};
    use freshet_core::change::{Change, Image};
    use freshet_core::name::Namespace;

    use super::*;

    fn number(life: u64, term: u64, sequence: u64) -> Number {
        Number {
            life,
            term,
            sequence,
        }
    }

    #[test]
    fn a_page_is_written_and_read_again() {
        let change = |before, after| ChangeEvent {
            namespace: Namespace::new("d", "c.e").expect("valid"),
            position: Position(u64::MAX),
            change: Change::Record {
                id: RawBson::String("k".to_owned()),
                before,
                after,
            },
        };
        let state = || rawdoc! {"_id": "k", "a": [1, 2.5]};
        let events = vec![
            change(Image::Absent, Image::Known(state())),
            change(Image::Known(state()), Image::Later(Some(state()))),
            change(Image::Unknown, Image::Later(None)),
            ChangeEvent {
                change: Change::Collection,
                ..change(Image::Absent, Image::Absent)
            },
        ];
        let page = Page {
            number: number(1, 2, 3),
            lost: Some("history".to_owned()),
            events,
            through: Position(7),
            watermark: Some((Position(6), 5)),
            resume: Some(vec![0, 255]),
        };
        assert_eq!(Page::read(&page.write()), Ok(page.clone()));
        let empty = Page {
            lost: None,
            events: Vec::new(),
            watermark: None,
            resume: None,
            ..page
        };
        assert_eq!(Page::read(&empty.write()), Ok(empty));
        assert!(Page::read(b"nonsense").is_err());
    }

    #[test]
    fn c8_a_missing_page_is_noticed_and_a_later_leader_may_begin_earlier() {
        let last = number(1, 5, 103);
        assert_eq!(number(1, 5, 104).follows(last), Follows::Directly);
        assert_eq!(number(1, 6, 104).follows(last), Follows::Directly);
        assert_eq!(number(1, 5, 103).follows(last), Follows::Again);
        assert_eq!(number(1, 6, 101).follows(last), Follows::Directly);
        assert_eq!(number(1, 5, 105).follows(last), Follows::NotAtAll);
        assert_eq!(number(1, 6, 105).follows(last), Follows::NotAtAll);
        assert_eq!(number(2, 6, 104).follows(last), Follows::NotAtAll);
    }
}
