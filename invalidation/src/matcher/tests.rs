//! One change, one query: every combination of images.

use bson::{RawBson, RawDocumentBuf, doc};
use freshet_core::aggregate::Pipeline;
use freshet_core::change::Image::{self, Absent, Known, Later, Unknown};
use freshet_core::notification::Effect::{Add, Change as Changed, Maybe, Move, Remove};
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::value::path::Path;

mod joins;
mod room;
mod windows;

use super::*;
use crate::registry::{Images, Join, Registry, RegistryLimits, Resource, Watched};

fn raw(document: bson::Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document).expect("encodes")
}

fn at(x: i32) -> RawDocumentBuf {
    raw(doc! {"_id": 7, "x": x, "y": 1})
}

fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

fn above_10() -> Filter {
    Filter::parse(&raw(doc! {"x": {"$gt": 10}})).expect("a filter")
}

fn resource(key: &str, watch: Watch) -> Resource {
    Resource {
        namespace: namespace(),
        key: Key::from(key),
        watched: Watched::Query(watch),
        joins: Vec::new(),
        hinted: false,
    }
}

fn sorted(by: Option<&str>) -> Sort {
    by.map_or_else(Sort::default, |by| Sort::parse(by).expect("a sort"))
}

/// The records with x > 10.
fn query(key: &str, sorted_by: Option<&str>, skips: bool) -> Resource {
    let watch = Watch::records(above_10(), sorted(sorted_by), Projection::default(), skips);
    resource(key, watch)
}

fn ids(key: &str, sorted_by: Option<&str>) -> Resource {
    resource(key, Watch::ids(above_10(), sorted(sorted_by), false))
}

fn registry() -> Registry {
    Registry::new(RegistryLimits {
        active_max: 10,
        members_max: 100,
        database_active_max: 100_000,
        ticket_ms: 30_000,
    })
}

fn change(position: u64, before: Image, after: Image) -> ChangeEvent {
    ChangeEvent {
        namespace: namespace(),
        position: Position(position),
        change: Change::Record {
            id: RawBson::Int32(7),
            before,
            after,
        },
    }
}

/// Effects on what is active, by key, beside the record itself.
fn touched(registry: &mut Registry, event: &ChangeEvent) -> Vec<(String, Effect)> {
    let Affected::Resources(all) = affected(registry.collection(&namespace()), event, Moment(0))
    else {
        panic!("a record changed");
    };
    assert_eq!(all[0].key, namespace().record_key("~7"));
    let rest = all[1..].iter().map(|n| (n.key.to_string(), n.effect));
    let mut rest: Vec<_> = rest.collect();
    rest.sort_by(|a, b| a.0.cmp(&b.0));
    rest
}

fn settled(registry: &mut Registry, resource: &Resource, members: &[Key]) {
    registry.begin(resource, Moment(0)).expect("room");
    let shown = Shown {
        members: Some(members),
        window: Window::default(),
        joined: Vec::new(),
    };
    assert!(registry.settle(resource, shown, Position(1), 60_000, Moment(0)));
    registry.release(resource, Moment(0));
}

#[test]
fn exact_images_give_exact_effects() {
    let table = [
        (Known(at(1)), Known(at(2)), None),
        (Known(at(1)), Known(at(20)), Some(Add)),
        (Known(at(20)), Known(at(1)), Some(Remove)),
        (Known(at(20)), Known(at(21)), Some(Changed)),
        (Absent, Known(at(20)), Some(Add)),
        (Absent, Known(at(1)), None),
        (Known(at(20)), Absent, Some(Remove)),
        (Known(at(1)), Absent, None),
        (Known(at(20)), Unknown, Some(Maybe)),
        (Absent, Later(Some(at(20))), Some(Add)),
        (Absent, Later(None), None),
    ];
    for (before, after, expected) in table {
        let mut registry = registry();
        settled(&mut registry, &query("q", None, false), &[]);
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
fn an_id_list_ignores_a_pure_change_but_not_a_move() {
    let mut registry = registry();
    settled(&mut registry, &ids("by-id", None), &[]);
    settled(&mut registry, &ids("by-x", Some("x")), &[]);
    settled(&mut registry, &ids("by-y", Some("y")), &[]);
    let event = change(5, Known(at(20)), Known(at(30)));
    let got = touched(&mut registry, &event);
    assert_eq!(got, [("by-x".to_owned(), Move)]);
}

#[test]
fn without_images_members_stand_in_for_the_state_before() {
    let me = namespace().record_key("~7");
    let other = namespace().record_key("~8");
    let cases = [
        (&other, Later(Some(at(1))), None),
        (&other, Later(Some(at(20))), Some(Add)),
        (&me, Later(Some(at(1))), Some(Maybe)),
        (&me, Later(Some(at(20))), Some(Maybe)),
        (&me, Absent, Some(Maybe)),
        (&other, Absent, None),
    ];
    for (member, after, expected) in cases {
        let mut registry = registry();
        let resource = query("q", None, false);
        settled(&mut registry, &resource, std::slice::from_ref(member));
        let got = touched(&mut registry, &change(5, Unknown, after));
        assert_eq!(got.first().map(|(_, effect)| *effect), expected);
    }
}

#[test]
fn c1_while_a_read_is_under_way_its_members_may_be_anybody() {
    let mut registry = registry();
    let resource = query("q", None, false);
    registry.begin(&resource, Moment(0)).expect("room");
    let event = change(5, Unknown, Later(Some(at(1))));
    let got = touched(&mut registry, &event);
    assert_eq!(got, [("q".to_owned(), Maybe)]);
    registry.release(&resource, Moment(0));
    assert!(touched(&mut registry, &event).is_empty());
}

#[test]
fn where_members_do_not_tell_what_left_every_doubt_counts() {
    let mut registry = registry();
    let shown = [namespace().record_key("~8")];
    let count = resource("count", Watch::count(above_10()));
    settled(&mut registry, &count, &[]);
    settled(&mut registry, &query("skip", None, true), &shown);
    let event = change(5, Unknown, Later(Some(at(1))));
    assert_eq!(touched(&mut registry, &event).len(), 2);
    settled(&mut registry, &count, &[]);
    settled(&mut registry, &query("skip", None, true), &shown);
    let event = change(6, Known(at(20)), Known(at(30)));
    let got = touched(&mut registry, &event);
    let expected = [("skip".to_owned(), Changed)];
    assert_eq!(got, expected, "a count ignores a change");
}

#[test]
fn a_collection_that_promised_images_and_lacks_one_is_doubted() {
    let mut registry = registry();
    registry.declare(&namespace(), Images::Both);
    settled(&mut registry, &query("q", None, false), &[]);
    let event = change(5, Unknown, Known(at(1)));
    assert_eq!(touched(&mut registry, &event), [("q".to_owned(), Maybe)]);
}

#[test]
fn a_failing_query_is_taken_for_touched_and_harms_no_other() {
    let mut registry = registry();
    settled(&mut registry, &query("a", None, false), &[]);
    settled(&mut registry, &query("b", None, false), &[]);
    let filter = Filter::parse(&raw(doc! {"y": 1})).expect("a filter");
    settled(&mut registry, &resource("y", Watch::count(filter)), &[]);
    let collection = registry.collection(&namespace()).expect("active");
    collection.matcher().fail_at("x");
    let event = change(5, Absent, Known(at(1)));
    let got = touched(&mut registry, &event);
    let [a, b, y] = ["a", "b", "y"].map(str::to_owned);
    assert_eq!(got, [(y, Add)], "x is not above 10: not even candidates");
    let event = change(5, Absent, Known(at(20)));
    settled(&mut registry, &query("a", None, false), &[]);
    assert_eq!(touched(&mut registry, &event), [(a, Maybe), (b, Maybe)]);
    let collection = registry.collection(&namespace()).expect("active");
    assert_eq!(collection.faults(), 2);
}

#[test]
fn a_query_whose_copies_are_all_stale_is_dormant_until_it_is_read_again() {
    let mut registry = registry();
    let resource = query("q", None, false);
    settled(&mut registry, &resource, &[]);
    let add = |position| change(position, Absent, Known(at(20)));
    assert_eq!(touched(&mut registry, &add(5)).len(), 1);
    assert_eq!(touched(&mut registry, &add(6)).len(), 0);
    registry.begin(&resource, Moment(0)).expect("room");
    assert_eq!(
        touched(&mut registry, &add(7)).len(),
        1,
        "a read is under way"
    );
    registry.release(&resource, Moment(0));
    assert_eq!(touched(&mut registry, &add(8)).len(), 0);
    settled(&mut registry, &resource, &[]);
    assert_eq!(touched(&mut registry, &add(9)).len(), 1);
}

#[test]
fn a_copy_read_after_the_write_stays() {
    let mut registry = registry();
    let resource = query("q", None, false);
    settled(&mut registry, &resource, &[]); // read at 1
    registry.begin(&resource, Moment(0)).expect("room");
    assert!(registry.settle(&resource, Shown::default(), Position(7), 60_000, Moment(0)));
    registry.release(&resource, Moment(0));
    let add = |position| change(position, Absent, Known(at(20)));
    assert_eq!(touched(&mut registry, &add(5)).len(), 1, "the first copy");
    assert_eq!(touched(&mut registry, &add(8)).len(), 1, "the second one");
    assert_eq!(touched(&mut registry, &add(9)).len(), 0);
}

#[test]
fn projection_and_filter_say_what_is_relevant() {
    let change_of_y = || {
        change(
            5,
            Known(at(20)),
            Known(raw(doc! {"_id": 7, "x": 20, "y": 2})),
        )
    };
    let cases = [
        ("x", None),
        ("y", Some(Changed)),
        ("-y", None),
        ("-x", Some(Changed)),
        ("y.z", None),
        ("other", None),
    ];
    for (fields, expected) in cases {
        let mut registry = registry();
        let projection = Projection::parse(fields).expect("a projection");
        let watch = Watch::records(above_10(), Sort::default(), projection, false);
        settled(&mut registry, &resource("q", watch), &[]);
        let got = touched(&mut registry, &change_of_y());
        assert_eq!(got.first().map(|(_, effect)| *effect), expected, "{fields}");
    }
    let paths = |path: &str| {
        let stage = doc! {"$project": {"_id": 0, path: 1}};
        let stages = bson::RawArrayBuf::from_iter([raw(stage)]);
        Some(Pipeline::parse(&stages).expect("a pipeline").dependencies())
    };
    for (depends_on, expected) in [
        (paths("x"), None),
        (paths("y"), Some(Changed)),
        (None, Some(Changed)),
    ] {
        let mut registry = registry();
        settled(
            &mut registry,
            &resource("q", Watch::aggregate(above_10(), depends_on)),
            &[],
        );
        let got = touched(&mut registry, &change_of_y());
        assert_eq!(got.first().map(|(_, effect)| *effect), expected);
    }
}

#[test]
fn all_forms_of_a_record_are_touched() {
    let mut registry = registry();
    let record = namespace().record_key("~7");
    let form = Resource {
        namespace: namespace(),
        key: Key::from(format!("{record}?fields=x")),
        watched: Watched::Record,
        joins: Vec::new(),
        hinted: false,
    };
    settled(&mut registry, &form, &[]);
    let got = touched(&mut registry, &change(5, Unknown, Unknown));
    assert_eq!(got, [(form.key.to_string(), Maybe)]);
}

#[test]
fn the_active_list_is_bounded_and_forgets_only_what_cannot_be_outstanding() {
    let mut registry = registry();
    for i in 0..10 {
        settled(&mut registry, &query(&format!("q{i}"), None, false), &[]);
    }
    let more = query("more", None, false);
    assert!(registry.begin(&more, Moment(60_000)).is_err());
    assert!(
        registry
            .begin(&query("q3", None, false), Moment(61_000))
            .is_ok()
    );
    // The horizon is past, and the ticket's term after it.
    assert!(registry.begin(&more, Moment(90_000)).is_ok());
    assert_eq!(registry.len(), 1 + 1, "q3 is being read again");
}

#[test]
fn what_every_query_costs_stays_small() {
    assert!(size_of::<Entry>() <= 160, "{}", size_of::<Entry>());
    let atom = size_of::<freshet_core::predicate::Atom>();
    assert!(atom <= 40, "{atom}");
}
