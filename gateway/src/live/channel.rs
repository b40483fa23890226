//! What is sent to all who follow one query, and what of it is kept for those who come back.

use std::collections::VecDeque;

use bytes::Bytes;
use freshet_core::time::Position;
use tokio::sync::broadcast;

/// Events that a subscriber may be behind; one that is more is cut off.
const BEHIND_MAX: usize = 256;
/// Events kept for those who come back, in number and in bytes.
const KEPT_MAX: usize = 1_024;
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The channel.
pub(super) struct Channel {
    sender: broadcast::Sender<Bytes>,
    kept: VecDeque<(Position, Bytes)>,
    kept_bytes: usize,
    /// Every event after it is kept.
    since: Position,
    /// What was sent leads to the answer at this position.
    position: Position,
}

impl Channel {
    /// A channel that begins with the answer at a position.
    #[must_use]
    pub(super) fn new(position: Position) -> Channel {
        Channel {
            sender: broadcast::Sender::new(BEHIND_MAX),
            kept: VecDeque::new(),
            kept_bytes: 0,
            since: position,
            position,
        }
    }

    /// Sends events that lead to the answer at a position.
    pub(super) fn send(&mut self, position: Position, events: impl IntoIterator<Item = Bytes>) {
        self.position = position;
        for event in events {
            // Nobody is listening: it is kept all the same.
            let _ = self.sender.send(event.clone());
            self.kept_bytes += event.len();
            self.kept.push_back((position, event));
        }
        while self.kept.len() > KEPT_MAX || self.kept_bytes > KEPT_BYTES_MAX {
            let Some((position, event)) = self.kept.pop_front() else {
                break;
            };
            self.kept_bytes -= event.len();
            self.since = position;
        }
    }

    /// The position of the answer that was last sent.
    #[must_use]
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// What is sent from now on.
    #[must_use]
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Bytes> {
        self.sender.subscribe()
    }

    /// How many listen.
    #[must_use]
    pub(super) fn listeners(&self) -> usize {
        self.sender.receiver_count()
    }

    /// What someone missed whose last event was of this position; `None`: that cannot be told.
    #[must_use]
    pub(super) fn missed(&self, last: Position) -> Option<Vec<Bytes>> {
        if last < self.since || last > self.position {
            return None;
        }
        let first = self.kept.partition_point(|(at, _)| *at < last);
        let after = self.kept.partition_point(|(at, _)| *at <= last);
        // Of several events of one position, the connection may have ended between two.
        (after - first <= 1).then(|| {
            let missed = self.kept.iter().skip(after);
            missed.map(|(_, event)| event.clone()).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(events: Option<Vec<Bytes>>) -> Option<Vec<String>> {
        let text = |event: &Bytes| String::from_utf8_lossy(event).into_owned();
        events.map(|events| events.iter().map(text).collect())
    }

    fn channel() -> Channel {
        let mut channel = Channel::new(Position(5));
        channel.send(Position(7), [Bytes::from_static(b"a")]);
        channel.send(Position(8), [b"b", b"c"].map(|b| Bytes::from_static(b)));
        channel.send(Position(9), [Bytes::from_static(b"d")]);
        channel.send(Position(10), []);
        channel
    }

    #[test]
    fn who_comes_back_gets_what_was_missed_or_begins_again() {
        let channel = channel();
        let missed = |last| texts(channel.missed(Position(last)));
        let of = |events: &[&str]| Some(events.iter().map(|one| (*one).to_owned()).collect());
        assert_eq!(missed(5), of(&["a", "b", "c", "d"]));
        assert_eq!(missed(6), of(&["a", "b", "c", "d"]));
        assert_eq!(missed(7), of(&["b", "c", "d"]));
        assert_eq!(missed(8), None, "one of two may be missing");
        assert_eq!(missed(9), of(&[]));
        assert_eq!(missed(10), of(&[]));
        assert_eq!(missed(4), None, "before all that is kept");
        assert_eq!(missed(11), None, "of another server");
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let mut channel = Channel::new(Position(0));
        let large = Bytes::from(vec![b'x'; KEPT_BYTES_MAX / 2]);
        for position in 1..4 {
            channel.send(Position(position), [large.clone()]);
        }
        assert_eq!(channel.missed(Position(0)), None);
        assert_eq!(
            channel.missed(Position(1)).map(|missed| missed.len()),
            Some(2)
        );
        for position in 4..4 + 2 * KEPT_MAX as u64 {
            channel.send(Position(position), [Bytes::from_static(b"x")]);
        }
        assert_eq!(channel.kept.len(), KEPT_MAX);
    }
}
