//! The other side of a join.

use super::*;

/// What a change in another collection touches.
fn touched_from(registry: &mut Registry, from: &Namespace, before: Image, after: Image) -> usize {
    let event = ChangeEvent {
        namespace: from.clone(),
        ..change(5, before, after)
    };
    let Affected::Resources(all) = affected(registry.collection(from), &event, Moment(0)) else {
        panic!("a record changed");
    };
    let joined: Vec<_> = all[1..]
        .iter()
        .map(|n| (&n.namespace, n.key.as_str()))
        .collect();
    assert!(
        joined.iter().all(|one| *one == (&namespace(), "joined")),
        "{joined:?}"
    );
    joined.len()
}

#[test]
fn the_other_side_of_a_join_is_watched_by_the_values_that_were_looked_for() {
    let from = Namespace::new("d", "authors").expect("valid");
    let resource = Resource {
        joins: vec![Join {
            from: from.clone(),
            field: "name".into(),
        }],
        ..resource("joined", Watch::aggregate(above_10(), None))
    };
    let named = |name: &str| Known(raw(doc! {"_id": 7, "name": name}));
    let settle = |registry: &mut Registry, values: Option<Vec<RawBson>>| {
        registry.declare(&from, Images::Both);
        registry.begin(&resource, Moment(0)).expect("room");
        let shown = Shown {
            joined: vec![values],
            ..Shown::default()
        };
        assert!(registry.settle(&resource, shown, Position(1), 60_000, Moment(0)));
        registry.release(&resource, Moment(0));
    };
    let values = || Some(vec![RawBson::String("ann".to_owned()), RawBson::Null]);
    let cases = [
        (Absent, named("ann"), 1),
        (named("ann"), Absent, 1),
        (named("bob"), named("ann"), 1),
        (
            named("ann"),
            Known(raw(doc! {"_id": 7, "name": "ann", "age": 5})),
            1,
        ),
        (named("bob"), named("bib"), 0),
        (Absent, named("bob"), 0),
        // A missing local value looks for missing ones.
        (Absent, Known(raw(doc! {"_id": 7})), 1),
    ];
    for (before, after, expected) in cases {
        let mut registry = registry();
        settle(&mut registry, values());
        let shown = format!("{before:?} {after:?}");
        let got = touched_from(&mut registry, &from, before, after);
        assert_eq!(got, expected, "{shown}");
    }
    // Not known which: any.
    let mut registry = registry();
    settle(&mut registry, None);
    assert_eq!(touched_from(&mut registry, &from, Absent, named("bob")), 1);
    // Copies with other values are out, too.
    let mut registry = self::registry();
    settle(&mut registry, values());
    settle(&mut registry, Some(vec![RawBson::String("bob".to_owned())]));
    assert_eq!(touched_from(&mut registry, &from, Absent, named("ann")), 1);
    // Once they are stale, only the new copy's count.
    settle(&mut registry, Some(vec![RawBson::String("bob".to_owned())]));
    assert_eq!(touched_from(&mut registry, &from, Absent, named("ann")), 0);
    assert_eq!(touched_from(&mut registry, &from, Absent, named("bob")), 1);
    // While a read is under way nobody knows.
    registry.begin(&resource, Moment(0)).expect("room");
    assert_eq!(touched_from(&mut registry, &from, Absent, named("eve")), 1);
}
