//! What only a real deployment does: validation, unique indexes, missing permission, elections, and commits
//! whose outcome is unknown. Faults are the server's own fail points.

use std::sync::Arc;

use bson::{Document, RawBson, RawDocument, doc, rawdoc};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_fixture::{Parts, fresh_database_name};
use freshet_gateway::store::{
    Decision, Images, Modified, MongoOptions, MongoStore, Store, StoreError, Write,
};
use mongodb::Client;

use super::harness::{clock, id};

async fn connect(uri: &str) -> (MongoStore, Client, Namespace) {
    let store = MongoStore::connect(MongoOptions::new(uri), clock())
        .await
        .unwrap();
    let client = Client::with_uri_str(uri).await.unwrap();
    let namespace = Namespace::new(&fresh_database_name(), "things").unwrap();
    (store, client, namespace)
}

async fn fail(client: &Client, commands: &[&str], mode: impl Into<bson::Bson>, how: Document) {
    let mut data = doc! { "failCommands": commands };
    data.extend(how);
    let command = doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
    client.database("admin").run_command(command).await.unwrap();
}

#[tokio::test]
async fn validation_and_unique_indexes_refuse() {
    let uri = Parts::mongo().await.unwrap();
    let (store, client, ns) = connect(uri.as_str()).await;
    let db = client.database(ns.db());
    db.create_collection(ns.collection())
        .validator(doc! { "price": { "$gte": 0 } })
        .await
        .unwrap();
    let index = doc! { "createIndexes": ns.collection(), "indexes": [{ "key": { "code": 1 }, "name": "code", "unique": true }] };
    db.run_command(index).await.unwrap();
    store
        .insert(&ns, &[rawdoc! { "_id": 1, "price": 1, "code": "a" }])
        .await
        .unwrap();
    let one = RawBson::Int32(1);
    let refused = store
        .insert(&ns, &[rawdoc! { "_id": 2, "price": -1 }])
        .await;
    assert_eq!(refused, Err(StoreError::Rejected));
    let refused = store
        .update(&ns, id(&one), &rawdoc! { "$set": { "price": -1 } })
        .await;
    assert_eq!(refused, Err(StoreError::Rejected));
    let two = rawdoc! { "_id": 2, "price": 1, "code": "a" };
    assert_eq!(
        store.insert(&ns, std::slice::from_ref(&two)).await,
        Err(StoreError::DuplicateValue)
    );
    let many = [rawdoc! { "_id": 3, "price": 1, "code": "b" }, two];
    assert_eq!(
        store.insert(&ns, &many).await,
        Err(StoreError::DuplicateValue)
    );
    let left = store.count(&ns, &rawdoc! {}, Position::ZERO).await.unwrap();
    assert_eq!(left.count, 1);
}

#[tokio::test]
async fn images_are_switched_on_where_that_is_permitted() {
    let mongo = Parts::own_mongo().await.unwrap();
    let (store, client, ns) = connect(mongo.uri.as_str()).await;
    client
        .database(ns.db())
        .create_collection(ns.collection())
        .await
        .unwrap();
    fail(
        &client,
        &["collMod"],
        doc! { "times": 1 },
        doc! { "errorCode": 13 },
    )
    .await;
    assert_eq!(
        store.ensure_images(&ns).await.unwrap(),
        Images::NotPermitted
    );
    assert_eq!(store.ensure_images(&ns).await.unwrap(), Images::On);
    assert_eq!(store.ensure_images(&ns).await.unwrap(), Images::On);
    let view = Namespace::new(ns.db(), "seen").unwrap();
    let create = doc! { "create": "seen", "viewOn": ns.collection(), "pipeline": [] };
    client.database(ns.db()).run_command(create).await.unwrap();
    assert_eq!(
        store.ensure_images(&view).await.unwrap(),
        Images::NotWatched
    );
}

fn increment(ns: &Namespace) -> freshet_gateway::store::DecideRecord {
    let ns = ns.clone();
    Arc::new(move |current: Option<&RawDocument>| {
        let v = current
            .and_then(|record| record.get_i32("v").ok())
            .unwrap_or(0);
        Decision::Write(vec![Write::Put {
            namespace: ns.clone(),
            id: RawBson::Int32(1),
            document: rawdoc! { "v": v + 1 },
        }])
    })
}

#[tokio::test]
async fn a_transaction_outlives_conflicts_and_an_unknown_commit() {
    let mongo = Parts::own_mongo().await.unwrap();
    let (store, client, ns) = connect(mongo.uri.as_str()).await;
    let one = RawBson::Int32(1);
    // Codes that do not say the node is going away: the driver would wait for it to say so itself.
    let transient =
        |code: i32| doc! { "errorCode": code, "errorLabels": ["TransientTransactionError"] };
    let unknown = doc! { "errorCode": 50, "errorLabels": ["UnknownTransactionCommitResult"] };
    let unacknowledged =
        doc! { "writeConcernError": { "code": 64, "errmsg": "waiting for replication timed out" } };
    let faults = [
        (["findAndModify"], transient(112)),
        (["find"], transient(246)),
        (["commitTransaction"], doc! { "closeConnection": true }),
        (["commitTransaction"], unknown),
        (["commitTransaction"], unacknowledged),
    ];
    for (round, (commands, how)) in (1..).zip(faults) {
        fail(&client, &commands, doc! { "times": 2 }, how).await;
        let outcome = store.modify(&ns, id(&one), increment(&ns)).await.unwrap();
        let Modified::Written(written) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(
            written.document,
            Some(rawdoc! { "_id": 1, "v": round }),
            "{commands:?}"
        );
        let got = store.get(&ns, id(&one), written.position).await.unwrap();
        assert_eq!(got.document, written.document, "{commands:?}");
    }
}

#[tokio::test]
async fn a_lost_connection_is_retried_and_a_lost_primary_is_unavailable() {
    let mongo = Parts::own_mongo().await.unwrap();
    let (store, client, ns) = connect(mongo.uri.as_str()).await;
    let one = RawBson::Int32(1);
    let commands = ["find", "insert", "findAndModify", "delete"];
    fail(
        &client,
        &commands,
        doc! { "times": 1 },
        doc! { "closeConnection": true },
    )
    .await;
    store
        .insert(&ns, &[rawdoc! { "_id": 1, "v": 1 }])
        .await
        .unwrap();
    fail(
        &client,
        &commands,
        doc! { "times": 1 },
        doc! { "closeConnection": true },
    )
    .await;
    let updated = store
        .update(&ns, id(&one), &rawdoc! { "$inc": { "v": 1 } })
        .await
        .unwrap();
    // Applied once, not twice.
    assert_eq!(
        updated.unwrap().document,
        Some(rawdoc! { "_id": 1, "v": 2 })
    );
    fail(
        &client,
        &commands,
        doc! { "times": 1 },
        doc! { "closeConnection": true },
    )
    .await;
    assert!(
        store
            .get(&ns, id(&one), Position::ZERO)
            .await
            .unwrap()
            .document
            .is_some()
    );

    fail(&client, &commands, "alwaysOn", doc! { "errorCode": 10107 }).await;
    let got = store.get(&ns, id(&one), Position::ZERO).await;
    assert!(matches!(got, Err(StoreError::Unavailable(_))), "{got:?}");
    let put = store.put(&ns, id(&one), &rawdoc! { "v": 9 }).await;
    assert!(matches!(put, Err(StoreError::Unavailable(_))), "{put:?}");
    fail(&client, &commands, "off", doc! { "errorCode": 10107 }).await;
    assert!(
        store
            .get(&ns, id(&one), Position::ZERO)
            .await
            .unwrap()
            .document
            .is_some()
    );
}

#[tokio::test]
async fn a_read_is_not_held_up_by_what_no_majority_has_yet() {
    let mongo = Parts::mongo3().await.unwrap();
    let (store, client, ns) = connect(mongo.uri.as_str()).await;
    let one = RawBson::Int32(1);
    store
        .insert(&ns, &[rawdoc! { "_id": 1, "v": 0 }])
        .await
        .unwrap();
    // The secondaries take nothing any more: from here on the primary's writes reach no majority.
    for node in &mongo.nodes[1..] {
        let direct = format!("mongodb://127.0.0.1:{}/?directConnection=true", node.port());
        let node = Client::with_uri_str(direct).await.unwrap();
        let stop = doc! { "configureFailPoint": "stopReplProducer", "mode": "alwaysOn" };
        node.database("admin").run_command(stop).await.unwrap();
    }
    let local = mongodb::options::WriteConcern::builder()
        .w(mongodb::options::Acknowledgment::Nodes(1))
        .build();
    let things = client
        .database(ns.db())
        .collection::<Document>(ns.collection());
    let mut seen = Vec::new();
    for v in 1..=5 {
        things
            .update_one(doc! { "_id": 1 }, doc! { "$set": { "v": v } })
            .write_concern(local.clone())
            .await
            .unwrap();
        let got = store.get(&ns, id(&one), store.committed()).await.unwrap();
        seen.push(got.document.unwrap().get_i32("v").unwrap());
    }
    // What could still be rolled back is not answered. (A first update may have been on its way already.)
    assert!(seen.iter().all(|v| *v <= 1), "{seen:?}");
}
