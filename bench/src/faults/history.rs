//! What is known of every record: each state that a write gave it, when that write was begun, and when it was
//! acknowledged. One monotonic clock, the process's own; microseconds.
//!
//! Writes of one record are made one after the other. One whose outcome never came may have happened at any time since
//! it was begun, or not at all: it neither has to be seen nor may it be called wrong.

use parking_lot::RwLock;

/// The end of what is still current.
pub(super) const NEVER: u64 = u64::MAX;

/// What a record shows: the version that its writer gave it, and the group that queries ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Value {
    pub(super) version: u64,
    pub(super) group: u32,
}

/// One state of a record.
#[derive(Clone, Copy, Debug)]
struct State {
    /// `None`: there is no such record.
    value: Option<Value>,
    begun: u64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Unknown,
    Acknowledged(u64),
    /// The write was refused: nobody may ever see it.
    Refused,
}

/// A state and the time in which it may have been the current one: from the beginning of its write to the
/// acknowledgement of a later one, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Its number among the states of the record.
    pub(super) state: usize,
    pub(super) value: Option<Value>,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The states of one record, the oldest first.
#[derive(Debug, Default)]
pub(super) struct History(RwLock<Vec<State>>);

impl History {
    /// A write is about to be sent. Answers its state's number.
    pub(super) fn begin(&self, value: Option<Value>, now: u64) -> usize {
        let mut states = self.0.write();
        states.push(State {
            value,
            begun: now,
            outcome: Outcome::Unknown,
        });
        states.len() - 1
    }

    /// The write was acknowledged.
    pub(super) fn acknowledge(&self, state: usize, now: u64) {
        self.0.write()[state].outcome = Outcome::Acknowledged(now);
    }

    /// The write was refused: it did not happen and will not.
    pub(super) fn refuse(&self, state: usize) {
        self.0.write()[state].outcome = Outcome::Refused;
    }

    /// A version that no state has had.
    pub(super) fn next_version(&self) -> u64 {
        self.0.read().len() as u64 + 1
    }

    /// What the record shows, if every write so far has a known outcome.
    pub(super) fn settled(&self) -> Option<Option<Value>> {
        let states = self.0.read();
        let happened = states.iter().rev();
        let last = happened
            .into_iter()
            .find(|state| state.outcome != Outcome::Refused)?;
        matches!(last.outcome, Outcome::Acknowledged(_)).then_some(last.value)
    }

    /// When the last write whose outcome is not known was begun.
    pub(super) fn unsure_since(&self) -> Option<u64> {
        let states = self.0.read();
        let unsure = states
            .iter()
            .rev()
            .find(|state| state.outcome == Outcome::Unknown);
        unsure.map(|state| state.begun)
    }

    /// The states that may have been current at `since` or later.
    pub(super) fn spans(&self, since: u64) -> Vec<Span> {
        let states = self.0.read();
        let mut spans = Vec::new();
        let mut to = NEVER;
        for (number, state) in states.iter().enumerate().rev() {
            if to < since {
                break;
            }
            if state.outcome != Outcome::Refused {
                spans.push(Span {
                    state: number,
                    value: state.value,
                    from: state.begun,
                    to,
                });
            }
            if let Outcome::Acknowledged(at) = state.outcome {
                to = at;
            }
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(version: u64) -> Option<Value> {
        Some(Value { version, group: 0 })
    }

    #[test]
    fn a_state_is_current_from_its_begin_to_the_acknowledgement_of_a_later_one() {
        let history = History::default();
        let first = history.begin(value(1), 10);
        history.acknowledge(first, 20);
        let second = history.begin(value(2), 30);
        let spans = |since| -> Vec<(u64, u64)> {
            let spans = history.spans(since);
            spans.iter().map(|span| (span.from, span.to)).collect()
        };
        assert_eq!(spans(0), [(30, NEVER), (10, NEVER)]);
        assert_eq!(history.settled(), None);
        history.acknowledge(second, 40);
        assert_eq!(spans(0), [(30, NEVER), (10, 40)]);
        assert_eq!(spans(41), [(30, NEVER)]);
        assert_eq!(history.settled(), Some(value(2)));
    }

    #[test]
    fn a_write_without_an_outcome_ends_nothing_and_a_refused_one_is_no_state() {
        let history = History::default();
        let first = history.begin(value(1), 10);
        history.acknowledge(first, 20);
        history.begin(value(2), 30);
        let refused = history.begin(value(3), 50);
        history.refuse(refused);
        let states: Vec<usize> = history.spans(60).iter().map(|span| span.state).collect();
        assert_eq!(states, [1, 0]);
        assert_eq!(
            (history.unsure_since(), history.next_version()),
            (Some(30), 4)
        );
    }
}
