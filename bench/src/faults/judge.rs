//! Whether an answer is one that the coherence contract allows. An answer is right when it was the true one at some one
//! moment between Δ before the read began and the end of the read; and, for the session that reads, not from before
//! what it wrote or was shown.
//!
//! For each record that could be in the answer there are spans of time in which each of its states may have been
//! current (`history.rs`). A moment that lies in a fitting span of every record is looked for; such moments form closed
//! intervals, so it is enough to try the ends of spans. Nothing is approximated, and whatever cannot be known counts for
//! the answer: what is called a violation is one.

use std::collections::HashMap;

use super::history::{Span, Value};

/// A record, by its number.
pub(super) type Number = usize;

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// One record, or that there is none.
    Record(Option<Value>),
    /// The records of a group; with `top`, only so many, those with the greatest versions, the greatest first.
    Group {
        group: u32,
        items: Vec<(Number, Value)>,
        top: Option<usize>,
    },
    /// How many records a group has.
    Count { group: u32, count: u64 },
}

/// The records that an answer could speak of, each with its spans.
pub(super) type Facts = Vec<(Number, Vec<Span>)>;

/// For each record the first state that a session may still be shown.
pub(super) type Floor = HashMap<Number, usize>;

/// When a read was made, microseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Read {
    pub(super) began: u64,
    pub(super) ended: u64,
    /// Δ.
    pub(super) bound: u64,
}

/// What was promised and not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Violation {
    /// It was true last so many microseconds before the read began.
    Stale(u64),
    /// It never was true.
    NeverTrue,
    /// It is from before a write of the session.
    OwnWriteMissing,
    /// It is from before what the session was shown for the same key.
    TakesBack,
}

/// An answer that is allowed: how long before the read's begin it was last true, microseconds.
pub(super) type Verdict = Result<u64, Violation>;

/// Judges an answer. `own` and `shown` are what the session wrote and was shown.
pub(super) fn judge(
    shown: &Shown,
    facts: &Facts,
    read: Read,
    own: &Floor,
    seen: &Floor,
) -> Verdict {
    let earliest = read.began.saturating_sub(read.bound);
    let none = Floor::new();
    let latest = |floor: &Floor, since| latest_moment(shown, facts, floor, since, read.ended);
    let Some(moment) = latest(&none, earliest) else {
        return Err(match latest(&none, 0) {
            Some(moment) => Violation::Stale(read.began - moment),
            None => Violation::NeverTrue,
        });
    };
    if latest(own, earliest).is_none() {
        return Err(Violation::OwnWriteMissing);
    }
    if latest(seen, earliest).is_none() {
        return Err(Violation::TakesBack);
    }
    Ok(read.began.saturating_sub(moment))
}

/// The last moment from `since` to `until` at which the answer was true.
fn latest_moment(
    shown: &Shown,
    facts: &Facts,
    floor: &Floor,
    since: u64,
    until: u64,
) -> Option<u64> {
    let spans = facts.iter().flat_map(|(_, spans)| spans);
    let mut ends: Vec<u64> = spans
        .map(|span| span.to)
        .filter(|to| (since..until).contains(to))
        .collect();
    ends.push(until);
    ends.sort_unstable_by(|a, b| b.cmp(a));
    ends.dedup();
    ends.into_iter()
        .find(|moment| is_true_at(shown, facts, floor, *moment))
}

fn is_true_at(shown: &Shown, facts: &Facts, floor: &Floor, moment: u64) -> bool {
    let mut states = facts.iter().map(|(number, spans)| {
        let first = floor.get(number).copied().unwrap_or(0);
        let current = spans
            .iter()
            .filter(move |span| span.state >= first && (span.from..=span.to).contains(&moment));
        (*number, current.map(|span| span.value))
    });
    match shown {
        Shown::Record(value) => states.all(|(_, mut states)| states.any(|state| state == *value)),
        Shown::Count { group, count } => {
            let (mut least, mut most) = (0, 0);
            for (_, states) in states {
                let inside: Vec<bool> = states.map(|state| is_in(state, *group)).collect();
                least += u64::from(!inside.is_empty() && inside.iter().all(|inside| *inside));
                most += u64::from(inside.contains(&true));
            }
            (least..=most).contains(count)
        }
        Shown::Group { group, items, top } => {
            let shown: HashMap<Number, Value> = items.iter().copied().collect();
            let last = items.last().map(|(_, value)| value.version);
            let full = top.is_some_and(|top| items.len() == top);
            let known = states.all(|(number, mut states)| match shown.get(&number) {
                Some(value) => {
                    is_in(Some(*value), *group) && states.any(|state| state == Some(*value))
                }
                None => states.any(|state| {
                    !is_in(state, *group) || (full && state.map(|state| state.version) <= last)
                }),
            });
            known && is_well_formed(items, facts, *top)
        }
    }
}

fn is_in(state: Option<Value>, group: u32) -> bool {
    state.is_some_and(|value| value.group == group)
}

/// Every record once, only such as could be there, and in order.
fn is_well_formed(items: &[(Number, Value)], facts: &Facts, top: Option<usize>) -> bool {
    let mut numbers: Vec<Number> = items.iter().map(|(number, _)| *number).collect();
    numbers.sort_unstable();
    let once = numbers.windows(2).all(|pair| pair[0] < pair[1]);
    let known = numbers
        .iter()
        .all(|number| facts.iter().any(|(fact, _)| fact == number));
    let ordered = top.is_none_or(|top| {
        items.len() <= top && items.is_sorted_by(|(_, a), (_, b)| a.version >= b.version)
    });
    once && known && ordered
}

/// The states that an answer has shown, as floors for the answers after it: of several states that look the same the
/// earliest counts.
pub(super) fn floors(shown: &Shown, facts: &Facts, read: Read) -> Floor {
    let earliest = read.began.saturating_sub(read.bound);
    let mut floor = Floor::new();
    let mut note = |number: Number, value: Option<Value>| {
        let spans = facts.iter().find(|(fact, _)| *fact == number);
        let fitting = spans
            .iter()
            .flat_map(|(_, spans)| spans)
            .filter(|span| span.value == value && span.to >= earliest && span.from <= read.ended);
        if let Some(state) = fitting.map(|span| span.state).min() {
            floor.insert(number, state);
        }
    };
    match shown {
        Shown::Record(value) => facts.iter().for_each(|(number, _)| note(*number, *value)),
        Shown::Group { items, .. } => items
            .iter()
            .for_each(|(number, value)| note(*number, Some(*value))),
        Shown::Count { .. } => {}
    }
    floor
}

/// Raises `floor` to `news` where that is higher.
pub(super) fn raise(floor: &mut Floor, news: &Floor) {
    for (number, state) in news {
        let at = floor.entry(*number).or_default();
        *at = (*at).max(*state);
    }
}

#[cfg(test)]
mod tests;
