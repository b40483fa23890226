//! Known bugs of other live matchers, as far as they are about matching: images that are missing, late or repeated.
//! Each test is named after its row in the catalogue of change stream bugs, not after a rule of the contract.

use bson::{RawBson, RawDocumentBuf, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::{Filter, Projection, Sort};
use freshet_core::time::{Moment, Position};
use freshet_invalidation::matcher::{Affected, Shown, affected};
use freshet_invalidation::registry::{Registry, RegistryLimits};
use freshet_invalidation::{Images, Resource, Watch, Watched, Window};

fn namespace() -> Namespace {
    Namespace::new("shop", "products").expect("a name")
}

fn record(id: i32, x: i32) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&doc! {"_id": id, "x": x}).expect("encodes")
}

/// The records with this x.
fn query(x: i32) -> Resource {
    let filter = RawDocumentBuf::try_from(&doc! {"x": x}).expect("encodes");
    let filter = Filter::parse(&filter).expect("a filter");
    Resource {
        namespace: namespace(),
        key: Key::from(format!("/v1/shop/products?filter={x}")),
        watched: Watched::Query(Watch::records(
            filter,
            Sort::default(),
            Projection::default(),
            false,
        )),
        joins: Vec::new(),
        hinted: false,
    }
}

/// A registry over a feed that promises these images.
fn registry(images: Images) -> Registry {
    let mut registry = Registry::new(RegistryLimits {
        active_max: 100,
        members_max: 100,
        database_active_max: 100,
        ticket_ms: 30_000,
    });
    registry.declare(&namespace(), images);
    registry
}

/// A copy goes out that was read at this position and holds these records.
fn copy(registry: &mut Registry, resource: &Resource, position: u64, members: &[i32]) {
    let members: Vec<Key> = members
        .iter()
        .map(|id| namespace().record_key(&format!("~{id}")))
        .collect();
    registry.begin(resource, Moment(0)).expect("room");
    let shown = Shown {
        members: Some(&members),
        window: Window::default(),
        joined: Vec::new(),
    };
    assert!(registry.settle(resource, shown, Position(position), 60_000, Moment(0)));
    registry.release(resource, Moment(0));
}

/// The queries that an event touches, with the position that copies must have to outlive it.
fn event(
    registry: &mut Registry,
    position: u64,
    id: i32,
    before: Image,
    after: Image,
) -> Vec<(Key, Position)> {
    let event = ChangeEvent {
        namespace: namespace(),
        position: Position(position),
        change: Change::Record {
            id: RawBson::Int32(id),
            before,
            after,
        },
    };
    let touched = affected(registry.collection(&namespace()), &event, Moment(0));
    registry.matched_through(Position(position));
    match touched {
        Affected::Resources(all) => all[1..]
            .iter()
            .map(|one| (one.key.clone(), one.position))
            .collect(),
        Affected::Collection(..) => panic!("a record was written"),
    }
}

fn known(id: i32, x: i32) -> Image {
    Image::Known(record(id, x))
}

#[test]
fn c5_an_update_whose_look_up_finds_nothing_touches_who_holds_the_record_once() {
    let mut registry = registry(Images::AfterOnly);
    let (holder, other) = (query(1), query(2));
    copy(&mut registry, &holder, 1, &[7]);
    copy(&mut registry, &other, 1, &[8]);
    // The deletion itself may never come.
    let touched = event(&mut registry, 5, 7, Image::Unknown, Image::Later(None));
    assert_eq!(touched, [(holder.key.clone(), Position(5))]);
    let touched = event(&mut registry, 6, 7, Image::Unknown, Image::Absent);
    assert_eq!(touched, [], "nobody holds it any more");
}

#[test]
fn c6_a_state_that_no_look_up_saw_touches_the_copy_that_shows_it() {
    let mut registry = registry(Images::AfterOnly);
    let matching = query(1);
    // Written with x = 1 at 5 and x = 2 at 6; both look-ups find x = 2. A copy was read in between.
    registry.begin(&matching, Moment(0)).expect("room");
    registry.release(&matching, Moment(0));
    let late = || Image::Later(Some(record(7, 2)));
    assert_eq!(event(&mut registry, 5, 7, Image::Unknown, late()), []);
    copy(&mut registry, &matching, 5, &[7]);
    let touched = event(&mut registry, 6, 7, Image::Unknown, late());
    assert_eq!(touched, [(matching.key, Position(6))]);
}

#[test]
fn c7_an_older_event_does_not_make_a_newer_copy_stale() {
    for (before, after) in [
        (known(7, 1), known(7, 3)),
        (Image::Unknown, Image::Later(Some(record(7, 3)))),
    ] {
        let mut registry = registry(Images::Both);
        let resource = query(1);
        copy(&mut registry, &resource, 5, &[7]);
        let older = event(&mut registry, 3, 7, before.clone(), after.clone());
        assert!(older.iter().all(|(_, position)| *position < Position(5)));
        // And the copy is still watched.
        assert_eq!(event(&mut registry, 6, 7, before, after).len(), 1);
    }
}

#[test]
fn c14_a_transaction_touches_what_it_takes_from_and_what_it_gives_to() {
    let mut registry = registry(Images::Both);
    let (from, to) = (query(1), query(2));
    copy(&mut registry, &from, 4, &[7]);
    copy(&mut registry, &to, 4, &[]);
    // Two events at one position.
    let first = event(&mut registry, 5, 7, known(7, 1), Image::Absent);
    assert_eq!(first, [(from.key, Position(5))]);
    let second = event(&mut registry, 5, 8, Image::Absent, known(8, 2));
    assert_eq!(second, [(to.key, Position(5))]);
}

#[test]
fn c14_the_second_event_of_a_transaction_touches_who_the_first_one_did() {
    let mut registry = registry(Images::Both);
    let resource = query(1);
    copy(&mut registry, &resource, 4, &[]);
    assert_eq!(
        event(&mut registry, 5, 7, Image::Absent, known(7, 1)).len(),
        1
    );
    // Read after the first event was matched and before the second was: the transaction is seen as a whole.
    copy(&mut registry, &resource, 5, &[7, 8]);
    let second = event(&mut registry, 5, 8, Image::Absent, known(8, 1));
    assert!(second.iter().all(|(_, position)| *position <= Position(5)));
    assert_eq!(
        event(&mut registry, 6, 8, known(8, 1), Image::Absent).len(),
        1
    );
}

#[test]
fn c16_a_missing_image_is_doubt_and_members_end_it() {
    // The record, whether the copy holds it, and whether a feed without images touches the copy.
    for (id, members, touched) in [(7, &[7][..], 1), (7, &[8][..], 0)] {
        let gone = || (Image::Unknown, Image::Absent);
        let mut known_members = registry(Images::AfterOnly);
        copy(&mut known_members, &query(1), 1, members);
        let (before, after) = gone();
        assert_eq!(
            event(&mut known_members, 5, id, before, after).len(),
            touched
        );
        // Where images were promised nobody kept the members.
        let mut promised = registry(Images::Both);
        copy(&mut promised, &query(1), 1, members);
        let (before, after) = gone();
        assert_eq!(event(&mut promised, 5, id, before, after).len(), 1);
    }
}

#[test]
fn c16_without_any_image_every_query_is_touched() {
    let mut registry = registry(Images::Both);
    copy(&mut registry, &query(1), 1, &[]);
    copy(&mut registry, &query(2), 1, &[]);
    let touched = event(&mut registry, 5, 7, Image::Unknown, Image::Unknown);
    assert_eq!(touched.len(), 2);
}

#[test]
fn c19_an_event_that_comes_again_touches_no_copy_read_after_it() {
    let mut registry = registry(Images::Both);
    let resource = query(1);
    copy(&mut registry, &resource, 1, &[]);
    let add = |registry: &mut Registry| event(registry, 5, 7, Image::Absent, known(7, 1));
    assert_eq!(add(&mut registry).len(), 1);
    assert_eq!(add(&mut registry), [], "no copy is out");
    copy(&mut registry, &resource, 5, &[7]);
    assert!(
        add(&mut registry)
            .iter()
            .all(|(_, position)| *position <= Position(5))
    );
    // The copy is watched as before.
    let gone = event(&mut registry, 6, 7, known(7, 1), Image::Absent);
    assert_eq!(gone, [(resource.key, Position(6))]);
}

#[test]
fn c20_a_record_that_comes_while_an_answer_is_read_spoils_it() {
    let mut registry = registry(Images::AfterOnly);
    let resource = query(1);
    let from = registry.begin(&resource, Moment(0)).expect("room");
    let touched = event(&mut registry, 5, 7, Image::Absent, known(7, 1));
    assert_eq!(touched, [(resource.key.clone(), Position(5))]);
    assert!(from < Position(5), "what was read before is refused");
    registry.release(&resource, Moment(0));
}
