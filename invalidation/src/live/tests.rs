//! What followers are told.

use bson::{Bson, Document, RawDocumentBuf, doc};
use freshet_core::change::{ChangeEvent, Image};
use freshet_core::query::{Filter, Projection, Sort};

use super::*;

fn raw(document: &Document) -> RawDocumentBuf {
    RawDocumentBuf::try_from(document).expect("encodes")
}

fn namespace(collection: &str) -> Namespace {
    Namespace::new("db", collection).expect("valid")
}

fn question(filter: &Document) -> Question {
    let filter = Filter::parse(&raw(filter)).expect("a filter");
    let watch = Watch::records(filter, Sort::default(), Projection::default(), false);
    Question {
        namespace: namespace("c"),
        watch,
        joined: vec![namespace("other")],
    }
}

fn image(document: Option<Document>) -> Image {
    document.map_or(Image::Absent, |document| Image::Known(raw(&document)))
}

fn write(at: u64, before: Option<Document>, after: Option<Document>) -> ChangeEvent {
    let id = after.as_ref().or(before.as_ref());
    let id = id.and_then(|document| document.get("_id").cloned());
    ChangeEvent {
        namespace: namespace("c"),
        position: Position(at),
        change: Change::Record {
            id: id.unwrap_or(Bson::Null).try_into().expect("an id"),
            before: image(before),
            after: image(after),
        },
    }
}

fn batch(events: Vec<ChangeEvent>, through: u64) -> Batch {
    Batch {
        events,
        through: Position(through),
        ..Batch::default()
    }
}

fn running() -> Arc<Live> {
    let live = Arc::new(Live::default());
    live.deliver(&batch(Vec::new(), 5));
    live
}

async fn delivery(following: &mut Following) -> (u64, Vec<(bool, bool, bool)>) {
    match following.next().await {
        Next::Delivery(Delivery { position, changes }) => {
            let sides = changes.into_iter().map(|did| match did {
                Did::Record {
                    before,
                    after,
                    exact,
                    ..
                } => (before.is_some(), after.is_some(), exact),
                Did::Unknown => panic!("unknown"),
            });
            (position.0, sides.collect())
        }
        Next::Lost => panic!("lost"),
    }
}

#[tokio::test]
async fn nothing_is_followed_before_the_feed_runs() {
    let live = Arc::new(Live::default());
    let refused = live.follow(&question(&doc! {})).err();
    assert_eq!(refused, Some(NotFollowed::NotRunning));
}

#[tokio::test]
async fn what_enters_stays_and_leaves_is_delivered_and_nothing_else() {
    let live = running();
    let mut following = live
        .follow(&question(&doc! {"n": {"$gt": 5}}))
        .expect("followed");
    assert_eq!(following.from().await, Position(5));
    live.deliver(&batch(
        vec![
            write(6, None, Some(doc! {"_id": 1, "n": 1})),
            write(
                7,
                Some(doc! {"_id": 1, "n": 1}),
                Some(doc! {"_id": 1, "n": 9}),
            ),
            write(
                8,
                Some(doc! {"_id": 1, "n": 9}),
                Some(doc! {"_id": 1, "n": 8}),
            ),
            write(9, Some(doc! {"_id": 1, "n": 8}), None),
        ],
        9,
    ));
    assert_eq!(
        delivery(&mut following).await,
        (7, vec![(false, true, true)])
    );
    assert_eq!(
        delivery(&mut following).await,
        (8, vec![(true, true, true)])
    );
    assert_eq!(
        delivery(&mut following).await,
        (9, vec![(true, false, true)])
    );
}

#[tokio::test]
async fn a_position_is_delivered_whole() {
    let live = running();
    let mut following = live.follow(&question(&doc! {})).expect("followed");
    live.deliver(&batch(vec![write(6, None, Some(doc! {"_id": 1}))], 5));
    live.deliver(&batch(vec![write(6, None, Some(doc! {"_id": 2}))], 6));
    let both = vec![(false, true, true); 2];
    assert_eq!(delivery(&mut following).await, (6, both));
}

#[tokio::test]
async fn without_the_state_before_the_state_after_decides() {
    let live = running();
    let mut following = live.follow(&question(&doc! {"n": 1})).expect("followed");
    let mut event = write(6, None, Some(doc! {"_id": 1, "n": 1}));
    let mut gone = write(7, None, Some(doc! {"_id": 1, "n": 2}));
    for one in [&mut event, &mut gone] {
        if let Change::Record { before, .. } = &mut one.change {
            *before = Image::Unknown;
        }
    }
    live.deliver(&batch(vec![event, gone], 7));
    assert_eq!(
        delivery(&mut following).await,
        (6, vec![(false, true, false)])
    );
    assert_eq!(
        delivery(&mut following).await,
        (7, vec![(false, false, false)])
    );
}

#[tokio::test]
async fn what_only_reading_tells_is_said() {
    let live = running();
    let mut following = live.follow(&question(&doc! {"n": 1})).expect("followed");
    let mut unknown = write(6, Some(doc! {"_id": 1}), None);
    if let Change::Record { after, .. } = &mut unknown.change {
        *after = Image::Unknown;
    }
    let dropped = ChangeEvent {
        change: Change::Collection,
        ..write(7, None, None)
    };
    let joined = ChangeEvent {
        namespace: namespace("other"),
        ..write(8, None, Some(doc! {"_id": 1}))
    };
    live.deliver(&batch(vec![unknown, dropped, joined], 8));
    for at in 6..9 {
        let expected = Delivery {
            position: Position(at),
            changes: vec![Did::Unknown],
        };
        assert_eq!(following.next().await, Next::Delivery(expected));
    }
}

#[tokio::test]
async fn who_is_too_slow_or_has_lost_changes_is_told_and_goes_on() {
    let live = running();
    let mut following = live.follow(&question(&doc! {})).expect("followed");
    let insert = |at: u64| write(at, None, Some(doc! {"_id": i64::try_from(at).unwrap_or(0)}));
    let many = DELIVERIES_MAX as u64 + 10;
    live.deliver(&batch((6..6 + many).map(insert).collect(), 6 + many));
    assert_eq!(following.next().await, Next::Lost);
    assert_eq!(following.from().await, Position(6 + many));

    live.lose();
    assert_eq!(following.next().await, Next::Lost);
    live.deliver(&batch(Vec::new(), 5_000));
    assert_eq!(following.from().await, Position(5_000));
    live.deliver(&batch(vec![insert(5_001)], 5_001));
    assert_eq!(delivery(&mut following).await.0, 5_001);
}

#[tokio::test]
async fn nothing_is_left_of_who_does_not_follow_any_more() {
    let live = running();
    let following = live.follow(&question(&doc! {})).expect("followed");
    assert_eq!(live.len(), 1);
    drop(following);
    assert!(live.is_empty());
    assert!(live.state.lock().engines.is_empty());
}
