//! One suite for every ledger of purges.

mod conformance;

use conformance::{Kind, server};
use freshet_core::freshness::{
    ResourceKind, SurrogateKey, collection_surrogate, database_surrogate,
};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_fixture::fresh_database_name;
use freshet_invalidation::RedisServer;
use freshet_invalidation::purge::ledger::{FileLedger, Ledger, RedisLedger, RedisLedgerSettings};
use freshet_invalidation::purge::{Confirmed, Order, Target};
use rstest::rstest;
use tempfile::TempDir;

/// Where ledgers live; each call of [`Place::ledger`] is another life of the process.
enum Place {
    File(TempDir),
    Redis(RedisServer, String),
}

impl Place {
    async fn of(kind: &str) -> Place {
        match kind {
            "file" => Place::File(TempDir::new().expect("a directory")),
            "redis" => Place::redis(Kind::Plain).await,
            "redis-tls" => Place::redis(Kind::Guarded).await,
            _ => Place::redis(Kind::Cluster).await,
        }
    }

    async fn redis(kind: Kind) -> Place {
        Place::Redis(kind.server().await, fresh_database_name())
    }

    fn ledger(&self) -> Box<dyn Ledger> {
        match self {
            Place::File(directory) => Box::new(FileLedger::new(&directory.path().join("purges"))),
            Place::Redis(server, prefix) => {
                let settings = RedisLedgerSettings {
                    server: server.clone(),
                    prefix: prefix.clone(),
                    member: "a".to_owned(),
                    operation_ms_max: 2_000,
                };
                Box::new(RedisLedger::new(&settings).expect("settings"))
            }
        }
    }

    /// What another life finds.
    async fn left(&self) -> Vec<(String, u64)> {
        let taken = self.ledger().take_up().await.expect("taken up");
        let mut left: Vec<_> = taken
            .iter()
            .map(|order| (order.surrogate.to_string(), order.position.0))
            .collect();
        left.sort();
        left
    }
}

fn namespace(collection: &str) -> Namespace {
    Namespace::new("db", collection).expect("valid")
}

fn resource(collection: &str, id: u64, at: u64) -> Order {
    let namespace = namespace(collection);
    let key = namespace.record_key(&id.to_string());
    Order {
        surrogate: SurrogateKey::resource(ResourceKind::Record, &key),
        target: Target::Resource(namespace, key),
        position: Position(at),
    }
}

fn collection(name: &str, at: u64) -> Order {
    Order {
        surrogate: collection_surrogate(&namespace(name)),
        target: Target::Collection(namespace(name)),
        position: Position(at),
    }
}

fn database(epoch: u64) -> Order {
    Order {
        surrogate: database_surrogate("db"),
        target: Target::Database("db".to_owned(), epoch),
        position: Position::ZERO,
    }
}

fn confirmed(order: &Order, at: u64) -> Confirmed {
    Confirmed {
        target: order.target.clone(),
        position: Position(at),
    }
}

fn named(orders: &[&Order]) -> Vec<(String, u64)> {
    let mut named: Vec<_> = orders
        .iter()
        .map(|order| (order.surrogate.to_string(), order.position.0))
        .collect();
    named.sort();
    named
}

#[rstest]
#[tokio::test]
async fn what_is_noted_and_not_confirmed_is_taken_up(
    #[values("file", "redis", "redis-tls", "redis-cluster")] kind: &str,
) {
    let place = Place::of(kind).await;
    let ledger = place.ledger();
    assert_eq!(ledger.take_up().await, Ok(Vec::new()));
    let orders: Vec<Order> = (0..600).map(|id| resource("c", id, id + 1)).collect();
    ledger.note(&orders).await.expect("noted");
    assert_eq!(place.left().await.len(), 600);

    let some: Vec<Confirmed> = orders[..599]
        .iter()
        .map(|one| confirmed(one, 599))
        .collect();
    ledger.confirm(&some).await.expect("confirmed");
    assert_eq!(place.left().await, named(&[&orders[599]]));
    ledger
        .confirm(&[confirmed(&orders[599], 600)])
        .await
        .expect("confirmed");
    assert_eq!(place.left().await, []);
}

#[rstest]
#[tokio::test]
async fn a_later_order_is_not_settled_by_an_earlier_purge(
    #[values("file", "redis", "redis-tls", "redis-cluster")] kind: &str,
) {
    let place = Place::of(kind).await;
    let ledger = place.ledger();
    let (first, second) = (resource("c", 1, 5), resource("c", 1, 9));
    ledger
        .note(std::slice::from_ref(&first))
        .await
        .expect("noted");
    ledger
        .note(std::slice::from_ref(&second))
        .await
        .expect("noted");
    ledger
        .confirm(&[confirmed(&first, 5)])
        .await
        .expect("confirmed");
    assert_eq!(place.left().await, named(&[&second]));
    ledger
        .confirm(&[confirmed(&second, 9)])
        .await
        .expect("confirmed");
    assert_eq!(place.left().await, []);
}

#[rstest]
#[tokio::test]
async fn a_wider_purge_settles_what_lies_within(
    #[values("file", "redis", "redis-tls", "redis-cluster")] kind: &str,
) {
    let place = Place::of(kind).await;
    let ledger = place.ledger();
    let orders = [
        resource("c", 1, 5),
        resource("c", 2, 9),
        resource("d", 1, 5),
    ];
    ledger.note(&orders).await.expect("noted");
    // The queue had no room and purged the collection instead; nobody ordered that.
    ledger
        .confirm(&[confirmed(&collection("c", 7), 7)])
        .await
        .expect("confirmed");
    assert_eq!(place.left().await, named(&[&orders[1], &orders[2]]));

    let whole = collection("c", 10);
    ledger
        .note(std::slice::from_ref(&whole))
        .await
        .expect("noted");
    assert_eq!(place.left().await, named(&[&orders[2], &whole]));
    let database = database(3);
    ledger
        .note(std::slice::from_ref(&database))
        .await
        .expect("noted");
    assert_eq!(place.left().await, named(&[&database]));
    ledger
        .confirm(&[confirmed(&database, 0)])
        .await
        .expect("confirmed");
    assert_eq!(place.left().await, []);
}

#[rstest]
#[tokio::test]
async fn a_life_goes_on_where_the_one_before_ended(
    #[values("file", "redis", "redis-tls", "redis-cluster")] kind: &str,
) {
    let place = Place::of(kind).await;
    let orders = [resource("c", 1, 5), resource("c", 2, 6)];
    place.ledger().note(&orders).await.expect("noted");
    let second = place.ledger();
    assert_eq!(second.take_up().await.expect("taken up").len(), 2);
    second
        .confirm(&[confirmed(&orders[0], 5)])
        .await
        .expect("confirmed");
    let more = resource("c", 3, 7);
    second
        .note(std::slice::from_ref(&more))
        .await
        .expect("noted");
    assert_eq!(place.left().await, named(&[&orders[1], &more]));
}

#[tokio::test]
async fn a_line_that_was_not_written_to_its_end_is_none() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("purges");
    let orders = [resource("c", 1, 5), resource("c", 2, 6)];
    FileLedger::new(&path).note(&orders).await.expect("noted");
    let whole = std::fs::read(&path).expect("readable");
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).expect("written");
        let taken = FileLedger::new(&path).take_up().await.expect("taken up");
        // The last line end may be missing: the line is whole without it.
        let lines = whole[..=length]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert_eq!(taken.len(), lines, "{length} bytes");
    }
}

#[tokio::test]
async fn a_file_does_not_grow_with_what_is_settled() {
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("purges");
    let ledger = FileLedger::new(&path);
    let keep = resource("kept", 1, 1);
    ledger
        .note(std::slice::from_ref(&keep))
        .await
        .expect("noted");
    for round in 0..30 {
        let orders: Vec<Order> = (0..500).map(|id| resource("c", id, round + 1)).collect();
        ledger.note(&orders).await.expect("noted");
        let all: Vec<Confirmed> = orders.iter().map(|one| confirmed(one, round + 1)).collect();
        ledger.confirm(&all).await.expect("confirmed");
    }
    let length = std::fs::metadata(&path).expect("there").len();
    assert!(length < 1_500_000, "{length}");
    let left = FileLedger::new(&path).take_up().await.expect("taken up");
    assert_eq!(left, [keep]);
}

#[tokio::test]
async fn a_ledger_that_cannot_be_reached_says_so() {
    let settings = RedisLedgerSettings {
        server: server("redis://127.0.0.1:1/"),
        prefix: "x".to_owned(),
        member: "a".to_owned(),
        operation_ms_max: 200,
    };
    let ledger = RedisLedger::new(&settings).expect("settings");
    assert!(ledger.take_up().await.is_err());
    let order = resource("c", 1, 1);
    assert!(ledger.note(std::slice::from_ref(&order)).await.is_err());
    let nowhere = FileLedger::new(std::path::Path::new("/nowhere/at/all"));
    assert!(nowhere.note(&[order]).await.is_err());
}
