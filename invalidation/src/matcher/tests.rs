//! One change, one query: every combination of images.

use std::sync::Arc;

use bson::{RawBson, RawDocumentBuf, doc};
use freshet_core::change::Image::{self, Absent, Known, Later, Unknown};
use freshet_core::notification::Effect::{Add, Change as Changed, Maybe, Move, Remove};

use super::*;
use crate::registry::{Images, Order, Registry, RegistryLimits, Resource};

/// `x > 10`, and a document with `poison` brings it down.
struct Above10;

impl Matches for Above10 {
    fn matches(&self, document: &RawDocument) -> bool {
        assert!(document.get("poison").expect("valid").is_none(), "poisoned");
        document.get_i32("x").is_ok_and(|x| x > 10)
    }
}

struct ByField(&'static str);

impl Order for ByField {
    fn same_place(&self, before: &RawDocument, after: &RawDocument) -> bool {
        before.get(self.0).expect("valid") == after.get(self.0).expect("valid")
    }
}

fn raw(document: bson::Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&document).expect("encodes")
}

fn at(x: i32) -> RawDocumentBuf {
    raw(doc! {"_id": 7, "x": x, "y": 1})
}

fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

fn query(
    key: &str,
    representation: Representation,
    sorted_by: Option<&'static str>,
    skips: bool,
) -> Resource {
    Resource {
        namespace: namespace(),
        key: Key::from(key),
        watched: Watched::Query {
            filter: Arc::new(Above10),
            order: sorted_by.map(|field| Arc::new(ByField(field)) as Arc<dyn Order>),
            representation,
            skips,
        },
    }
}

fn registry() -> Registry {
    Registry::new(RegistryLimits {
        active_max: 10,
        members_max: 100,
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
fn touched(
    registry: &mut Registry,
    event: &ChangeEvent,
    faults: &mut Faults,
) -> Vec<(String, Effect)> {
    let Affected::Resources(all) =
        affected(registry.collection(&namespace()), event, Moment(0), faults)
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
    assert!(registry.settle(resource, members, Position(1), 60_000, Moment(0)));
    registry.release(resource);
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
        settled(
            &mut registry,
            &query("q", Representation::Objects, None, false),
            &[],
        );
        let event = change(5, before, after);
        let got = touched(&mut registry, &event, &mut Faults::default());
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
    settled(
        &mut registry,
        &query("by-id", Representation::Ids, None, false),
        &[],
    );
    settled(
        &mut registry,
        &query("by-x", Representation::Ids, Some("x"), false),
        &[],
    );
    settled(
        &mut registry,
        &query("by-y", Representation::Ids, Some("y"), false),
        &[],
    );
    let event = change(5, Known(at(20)), Known(at(30)));
    let got = touched(&mut registry, &event, &mut Faults::default());
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
        let resource = query("q", Representation::Objects, None, false);
        settled(&mut registry, &resource, std::slice::from_ref(member));
        let got = touched(
            &mut registry,
            &change(5, Unknown, after),
            &mut Faults::default(),
        );
        assert_eq!(got.first().map(|(_, effect)| *effect), expected);
    }
}

#[test]
fn c1_while_a_read_is_under_way_its_members_may_be_anybody() {
    let mut registry = registry();
    let resource = query("q", Representation::Objects, None, false);
    registry.begin(&resource, Moment(0)).expect("room");
    let event = change(5, Unknown, Later(Some(at(1))));
    let got = touched(&mut registry, &event, &mut Faults::default());
    assert_eq!(got, [("q".to_owned(), Maybe)]);
    registry.release(&resource);
    assert!(touched(&mut registry, &event, &mut Faults::default()).is_empty());
}

#[test]
fn where_members_do_not_tell_what_left_every_doubt_counts() {
    let mut registry = registry();
    let count = Resource {
        watched: Watched::Count(Arc::new(Above10)),
        ..query("count", Representation::Count, None, false)
    };
    settled(&mut registry, &count, &[]);
    settled(
        &mut registry,
        &query("skip", Representation::Objects, None, true),
        &[],
    );
    let event = change(5, Unknown, Later(Some(at(1))));
    assert_eq!(
        touched(&mut registry, &event, &mut Faults::default()).len(),
        2
    );
    let event = change(6, Known(at(20)), Known(at(30)));
    let got = touched(&mut registry, &event, &mut Faults::default());
    assert_eq!(
        got,
        [("skip".to_owned(), Changed)],
        "a count ignores a change"
    );
}

#[test]
fn a_collection_that_promised_images_and_lacks_one_is_doubted() {
    let mut registry = registry();
    registry.declare(&namespace(), Images::Both);
    settled(
        &mut registry,
        &query("q", Representation::Objects, None, false),
        &[],
    );
    let event = change(5, Unknown, Known(at(1)));
    assert_eq!(
        touched(&mut registry, &event, &mut Faults::default()),
        [("q".to_owned(), Maybe)]
    );
}

#[test]
fn a_failing_filter_is_taken_for_touched_and_harms_no_other() {
    let mut registry = registry();
    settled(
        &mut registry,
        &query("a", Representation::Objects, None, false),
        &[],
    );
    settled(
        &mut registry,
        &query("b", Representation::Objects, None, false),
        &[],
    );
    let mut faults = Faults::default();
    let event = change(5, Absent, Known(raw(doc! {"_id": 7, "poison": 1})));
    let got = touched(&mut registry, &event, &mut faults);
    assert_eq!(got, [("a".to_owned(), Maybe), ("b".to_owned(), Maybe)]);
    assert_eq!(faults, Faults(2));
}

#[test]
fn all_forms_of_a_record_are_touched() {
    let mut registry = registry();
    let record = namespace().record_key("~7");
    let form = Resource {
        namespace: namespace(),
        key: Key::from(format!("{record}?fields=x")),
        watched: Watched::Record,
    };
    settled(&mut registry, &form, &[]);
    let got = touched(
        &mut registry,
        &change(5, Unknown, Unknown),
        &mut Faults::default(),
    );
    assert_eq!(got, [(form.key.to_string(), Maybe)]);
}

#[test]
fn the_active_list_is_bounded_and_forgets_only_what_cannot_be_outstanding() {
    let mut registry = registry();
    for i in 0..10 {
        settled(
            &mut registry,
            &query(&format!("q{i}"), Representation::Objects, None, false),
            &[],
        );
    }
    let more = query("more", Representation::Objects, None, false);
    assert!(registry.begin(&more, Moment(60_000)).is_err());
    assert!(
        registry
            .begin(
                &query("q3", Representation::Objects, None, false),
                Moment(61_000)
            )
            .is_ok()
    );
    // The horizon is past, and the ticket's term after it.
    assert!(registry.begin(&more, Moment(90_000)).is_ok());
    assert_eq!(registry.len(), 1 + 1, "q3 is being read again");
}
