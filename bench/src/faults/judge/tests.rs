//! The checker can fail: made-up histories, with answers that have to be called wrong and such that must not.

use super::super::history::History;
use super::*;

fn value(version: u64, group: u32) -> Option<Value> {
    Some(Value { version, group })
}

/// Writes of one record: value, begun, acknowledged (0: never).
fn history(writes: &[(Option<Value>, u64, u64)]) -> History {
    let history = History::default();
    for (value, begun, acknowledged) in writes {
        let state = history.begin(*value, *begun);
        if *acknowledged > 0 {
            history.acknowledge(state, *acknowledged);
        }
    }
    history
}

fn facts(histories: &[History]) -> Facts {
    let spans = histories.iter().map(|history| history.spans(0));
    spans.enumerate().collect()
}

fn read(began: u64, ended: u64, bound: u64) -> Read {
    Read {
        began,
        ended,
        bound,
    }
}

fn judged(shown: &Shown, facts: &Facts, read: Read) -> Verdict {
    judge(shown, facts, read, &Floor::new(), &Floor::new())
}

#[test]
fn an_answer_that_misses_a_write_acknowledged_longer_ago_than_delta_is_flagged() {
    let facts = facts(&[history(&[(value(1, 0), 0, 10), (value(2, 0), 100, 200)])]);
    let old = Shown::Record(value(1, 0));
    assert_eq!(judged(&old, &facts, read(250, 260, 50)), Ok(50));
    assert_eq!(
        judged(&old, &facts, read(251, 260, 50)),
        Err(Violation::Stale(51))
    );
    assert_eq!(
        judged(&old, &facts, read(150, 300, 0)),
        Ok(0),
        "true when the read began"
    );
    assert_eq!(
        judged(&Shown::Record(value(2, 0)), &facts, read(50, 99, 50)),
        Err(Violation::NeverTrue),
        "not begun when the read ended"
    );
    assert_eq!(
        judged(&Shown::Record(value(3, 0)), &facts, read(250, 260, 50)),
        Err(Violation::NeverTrue)
    );
}

#[test]
fn a_record_that_is_gone_or_came_back_is_judged_as_its_versions_are() {
    let facts = facts(&[history(&[
        (value(1, 0), 0, 10),
        (None, 100, 110),
        (value(3, 0), 200, 210),
    ])]);
    let gone = Shown::Record(None);
    assert_eq!(judged(&gone, &facts, read(150, 160, 20)), Ok(0));
    assert_eq!(
        judged(&gone, &facts, read(300, 301, 20)),
        Err(Violation::Stale(90))
    );
    assert_eq!(
        judged(&Shown::Record(value(1, 0)), &facts, read(150, 160, 20)),
        Err(Violation::Stale(40))
    );
}

#[test]
fn a_write_without_an_outcome_may_be_seen_or_not() {
    let facts = facts(&[history(&[(value(1, 0), 0, 10), (value(2, 0), 100, 0)])]);
    for version in [1, 2] {
        let shown = Shown::Record(value(version, 0));
        assert_eq!(judged(&shown, &facts, read(500, 501, 0)), Ok(0));
    }
}

#[test]
fn a_session_sees_what_it_wrote_and_takes_nothing_back() {
    let facts = facts(&[history(&[(value(1, 0), 0, 10), (value(2, 0), 100, 110)])]);
    let (old, when) = (Shown::Record(value(1, 0)), read(120, 121, 1_000));
    let floor = Floor::from([(0, 1)]);
    let none = Floor::new();
    assert_eq!(judge(&old, &facts, when, &none, &none), Ok(10));
    assert_eq!(
        judge(&old, &facts, when, &floor, &none),
        Err(Violation::OwnWriteMissing)
    );
    assert_eq!(
        judge(&old, &facts, when, &none, &floor),
        Err(Violation::TakesBack)
    );
    let new = Shown::Record(value(2, 0));
    assert_eq!(floors(&new, &facts, when), floor);
}

fn group(items: &[(Number, u64)], top: Option<usize>) -> Shown {
    let value = |version| Value { version, group: 7 };
    let items = items
        .iter()
        .map(|(number, version)| (*number, value(*version)))
        .collect();
    Shown::Group {
        group: 7,
        items,
        top,
    }
}

#[test]
fn a_result_is_that_of_one_moment_and_not_of_two() {
    // Record 0 changes at 100, record 1 at 200: nobody ever saw the old 0 beside the new 1.
    let facts = facts(&[
        history(&[(value(1, 7), 0, 10), (value(2, 7), 100, 110)]),
        history(&[(value(1, 7), 0, 10), (value(2, 7), 200, 210)]),
    ]);
    let when = read(300, 301, 1_000);
    assert_eq!(
        judged(&group(&[(0, 1), (1, 2)], None), &facts, when),
        Err(Violation::NeverTrue)
    );
    assert_eq!(
        judged(&group(&[(0, 2), (1, 1)], None), &facts, when),
        Ok(90)
    );
    assert_eq!(judged(&group(&[(0, 2), (1, 2)], None), &facts, when), Ok(0));
}

#[test]
fn a_member_that_left_joined_or_is_missing_is_noticed() {
    let facts = facts(&[
        history(&[(value(1, 7), 0, 10), (value(2, 8), 100, 110)]),
        history(&[(value(1, 7), 0, 10)]),
    ]);
    let (soon, late) = (read(120, 121, 20), read(500, 501, 20));
    let both = group(&[(0, 1), (1, 1)], None);
    assert_eq!(judged(&both, &facts, soon), Ok(10));
    assert_eq!(judged(&both, &facts, late), Err(Violation::Stale(390)));
    assert_eq!(judged(&group(&[(1, 1)], None), &facts, late), Ok(0));
    assert_eq!(
        judged(&group(&[], None), &facts, late),
        Err(Violation::NeverTrue)
    );
    assert_eq!(
        judged(&group(&[(1, 1), (1, 1)], None), &facts, late),
        Err(Violation::NeverTrue),
        "twice"
    );
    assert_eq!(
        judged(&group(&[(1, 1), (5, 1)], None), &facts, late),
        Err(Violation::NeverTrue),
        "a stranger"
    );
    let count = |count| Shown::Count { group: 7, count };
    assert_eq!(judged(&count(1), &facts, late), Ok(0));
    assert_eq!(judged(&count(2), &facts, soon), Ok(10));
    assert_eq!(judged(&count(2), &facts, late), Err(Violation::Stale(390)));
    assert_eq!(judged(&count(0), &facts, late), Err(Violation::NeverTrue));
}

#[test]
fn the_first_of_an_order_leave_out_only_what_comes_after_them() {
    let facts = facts(&[
        history(&[(value(5, 7), 0, 10), (value(20, 7), 100, 110)]),
        history(&[(value(9, 7), 0, 10)]),
        history(&[(value(8, 7), 0, 10)]),
    ]);
    let when = read(500, 501, 20);
    let top = Some(2);
    assert_eq!(judged(&group(&[(0, 20), (1, 9)], top), &facts, when), Ok(0));
    assert_eq!(
        judged(&group(&[(1, 9), (2, 8)], top), &facts, when),
        Err(Violation::Stale(390))
    );
    assert_eq!(
        judged(&group(&[(1, 9), (0, 20)], top), &facts, when),
        Err(Violation::NeverTrue),
        "the wrong order"
    );
    assert_eq!(
        judged(&group(&[(0, 20)], top), &facts, when),
        Err(Violation::NeverTrue),
        "too short"
    );
}
