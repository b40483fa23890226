//! What a store refuses to spend.

use bson::rawdoc;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_gateway::store::{
    EmbeddedOptions, EmbeddedStore, MongoOptions, MongoStore, Store, StoreError,
};

use super::harness::{Kind, clock, open};

#[tokio::test]
async fn a_scan_stops_at_its_limit_and_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        scanned_records_max: 50,
        ..EmbeddedOptions::new(directory.path())
    };
    let store = EmbeddedStore::open(options, clock()).unwrap();
    let namespace = Namespace::new("shop", "things").unwrap();
    let records: Vec<_> = (0..100).map(|number| rawdoc! { "_id": number }).collect();
    store.insert(&namespace, &records).await.unwrap();
    let counted = store
        .count(&namespace, &rawdoc! { "a": 1 }, Position::ZERO)
        .await;
    match counted {
        Err(StoreError::Timeout(limit)) => {
            assert!(limit.contains("scanned_records_max"), "{limit}")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_position_that_never_comes_is_waited_for_and_then_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions {
        position_wait_ms_max: 20,
        ..EmbeddedOptions::new(directory.path())
    };
    let store = EmbeddedStore::open(options, clock()).unwrap();
    let namespace = Namespace::new("shop", "things").unwrap();
    let future = store
        .get(&namespace, bson::RawBsonRef::Int32(1), Position(99))
        .await;
    assert!(matches!(future, Err(StoreError::Timeout(_))), "{future:?}");
}

#[tokio::test]
async fn a_slow_read_is_stopped_by_the_server() {
    let home = open(Kind::Mongo).await;
    let records: Vec<_> = (0..200).map(|number| rawdoc! { "_id": number }).collect();
    home.insert(&records).await;
    let uri = freshet_fixture::Parts::mongo().await.unwrap();
    let options = MongoOptions {
        read_ms_max: 50,
        ..MongoOptions::new(uri.as_str())
    };
    let store = MongoStore::connect(options, clock()).await.unwrap();
    let slow = rawdoc! { "$where": "sleep(10) || true" };
    let sort = rawdoc! { "_id": 1 };
    let stopped = store.find(&home.all(&slow, &sort)).await.map(|_| ());
    assert!(
        matches!(stopped, Err(StoreError::Timeout(_))),
        "{stopped:?}"
    );
}

#[tokio::test]
async fn a_database_that_is_not_there_is_unavailable_soon() {
    let options = MongoOptions {
        server_selection_ms_max: 200,
        // Nobody listens on the discard port.
        ..MongoOptions::new("mongodb://127.0.0.1:9/?replicaSet=rs0")
    };
    let store = MongoStore::connect(options, clock()).await.unwrap();
    let namespace = Namespace::new("shop", "things").unwrap();
    let got = store
        .get(&namespace, bson::RawBsonRef::Int32(1), Position::ZERO)
        .await;
    assert!(matches!(got, Err(StoreError::Unavailable(_))), "{got:?}");
    let put = store.insert(&namespace, &[rawdoc! { "_id": 1 }]).await;
    assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
}
