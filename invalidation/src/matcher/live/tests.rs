//! A live window beside a plain list of everything that matches.

use std::collections::{BTreeMap, VecDeque};

use bson::{Bson, RawBson, RawDocumentBuf, doc};
use freshet_core::query::{Projection, Sort};
use freshet_core::time::Moment;
use freshet_core::value::sort::{compare_keys, sort_key};
use proptest::prelude::*;

use super::*;

/// What the database holds of the match set.
#[derive(Clone, Default)]
struct Model(BTreeMap<i32, RawDocumentBuf>);

type Written = (i32, Option<RawDocumentBuf>);

impl Model {
    fn write(&mut self, (id, document): &Written) {
        match document {
            Some(document) => drop(self.0.insert(*id, document.clone())),
            None => drop(self.0.remove(id)),
        }
    }

    fn find(&self, sort: &Sort, skip: usize, limit: usize) -> Vec<RawDocumentBuf> {
        let pattern = sort.pattern();
        let mut all: Vec<_> = self.0.values().cloned().collect();
        all.sort_by(|a, b| {
            let [a, b] = [a, b].map(|one| sort_key(one, &pattern).expect("one array at most"));
            compare_keys(&a, &b, &pattern)
        });
        all.into_iter().skip(skip).take(limit).collect()
    }

    fn load(&self, window: &mut LiveWindow, sort: &Sort, wanted: usize) -> Step {
        let mut found = self.find(sort, 0, wanted + 1);
        let more = found.len() > wanted;
        found.truncate(wanted);
        window.load(found, more)
    }
}

/// A client's copy of the list.
fn replay(list: &mut Vec<RawDocumentBuf>, events: Vec<Event>) {
    for event in events {
        match (event.kind, event.document) {
            (EventKind::Add, Some(document)) => list.insert(event.index, document),
            (EventKind::Change, Some(document)) => list[event.index] = document,
            (EventKind::Move { from }, Some(document)) => {
                list.remove(from);
                list.insert(event.index, document);
            }
            (EventKind::Remove, None) => drop(list.remove(event.index)),
            (kind, document) => panic!("{kind:?} with {document:?}"),
        }
    }
}

fn shown(documents: &[RawDocumentBuf], projection: &Projection) -> Vec<RawDocumentBuf> {
    let apply = |document: &RawDocumentBuf| projection.apply(document).expect("BSON");
    documents.iter().map(apply).collect()
}

fn value() -> impl Strategy<Value = Bson> {
    prop_oneof![
        (0..4_i32).prop_map(Bson::Int32),
        Just(Bson::Null),
        Just(Bson::Double(1.0)),
        prop::collection::vec(0..5_i32, 0..3).prop_map(Bson::from),
    ]
}

fn written() -> impl Strategy<Value = Written> {
    let document = (value(), 0..3_i32, 0..2_i32).prop_map(|(x, y, z)| (x, y, z));
    (0..14_i32, prop::option::weighted(0.6, document)).prop_map(|(id, fields)| {
        let document = fields.map(|(x, y, z)| {
            let document = doc! {"_id": id, "x": x, "y": y, "z": z};
            RawDocumentBuf::try_from(&document).expect("encodes")
        });
        (id, document)
    })
}

fn query() -> impl Strategy<Value = (Sort, usize, usize, Projection)> {
    let sorts = prop::sample::select(vec!["x", "-x", "y,-x", "-y", "_id", "-_id"]);
    let fields = prop::sample::select(vec!["", "y", "-z", "z"]);
    (sorts, 0..4_usize, 1..5_usize, fields).prop_map(|(sort, skip, limit, fields)| {
        let projection = match fields {
            "" => Projection::default(),
            fields => Projection::parse(fields).expect("a projection"),
        };
        (Sort::parse(sort).expect("a sort"), skip, limit, projection)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn it_shows_what_a_find_shows(
        (sort, skip, limit, projection) in query(),
        before in prop::collection::vec(written(), 0..30),
        writes in prop::collection::vec(written(), 1..60),
    ) {
        let mut model = Model::default();
        before.iter().for_each(|one| model.write(one));
        let view = View::Projection(projection.clone());
        let mut window = LiveWindow::new(&sort, skip, limit, view);
        let mut list = Vec::new();
        let mut step = Step::Renew(Moment(0));
        let mut writes = writes.iter();
        let mut clock = 0;
        loop {
            match step {
                Step::Renew(not_before) => {
                    prop_assert!(window.is_lapsed());
                    clock = not_before.0.max(clock + 1);
                    let wanted = window.read(Moment(clock));
                    step = model.load(&mut window, &sort, wanted);
                    prop_assert!(!window.is_lapsed());
                    continue;
                }
                Step::Events(events) => replay(&mut list, events),
            }
            let expected = shown(&model.find(&sort, skip, limit), &projection);
            prop_assert_eq!(&shown(&list, &projection), &expected);
            let of_window: Vec<_> = window.shown().map(RawDocument::to_owned).collect();
            prop_assert_eq!(&shown(&of_window, &projection), &expected);
            let Some(write) = writes.next() else { break };
            model.write(write);
            let id = RawBson::Int32(write.0);
            step = window.apply(id.as_raw_bson_ref(), write.1.as_deref());
        }
    }

    /// The read is made later than the changes that the window was told of, and seen by none or all of the others.
    #[test]
    fn c7_c20_a_read_that_has_seen_later_changes_ends_up_right(
        (sort, skip, limit, _) in query(),
        writes in prop::collection::vec(written(), 1..80),
        reads in prop::collection::vec((0..12_usize, 0..12_usize), 1..6),
    ) {
        let mut window = LiveWindow::new(&sort, skip, limit, View::Whole);
        let (mut model, mut told) = (Model::default(), VecDeque::new());
        let mut list = Vec::new();
        let mut writes = writes.iter();
        for (ahead, between) in reads {
            window.read(Moment(0));
            for write in writes.by_ref().take(ahead) {
                model.write(write);
                told.push_back(write);
            }
            let tell = |window: &mut LiveWindow, write: &Written| {
                window.apply(RawBson::Int32(write.0).as_raw_bson_ref(), write.1.as_deref())
            };
            for write in told.drain(..between.min(told.len())) {
                prop_assert_eq!(tell(&mut window, write), Step::Events(Vec::new()));
            }
            let wanted = window.capacity();
            let mut steps = vec![model.load(&mut window, &sort, wanted)];
            steps.extend(told.drain(..).map(|write| tell(&mut window, write)));
            if !steps.iter().any(|step| matches!(step, Step::Renew(_))) {
                for step in steps {
                    if let Step::Events(events) = step { replay(&mut list, events) }
                }
                prop_assert_eq!(&list, &model.find(&sort, skip, limit));
            } else {
                // What was shown before it lapsed is where the next read's events begin.
                list = window.shown().map(RawDocument::to_owned).collect();
            }
        }
    }
}

fn record(id: i32, x: impl Into<Bson>) -> RawDocumentBuf {
    RawDocumentBuf::try_from(&doc! {"_id": id, "x": x.into(), "y": [1]}).expect("encodes")
}

fn by_x(limit: usize) -> LiveWindow {
    let sort = Sort::parse("x").expect("a sort");
    LiveWindow::new(&sort, 0, limit, View::Whole)
}

#[test]
fn s5_what_leaves_is_refilled_until_the_slack_is_used_up() {
    let mut window = by_x(3);
    let mut now = 0;
    assert_eq!(window.read(Moment(now)), 3 + SLACK_RECORDS_MIN);
    let all = |from: i32| (from..from + 7).map(|id| record(id, id)).collect();
    window.load(all(0), true);
    for id in 0..4 {
        let Step::Events(events) = window.apply(RawBson::Int32(id).as_raw_bson_ref(), None) else {
            panic!("the slack holds {id}");
        };
        let kinds = events.iter().map(|event| (event.kind, event.index));
        let expected = [(EventKind::Remove, 0), (EventKind::Add, 2)];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
    }
    let four = RawBson::Int32(4);
    let step = window.apply(four.as_raw_bson_ref(), None);
    assert_eq!(step, Step::Renew(Moment(RENEWAL_INTERVAL_MS_MIN)));
    assert_eq!(
        window.apply(four.as_raw_bson_ref(), None),
        step,
        "until it is read"
    );
    now += RENEWAL_INTERVAL_MS_MIN;
    assert_eq!(
        window.read(Moment(now)),
        3 + 2 * SLACK_RECORDS_MIN,
        "it came quickly"
    );
}

#[test]
fn a_record_without_a_place_takes_the_window_down() {
    let sort = Sort::parse("x,y").expect("a sort");
    let mut window = LiveWindow::new(&sort, 0, 3, View::Whole);
    window.read(Moment(0));
    window.load(vec![record(1, 1)], false);
    let parallel = record(2, vec![Bson::Int32(1)]);
    let id = RawBson::Int32(2);
    let step = window.apply(id.as_raw_bson_ref(), Some(&parallel));
    assert!(matches!(step, Step::Renew(_)));
    assert_eq!(window.shown().count(), 1, "what was shown last");
}

#[test]
fn more_changes_than_are_kept_while_reading_need_another_read() {
    let mut window = by_x(3);
    window.read(Moment(0));
    for id in 0..=i32::try_from(PENDING_CHANGES_MAX).expect("small") {
        window.apply(RawBson::Int32(id).as_raw_bson_ref(), Some(&record(id, id)));
    }
    assert!(matches!(window.load(Vec::new(), false), Step::Renew(_)));
    window.read(Moment(0));
    assert_eq!(window.load(Vec::new(), false), Step::Events(Vec::new()));
}
