//! Rule C5, one clock tick at a time.

use super::*;

fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

fn order(key: &str, position: u64) -> Order {
    let key = namespace().record_key(key);
    Order {
        surrogate: SurrogateKey::resource(freshet_core::freshness::ResourceKind::Record, &key),
        target: Target::Resource(namespace(), key),
        position: Position(position),
    }
}

fn queue(nodes: usize, orders_max: usize) -> Queue {
    let limits = QueueLimits {
        orders_max,
        repeat_after_ms: 2_000,
    };
    Queue::new(limits, &vec![2; nodes], Backoff::new(100, 5_000, 7))
}

/// One node's turn at `now`; how many keys it purged, what was confirmed.
fn turn(queue: &mut Queue, node: usize, now: u64, succeeds: bool) -> (usize, Vec<Done>) {
    let keys = queue.take(node, 256, Moment(now));
    let outcome = match succeeds {
        true => Outcome::Purged,
        false => Outcome::Failed,
    };
    let done = queue.done(node, &keys, Moment(now), outcome, Moment(now));
    (keys.len(), done)
}

#[test]
fn c5_a_purge_is_repeated_after_f_and_only_then_confirmed() {
    let mut queue = queue(1, 10);
    queue.push(order("1", 5), Moment(0));
    assert_eq!(turn(&mut queue, 0, 1, true).0, 0, "waits for company");
    assert_eq!(turn(&mut queue, 0, 2, true), (1, vec![]));
    assert_eq!(turn(&mut queue, 0, 1_999, true).0, 0);
    let (purged, done) = turn(&mut queue, 0, 2_000, true);
    assert_eq!(purged, 1);
    assert_eq!(done[0].position, Position(5));
    assert_eq!(done[0].took_ms, 2_000);
    assert_eq!((queue.len(), queue.next_due(0)), (0, None));
}

#[test]
fn c5_every_node_has_to_confirm_the_repeat() {
    let mut queue = queue(2, 10);
    queue.push(order("1", 5), Moment(0));
    assert_eq!(turn(&mut queue, 0, 2, true).0, 1);
    assert_eq!(turn(&mut queue, 1, 2, false).0, 1);
    assert_eq!(
        turn(&mut queue, 0, 2_000, true),
        (1, vec![]),
        "the other has not"
    );
    assert_eq!(
        turn(&mut queue, 0, 60_000, true).0,
        0,
        "the healthy node is left alone"
    );
    // The sick one recovers past F: that one purge is first and repeat.
    let (purged, done) = turn(&mut queue, 1, 60_000, true);
    assert_eq!((purged, done.len(), queue.len()), (1, 1, 0));
}

#[test]
fn c5_a_change_of_a_pending_key_is_purged_at_once_and_confirmed_on_its_own() {
    let mut queue = queue(1, 10);
    queue.push(order("1", 5), Moment(0));
    turn(&mut queue, 0, 2, true);
    queue.push(order("1", 6), Moment(1_500));
    assert_eq!(turn(&mut queue, 0, 1_502, true), (1, vec![]));
    let (_, done) = turn(&mut queue, 0, 2_000, true);
    assert_eq!(
        done[0].position,
        Position(5),
        "the repeat is too early for the later change"
    );
    assert_eq!(queue.len(), 1);
    let (_, done) = turn(&mut queue, 0, 3_500, true);
    assert_eq!((done[0].position, done[0].took_ms), (Position(6), 2_000));
    assert_eq!(queue.len(), 0);
}

#[test]
fn c5_a_key_that_changes_all_the_time_is_confirmed_all_the_same() {
    let mut queue = queue(1, 10);
    let mut slowest = 0;
    for step in 0..1_000u64 {
        let now = step * 100;
        queue.push(order("hot", step + 1), Moment(now));
        for (_, done) in [
            turn(&mut queue, 0, now + 2, true),
            turn(&mut queue, 0, now + 50, true),
        ] {
            slowest = done
                .iter()
                .map(|d| d.took_ms)
                .max()
                .unwrap_or(0)
                .max(slowest);
        }
        assert!(queue.oldest_ms(Moment(now)).expect("pending") <= 4_200);
    }
    assert!((2_000..=4_300).contains(&slowest), "{slowest}");
}

#[test]
fn failures_back_off_and_more_orders_do_not_hasten_them() {
    let mut queue = queue(1, 10);
    queue.push(order("1", 5), Moment(0));
    let (mut now, mut asked) = (2, 0);
    while now < 60_000 {
        asked += turn(&mut queue, 0, now, false).0;
        queue.push(order("1", now), Moment(now));
        now += 1;
    }
    assert!((12..30).contains(&asked), "{asked} requests in a minute");
    assert_eq!(queue.oldest_ms(Moment(60_000)), Some(60_000));
}

#[test]
fn a_change_while_its_purge_is_in_flight_is_purged_again() {
    let mut queue = queue(1, 10);
    queue.push(order("1", 5), Moment(0));
    let keys = queue.take(0, 256, Moment(2));
    queue.push(order("1", 6), Moment(3));
    queue.done(0, &keys, Moment(2), Outcome::Purged, Moment(4));
    assert_eq!(queue.next_due(0), Some(Moment(5)));
}

#[test]
fn overflow_purges_the_collection_and_then_the_database() {
    let mut queue = queue(1, 3);
    for i in 0..4 {
        queue.push(order(&i.to_string(), i), Moment(i));
    }
    assert_eq!(queue.len(), 1);
    assert_eq!(
        queue.oldest_ms(Moment(10)),
        Some(10),
        "the age is the oldest order's"
    );
    let keys = queue.take(0, 256, Moment(100));
    assert_eq!(keys, [collection_surrogate(&namespace())]);
    for i in 0..4 {
        let other = Namespace::new("d", &format!("c{i}")).expect("valid");
        let order = Order {
            surrogate: collection_surrogate(&other),
            target: Target::Collection(other),
            position: Position(9),
        };
        queue.push(order, Moment(100));
        assert!(queue.len() <= 3);
    }
    let keys = queue.take(0, 256, Moment(200));
    assert!(keys.contains(&database_surrogate("d")), "{keys:?}");
}

#[test]
fn t6_a_batch_is_limited() {
    let mut queue = queue(1, 1_000);
    for i in 0..600 {
        queue.push(order(&i.to_string(), i), Moment(0));
    }
    let sizes: Vec<usize> = (0..4)
        .map(|_| queue.take(0, 256, Moment(2)).len())
        .collect();
    assert_eq!(sizes, [256, 256, 88, 0]);
}

#[test]
fn c8_an_earlier_purge_of_the_database_does_not_confirm_a_new_epoch() {
    let mut queue = queue(1, 10);
    let database = |epoch| Order {
        surrogate: database_surrogate("d"),
        target: Target::Database("d".to_owned(), epoch),
        position: Position::ZERO,
    };
    queue.push(database(1), Moment(0));
    turn(&mut queue, 0, 2, true);
    queue.push(database(2), Moment(1_900));
    assert_eq!(turn(&mut queue, 0, 2_000, true), (1, vec![]));
    let (_, done) = turn(&mut queue, 0, 3_900, true);
    assert_eq!(done[0].target, Target::Database("d".to_owned(), 2));
    assert_eq!((done.len(), queue.len()), (1, 0));
}

#[test]
fn c5_a_node_that_comes_back_confirms_all_that_its_one_purge_repeated() {
    let mut queue = queue(1, 10);
    queue.push(order("1", 5), Moment(0));
    turn(&mut queue, 0, 2, false);
    queue.push(order("1", 6), Moment(1_000));
    let (purged, done) = turn(&mut queue, 0, 60_000, true);
    let positions: Vec<Position> = done.iter().map(|one| one.position).collect();
    assert_eq!((purged, positions), (1, vec![Position(5), Position(6)]));
    assert_eq!((queue.len(), queue.next_due(0)), (0, None));
}

#[test]
fn c5_a_healthy_node_repeats_a_later_change_although_another_is_down() {
    let mut queue = queue(2, 10);
    queue.push(order("1", 5), Moment(0));
    turn(&mut queue, 0, 2, true);
    turn(&mut queue, 1, 2, false);
    turn(&mut queue, 0, 2_000, true);
    queue.push(order("1", 6), Moment(3_000));
    assert_eq!(turn(&mut queue, 0, 3_002, true).0, 1);
    assert_eq!(queue.next_due(0), Some(Moment(5_000)));
    assert_eq!(turn(&mut queue, 0, 5_000, true).0, 1);
    assert_eq!(queue.next_due(0), None);
    let idle = Backlog::default();
    assert_eq!(queue.backlog(0, Moment(6_000)), idle);
    let owed = Backlog {
        pending: 1,
        oldest_ms: Some(6_000),
    };
    assert_eq!(queue.backlog(1, Moment(6_000)), owed);
    assert_eq!(queue.failing_since(0), None);
    assert_eq!(queue.failing_since(1), Some(Moment(2)));
}

#[test]
fn each_node_waits_for_company_as_long_as_it_likes_and_more_orders_do_not_prolong_that() {
    let limits = QueueLimits {
        orders_max: 10,
        repeat_after_ms: 2_000,
    };
    let mut queue = Queue::new(limits, &[2, 50], Backoff::new(100, 5_000, 7));
    for now in 0..60 {
        queue.push(order("hot", now), Moment(now));
        assert_eq!(
            turn(&mut queue, 1, now, true).0,
            usize::from(now == 50),
            "{now}"
        );
    }
    queue.push(order("other", 1), Moment(60));
    assert_eq!(queue.take(0, 256, Moment(62)).len(), 2);
}

#[test]
fn a_node_that_asks_to_be_left_alone_is_left_alone_with_everything_for_as_long_as_it_says() {
    let mut queue = queue(2, 10);
    queue.push(order("1", 5), Moment(0));
    let keys = queue.take(0, 256, Moment(2));
    queue.done(0, &keys, Moment(2), Outcome::Busy(Some(1_500)), Moment(10));
    queue.push(order("2", 6), Moment(20));
    assert_eq!(queue.take(0, 256, Moment(1_509)), []);
    assert_eq!(queue.next_due(0), Some(Moment(1_510)));
    assert_eq!(queue.take(1, 256, Moment(22)).len(), 2, "the other is not");
    let keys = queue.take(0, 256, Moment(1_510));
    assert_eq!(keys.len(), 2);
    // An hour is too long; no word is a backoff.
    queue.done(
        0,
        &keys,
        Moment(1_510),
        Outcome::Busy(Some(3_600_000)),
        Moment(2_000),
    );
    assert_eq!(queue.next_due(0), Some(Moment(32_000)));
    let keys = queue.take(0, 256, Moment(32_000));
    queue.done(
        0,
        &keys,
        Moment(32_000),
        Outcome::Busy(None),
        Moment(32_000),
    );
    let due = queue.next_due(0).expect("pending");
    assert!((32_200..=32_400).contains(&due.0), "{due:?}");
}
