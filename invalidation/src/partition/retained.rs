//! The changes that a cell has matched lately. A query that is registered after its answer was read is matched with those
//! that came between (rule C1).

use std::collections::VecDeque;

use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::Position;

/// Changes that are kept.
const EVENTS_MAX: usize = 50_000;
/// And bytes of their images, about.
const BYTES_MAX: usize = 64 << 20;

/// The changes, in the order in which they were matched.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    /// Each with the highest position so far: repeated changes come with earlier ones again.
    events: VecDeque<(Position, ChangeEvent)>,
    bytes: usize,
    /// Everything after it is kept. `None`: nothing was matched yet.
    from: Option<Position>,
    /// The latest change of a collection as a whole.
    reshaped: Position,
}

impl Retained {
    /// Keeps a change that was matched just now.
    pub(crate) fn push(&mut self, event: &ChangeEvent) {
        // Those before it may share its position.
        self.from.get_or_insert(event.position);
        if matches!(event.change, Change::Collection) {
            self.reshaped = self.reshaped.max(event.position);
        }
        self.bytes += size(event);
        let highest = self.events.back().map(|(highest, _)| *highest);
        let highest = highest.map_or(event.position, |highest| highest.max(event.position));
        self.events.push_back((highest, event.clone()));
        while self.events.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some((_, oldest)) = self.events.pop_front() else {
                return;
            };
            self.bytes -= size(&oldest);
            self.from = self.from.max(Some(oldest.position));
        }
    }

    /// Everything up to there was matched.
    pub(crate) fn through(&mut self, position: Position) {
        if position > Position::ZERO {
            self.from.get_or_insert(position);
        }
    }

    /// The changes after `position`; `None`: not all of them are kept.
    pub(crate) fn after(
        &self,
        position: Position,
    ) -> Option<impl DoubleEndedIterator<Item = &ChangeEvent>> {
        let known = self.from.is_some_and(|from| from <= position);
        let first = self
            .events
            .partition_point(|(highest, _)| *highest <= position);
        let events = self.events.range(first..).map(|(_, event)| event);
        known.then(|| events.filter(move |event| event.position > position))
    }

    /// When a collection was created, dropped or renamed last, or may have been.
    pub(crate) fn reshaped(&self) -> Position {
        self.reshaped.max(self.from.unwrap_or_default())
    }
}

fn size(event: &ChangeEvent) -> usize {
    let bytes = |image: &Image| match image {
        Image::Known(document) | Image::Later(Some(document)) => document.as_bytes().len(),
        _ => 0,
    };
    match &event.change {
        Change::Record { before, after, .. } => bytes(before) + bytes(after),
        Change::Collection => 0,
    }
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;
    use freshet_core::name::Namespace;

    use super::*;

    fn event(position: u64, bytes: usize) -> ChangeEvent {
        ChangeEvent {
            namespace: Namespace::new("d", "c").expect("valid"),
            position: Position(position),
            change: Change::Record {
                id: bson::RawBson::Int32(1),
                before: Image::Absent,
                after: Image::Known(rawdoc! {"x": "x".repeat(bytes)}),
            },
        }
    }

    fn after(retained: &Retained, position: u64) -> Option<Vec<u64>> {
        let events = retained.after(Position(position))?;
        Some(events.map(|event| event.position.0).collect())
    }

    #[test]
    fn c1_what_is_not_kept_any_more_is_not_taken_for_nothing() {
        let mut retained = Retained::default();
        assert_eq!(after(&retained, 9), None, "nothing was matched yet");
        retained.push(&event(5, 10));
        retained.push(&event(6, 10));
        assert_eq!(after(&retained, 4), None);
        assert_eq!(after(&retained, 5), Some(vec![6]));
        assert_eq!(after(&retained, 6), Some(vec![]));
        for position in 7..80 {
            retained.push(&event(position, 1 << 20));
        }
        assert_eq!(after(&retained, 6), None);
        assert_eq!(after(&retained, 77), Some(vec![78, 79]));
    }

    #[test]
    fn c1_changes_that_come_again_hide_none() {
        let mut retained = Retained::default();
        for position in [5, 6, 7, 5, 6, 8] {
            retained.push(&event(position, 10));
        }
        assert_eq!(after(&retained, 5), Some(vec![6, 7, 6, 8]));
        assert_eq!(after(&retained, 7), Some(vec![8]));
    }

    #[test]
    fn an_idle_column_keeps_everything_from_where_it_began() {
        let mut retained = Retained::default();
        retained.through(Position(7));
        assert_eq!(after(&retained, 6), None);
        assert_eq!(after(&retained, 7), Some(vec![]));
    }
}
