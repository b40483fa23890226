//! What cells tell all gateways: which resources changed, so that the gateways' own tiers drop them and their estimates
//! learn of it. A gateway that misses a notice, which its numbers tell, drops everything.

use std::collections::HashMap;
use std::mem;

use bson::{RawArrayBuf, RawBsonRef};
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use parking_lot::Mutex;

use super::page::{Follows, Number};
use super::streams::{Line, StreamError, Streams};
use super::wire::{self, Fields, Malformed, Message};

/// Keys that wait to be told; more, and gateways drop everything.
const KEYS_MAX: usize = 100_000;
/// Keys in one notice.
const KEYS_PER_NOTICE_MAX: usize = 5_000;

/// What changed in one collection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Changed {
    pub(crate) namespace: Namespace,
    pub(crate) records: Vec<Key>,
    pub(crate) queries: Vec<Key>,
    /// The collection as a whole.
    pub(crate) whole: bool,
}

/// A notice.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Notice {
    cell: Box<str>,
    number: Number,
    /// Everything may have changed.
    pub(crate) everything: bool,
    pub(crate) changed: Vec<Changed>,
}

/// What a cell has to tell.
pub(crate) struct Board {
    cell: Box<str>,
    state: Mutex<State>,
    /// One teller at a time: numbers go out in order.
    telling: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    number: Number,
    keys: usize,
    everything: bool,
    changed: Vec<Changed>,
}

impl Board {
    /// The board of a cell in this life of its process.
    pub(crate) fn new(cell: String, life: u64) -> Board {
        Board {
            cell: cell.into(),
            state: Mutex::new(State {
                number: Number {
                    life,
                    ..Number::default()
                },
                // What an earlier life had not told.
                everything: true,
                ..State::default()
            }),
            telling: tokio::sync::Mutex::new(()),
        }
    }

    /// Something changed.
    pub(crate) fn note<'a>(
        &self,
        namespace: &Namespace,
        keys: impl Iterator<Item = (&'a Key, ResourceKind)>,
        whole: bool,
    ) {
        let mut changed = Changed {
            namespace: namespace.clone(),
            records: Vec::new(),
            queries: Vec::new(),
            whole,
        };
        for (key, kind) in keys {
            match kind {
                ResourceKind::Record => changed.records.push(key.clone()),
                ResourceKind::Query => changed.queries.push(key.clone()),
            }
        }
        let keys = changed.records.len() + changed.queries.len();
        if keys == 0 && !whole {
            return;
        }
        let mut state = self.state.lock();
        if state.keys + keys > KEYS_MAX {
            *state = State {
                number: state.number,
                everything: true,
                ..State::default()
            };
            return;
        }
        state.keys += keys;
        state.changed.push(changed);
    }

    /// Everything may have changed.
    pub(crate) fn note_everything(&self) {
        self.state.lock().everything = true;
    }

    /// Tells all there is to tell. What is not told counts as missed: the next notice's number says so.
    pub(crate) async fn tell(&self, streams: &dyn Streams) -> Result<(), StreamError> {
        let _one = self.telling.lock().await;
        let notices = self.take();
        match notices.is_empty() {
            true => Ok(()),
            false => {
                let told = streams.append(&Line::Notices, notices, None).await;
                if told.is_err() {
                    // It may have been told or not; a gap in the numbers is made in any case.
                    let mut state = self.state.lock();
                    state.number.sequence += 1;
                    state.everything = true;
                }
                told
            }
        }
    }

    fn take(&self) -> Vec<Vec<u8>> {
        let mut state = self.state.lock();
        let everything = mem::take(&mut state.everything);
        let mut changed = mem::take(&mut state.changed).into_iter().peekable();
        state.keys = 0;
        let mut notices = Vec::new();
        let mut first = everything;
        while first || changed.peek().is_some() {
            let (mut some, mut keys) = (Vec::new(), 0);
            while keys < KEYS_PER_NOTICE_MAX
                && let Some(one) = changed.next()
            {
                keys += one.records.len() + one.queries.len();
                some.push(one);
            }
            state.number.sequence += 1;
            let notice = Notice {
                cell: self.cell.clone(),
                number: state.number,
                everything: first,
                changed: some,
            };
            notices.push(notice.write());
            first = false;
        }
        notices
    }
}

impl Notice {
    fn write(&self) -> Vec<u8> {
        let changed: RawArrayBuf = self.changed.iter().map(Changed::write).collect();
        self.number
            .append_to(Message::default().with("c", &*self.cell))
            .with("a", self.everything)
            .with("e", changed)
            .finish()
    }

    pub(crate) fn read(body: &[u8]) -> Result<Notice, Malformed> {
        let fields = Fields::of(body)?;
        let changed = fields.items("e")?.into_iter().map(Changed::read);
        Ok(Notice {
            cell: fields.text("c")?.into(),
            number: Number::read(&fields)?,
            everything: fields.flag("a"),
            changed: changed.collect::<Result<_, _>>()?,
        })
    }
}

impl Changed {
    fn write(&self) -> bson::RawBson {
        let message = Message::default()
            .with("n", self.namespace.to_string())
            .with("r", wire::keys(&self.records))
            .with("q", wire::keys(&self.queries))
            .with("w", self.whole);
        bson::RawBson::Document(message.into_document())
    }

    fn read(item: RawBsonRef<'_>) -> Result<Changed, Malformed> {
        let fields = wire::document(item)?;
        Ok(Changed {
            namespace: fields.namespace("n")?,
            records: wire::read_keys(fields.items("r")?)?,
            queries: wire::read_keys(fields.items("q")?)?,
            whole: fields.flag("w"),
        })
    }
}

/// The cells that a gateway has heard of.
#[derive(Debug, Default)]
pub(crate) struct Heard(HashMap<Box<str>, Number>);

impl Heard {
    /// Whether nothing is missing between this notice of a cell and its last one. Of a cell that was not heard of before,
    /// something may be.
    pub(crate) fn hear(&mut self, notice: &Notice) -> bool {
        let last = self.0.insert(notice.cell.clone(), notice.number);
        last.is_some_and(|last| notice.number.follows(last) == Follows::Directly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(count: usize) -> Vec<Key> {
        let key = |n| Key::from(format!("/v1/d/c/{n}"));
        (0..count).map(key).collect()
    }

    fn note(board: &Board, keys: &[Key]) {
        let namespace = Namespace::new("d", "c").expect("valid");
        let keys = keys.iter().map(|key| (key, ResourceKind::Record));
        board.note(&namespace, keys, false);
    }

    #[test]
    fn notices_are_numbered_and_a_missing_one_is_noticed() {
        let board = Board::new("cell".to_owned(), 1);
        let mut heard = Heard::default();
        let take = || {
            note(&board, &keys(3));
            let notices = board.take();
            assert_eq!(notices.len(), 1);
            Notice::read(&notices[0]).expect("a notice")
        };
        assert!(take().everything, "an earlier life may not have told it");
        let (first, second, _, fourth) = (take(), take(), take(), take());
        assert_eq!(second.changed[0].records, keys(3));
        assert!(!heard.hear(&first), "what came before is not known");
        assert!(heard.hear(&second));
        assert!(!heard.hear(&fourth));
    }

    #[test]
    fn too_much_to_tell_is_everything() {
        let board = Board::new("cell".to_owned(), 1);
        board.take();
        note(&board, &keys(KEYS_MAX));
        note(&board, &keys(1));
        let notices = board.take();
        assert_eq!(notices.len(), 1);
        assert!(Notice::read(&notices[0]).expect("a notice").everything);
        assert!(board.take().is_empty());
    }
}
