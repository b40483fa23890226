//! Who makes room when the active list is full, and what becomes of reads that outlive their query.

use super::*;

fn full(active_max: usize) -> Registry {
    Registry::new(RegistryLimits {
        active_max,
        members_max: 100,
        database_active_max: 100,
        ticket_ms: 30_000,
    })
}

/// Asked for until somebody retires for it.
fn wanted(registry: &mut Registry, resource: &Resource) -> Vec<crate::registry::Retiring> {
    for _ in 0..20 {
        assert!(registry.begin(resource, Moment(0)).is_err());
        let retiring = registry.retiring();
        if !retiring.is_empty() {
            return retiring;
        }
    }
    Vec::new()
}

#[test]
fn what_is_wanted_more_takes_the_place_of_what_is_worth_less() {
    let mut registry = full(1);
    let old = query("old", None, false);
    settled(&mut registry, &old, &[]);
    let new = query("new", None, false);
    let retiring = wanted(&mut registry, &new);
    assert_eq!(retiring.len(), 1);
    assert_eq!(retiring[0].key, old.key);
    assert!(
        registry.begin(&old, Moment(0)).is_err(),
        "it is not read anew"
    );
    registry.retire(&retiring[0]);
    assert!(registry.begin(&new, Moment(0)).is_ok());
}

#[test]
fn the_other_side_of_a_join_does_not_retire_by_itself() {
    let mut registry = full(2);
    let from = Namespace::new("d", "authors").expect("valid");
    let joined = Resource {
        joins: vec![Join {
            from: from.clone(),
            field: "name".into(),
        }],
        ..resource("joined", Watch::aggregate(above_10(), None))
    };
    settled(&mut registry, &joined, &[]);
    let retiring = wanted(&mut registry, &query("new", None, false));
    assert_eq!(retiring.len(), 1);
    assert_eq!(retiring[0].key, joined.key);
}

#[test]
fn a_query_that_was_taken_out_and_came_back_is_not_retired() {
    let mut registry = full(1);
    let old = query("old", None, false);
    settled(&mut registry, &old, &[]);
    let retiring = wanted(&mut registry, &query("new", None, false));
    // Its time is over before its copies were made stale, and it is read again.
    registry.sweep(Moment(200_000));
    assert!(registry.is_empty());
    registry.begin(&old, Moment(200_000)).expect("room");
    registry.retire(&retiring[0]);
    let add = change(5, Absent, Known(at(20)));
    let Affected::Resources(all) =
        affected(registry.collection(&namespace()), &add, Moment(200_000))
    else {
        panic!("a record changed");
    };
    assert_eq!(all.len(), 2, "it is still matched");
}

#[test]
fn c1_a_read_held_too_long_does_not_end_the_read_of_another() {
    let mut registry = registry();
    let resource = query("q", None, false);
    registry.begin(&resource, Moment(0)).expect("room");
    registry.sweep(Moment(60_000));
    registry.begin(&resource, Moment(60_000)).expect("room");
    registry.release(&resource, Moment(0)); // the first one's
    let add = change(5, Absent, Known(at(20)));
    let Affected::Resources(all) =
        affected(registry.collection(&namespace()), &add, Moment(60_000))
    else {
        panic!("a record changed");
    };
    assert_eq!(all.len(), 2, "the second is under way");
}
