//! What a sorted, limited answer shows of the order, and what leaves it alone.

use freshet_core::value::sort::{Direction, SortKey, digest_of_key, sort_key};

use super::*;

/// Sorted by x, the answer shows 20 to 30, 40 follows.
fn windowed(registry: &mut Registry, resource: &Resource, first: Option<i32>) {
    let pattern = [
        (Path::new("x"), Direction::Ascending),
        (Path::new("_id"), Direction::Ascending),
    ];
    let key = |id: i32, x: i32| {
        let document = raw(doc! {"_id": id, "x": x});
        SortKey::of(&sort_key(&document, &pattern).expect("a key")).expect("short")
    };
    let window = Window {
        first: first.map(|x| key(1, x)),
        end: Some(End {
            last: key(3, 30),
            beyond: [Some(digest_of_key(&key(7, 40).values())), None],
        }),
        places: Vec::new(),
    };
    registry.declare(&namespace(), Images::Both);
    registry.begin(resource, Moment(0)).expect("room");
    let shown = Shown {
        members: None,
        window,
        joined: Vec::new(),
    };
    assert!(registry.settle(resource, shown, Position(1), 60_000, Moment(0)));
    registry.release(resource, Moment(0));
}

#[test]
fn outside_its_window_a_query_is_not_touched() {
    let y = |x, y| Known(raw(doc! {"_id": 7, "x": x, "y": y}));
    let table = [
        (Absent, Known(at(25)), Some(Add)),
        (Absent, Known(at(30)), None), // after _id 3
        (Absent, Known(at(35)), None),
        (Known(at(25)), Absent, Some(Remove)),
        (Known(at(35)), Absent, None),
        (Known(at(40)), Absent, Some(Remove)), // the one that was known to follow
        (Known(at(35)), Known(at(50)), None),
        (Known(at(35)), Known(at(25)), Some(Move)),
        (Known(at(25)), Known(at(35)), Some(Move)),
        (y(35, 1), y(35, 2), None),
        (y(25, 1), y(25, 2), Some(Changed)),
        // In front of the window, where records were skipped, only coming and going counts.
        (y(15, 1), y(15, 2), None),
        (Known(at(15)), Known(at(16)), None),
        (Absent, Known(at(15)), Some(Add)),
        (Known(at(15)), Absent, Some(Remove)),
        (Known(at(15)), Known(at(35)), Some(Move)),
    ];
    for (before, after, expected) in table {
        let mut registry = registry();
        windowed(&mut registry, &query("q", Some("x"), true), Some(20));
        let event = change(5, before, after);
        let got = touched(&mut registry, &event);
        assert_eq!(
            got.first().map(|(_, effect)| *effect),
            expected,
            "{event:?}"
        );
    }
}

#[test]
fn the_record_that_follows_is_followed() {
    let mut registry = registry();
    let resource = query("q", Some("x"), false);
    windowed(&mut registry, &resource, None);
    let moved = change(5, Known(at(40)), Known(at(50)));
    assert_eq!(touched(&mut registry, &moved), []);
    let gone = change(6, Known(at(50)), Absent);
    assert_eq!(touched(&mut registry, &gone), [("q".to_owned(), Remove)]);
}

/// A change of record 8: what is seen beside the witness.
fn change_of_8(position: u64, before: Option<i32>, after: Option<i32>) -> ChangeEvent {
    let image = |x: Option<i32>| x.map_or(Absent, |x| Known(raw(doc! {"_id": 8, "x": x, "y": 1})));
    ChangeEvent {
        namespace: namespace(),
        position: Position(position),
        change: Change::Record {
            id: RawBson::Int32(8),
            before: image(before),
            after: image(after),
        },
    }
}

fn of_queries(registry: &mut Registry, event: &ChangeEvent) -> usize {
    match affected(registry.collection(&namespace()), event, Moment(0)) {
        Affected::Resources(all) => all.len() - 1,
        Affected::Collection(..) => panic!("a record changed"),
    }
}

#[test]
fn a_record_seen_beyond_takes_the_place_of_the_one_that_followed() {
    let witness_goes = || change(9, Known(at(40)), Absent);
    // What record 8 does, and whether the next page is in doubt when the witness goes.
    type Change = (Option<i32>, Option<i32>);
    let table: [(&[Change], usize); 7] = [
        (&[], 1),
        (&[(None, Some(50))], 0),
        (&[(Some(50), Some(50))], 0),
        (&[(Some(50), Some(60))], 0),
        (
            &[(None, Some(50)), (Some(50), Some(60)), (Some(60), Some(45))],
            0,
        ),
        (&[(None, Some(50)), (Some(50), None)], 1),
        (
            &[(None, Some(50)), (Some(50), Some(60)), (Some(60), Some(1))],
            1,
        ),
    ];
    for (steps, expected) in table {
        let mut registry = registry();
        windowed(&mut registry, &query("q", Some("x"), false), None);
        for (before, after) in steps {
            let event = change_of_8(5, *before, *after);
            assert_eq!(of_queries(&mut registry, &event), 0, "{steps:?}");
        }
        let got = of_queries(&mut registry, &witness_goes());
        assert_eq!(got, expected, "{steps:?}");
    }
}

#[test]
fn what_is_seen_beyond_is_not_relied_on_where_it_could_go_unnoticed() {
    let mut registry = registry();
    windowed(&mut registry, &query("q", Some("x"), false), None);
    registry.declare(&namespace(), Images::AfterOnly);
    assert_eq!(
        of_queries(&mut registry, &change_of_8(5, None, Some(50))),
        0
    );
    let witness_goes = change(9, Known(at(40)), Absent);
    assert_eq!(of_queries(&mut registry, &witness_goes), 1);
}

#[test]
fn a_page_beyond_all_records_is_touched_only_by_one_more() {
    let table = [
        (Known(at(20)), Absent, None),
        (Known(at(20)), Known(at(1)), None),
        (Known(at(20)), Known(at(30)), None),
        (Absent, Known(at(20)), Some(Add)),
    ];
    for (before, after, expected) in table {
        let mut registry = registry();
        registry.declare(&namespace(), Images::Both);
        settled(&mut registry, &query("q", Some("x"), true), &[]);
        let got = touched(&mut registry, &change(5, before, after));
        assert_eq!(got.first().map(|(_, effect)| *effect), expected);
    }
}

#[test]
fn a_read_under_way_has_no_window_yet() {
    let mut registry = registry();
    let resource = query("q", Some("x"), false);
    windowed(&mut registry, &resource, None);
    registry.begin(&resource, Moment(0)).expect("room");
    let beyond = change(5, Absent, Known(at(35)));
    assert_eq!(touched(&mut registry, &beyond), [("q".to_owned(), Add)]);
}

/// A page of references to records that are there, each named by its x.
fn references(sort: &str, limit: usize, skips: bool, documents: &[i32]) -> Registry {
    let mut registry = registry();
    let sort = Sort::parse(sort).expect("a sort");
    let pattern = sort.pattern();
    let resource = Resource {
        watched: Watched::Query(Watch::ids(Filter::all(), sort, skips)),
        ..query("ids", None, skips)
    };
    registry.declare(&namespace(), Images::Both);
    registry.begin(&resource, Moment(0)).expect("room");
    let found: Vec<_> = documents
        .iter()
        .map(|x| raw(doc! {"_id": *x, "x": *x}))
        .collect();
    let shown = Shown {
        members: None,
        window: Window::of(found.iter().map(|one| &**one), limit, skips, &pattern),
        joined: Vec::new(),
    };
    assert!(registry.settle(&resource, shown, Position(1), 60_000, Moment(0)));
    registry.release(&resource, Moment(0));
    registry
}

/// Record `id` moves.
fn moves(position: u64, id: i32, before: i32, after: i32) -> ChangeEvent {
    let image = |x: i32| Known(raw(doc! {"_id": id, "x": x}));
    ChangeEvent {
        namespace: namespace(),
        position: Position(position),
        change: Change::Record {
            id: RawBson::Int32(id),
            before: image(before),
            after: image(after),
        },
    }
}

#[test]
fn a_move_between_neighbours_leaves_references_as_they_are() {
    let up = [10, 20, 30];
    let down = [30, 20, 10];
    // Order, limit, skips, what is there; who moves from where to where, one after the other; whether the last counts.
    type Case<'a> = (&'a str, usize, bool, &'a [i32], &'a [(i32, i32, i32)], bool);
    let table: [Case<'_>; 13] = [
        ("x", 5, false, &up, &[(20, 20, 25)], false),
        ("-x", 5, false, &down, &[(20, 20, 25)], false),
        // Where the order ties, the _id decides.
        ("x", 5, false, &up, &[(20, 20, 30)], false),
        ("x", 5, false, &up, &[(20, 20, 10)], false),
        ("x", 5, false, &up, &[(30, 30, 20), (20, 20, 21)], true),
        ("x", 5, false, &up, &[(20, 20, 35)], true),
        ("x", 5, false, &up, &[(30, 30, 99)], false),
        ("x", 5, false, &up, &[(10, 10, -5)], false),
        // Followed: what it passes is where it is now.
        ("x", 5, false, &up, &[(20, 20, 25), (10, 10, 22)], false),
        ("x", 5, false, &up, &[(20, 20, 12), (10, 10, 15)], true),
        // The cursor of the next page names the last record.
        ("x", 2, false, &up, &[(20, 20, 15)], true),
        ("x", 2, false, &up, &[(10, 10, 15)], false),
        // What was skipped may be in front of the first.
        ("x", 5, true, &up, &[(10, 10, 5)], true),
    ];
    for (sort, limit, skips, there, all, counts) in table {
        let mut registry = references(sort, limit, skips, there);
        for (at, (id, before, after)) in (2..).zip(all) {
            let touched = of_queries(&mut registry, &moves(at, *id, *before, *after));
            let is_last = at as usize == all.len() + 1;
            assert_eq!(touched > 0, is_last && counts, "{sort} {limit} {all:?}");
        }
    }
}

#[test]
fn of_a_record_whose_place_is_not_known_every_move_counts() {
    let many: Vec<i32> = (0..40).map(|n| n * 10).collect();
    let mut registry = references("x", 100, false, &many);
    assert_eq!(of_queries(&mut registry, &moves(2, 20, 20, 25)), 1);
    let mut registry = references("x", 100, false, &[10, 20, 30]);
    assert_eq!(of_queries(&mut registry, &moves(2, 20, 21, 22)), 1);
}
