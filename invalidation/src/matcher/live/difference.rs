//! What leads from one list to another, where nobody knows what happened in between.

use super::super::shapes::differs;
use super::super::watch::View;
use super::rows::Row;
use super::{Event, EventKind};

/// The events, in the order in which they are to be applied: what is gone goes first, from the end; then each place
/// is filled from the beginning on.
pub(super) fn events(old: &[Row], new: &[Row], view: &View) -> Vec<Event> {
    let mut events = Vec::new();
    let mut list: Vec<&Row> = old.iter().collect();
    for index in (0..list.len()).rev() {
        if !new.iter().any(|row| is_same(row, list[index])) {
            let gone = list.remove(index);
            events.push(event(gone, EventKind::Remove, index));
        }
    }
    for (index, row) in new.iter().enumerate() {
        let mut was = None;
        let found = list.iter().skip(index).position(|one| is_same(one, row));
        let kind = match found {
            Some(0) if !differs(view, &list[index].document, &row.document) => continue,
            Some(0) => {
                was = Some(list[index].document.clone());
                EventKind::Change
            }
            Some(ahead) => {
                list.remove(index + ahead);
                list.insert(index, row);
                EventKind::Move {
                    from: index + ahead,
                }
            }
            None => {
                list.insert(index, row);
                EventKind::Add
            }
        };
        events.push(Event {
            was,
            ..event(row, kind, index)
        });
    }
    events
}

/// `document` is left out of what is removed.
pub(super) fn event(row: &Row, kind: EventKind, index: usize) -> Event {
    Event {
        id: row.id.clone(),
        kind,
        index,
        document: (kind != EventKind::Remove).then(|| row.document.clone()),
        was: None,
    }
}

fn is_same(a: &Row, b: &Row) -> bool {
    a.is(b.id.as_raw_bson_ref())
}
