//! Rule C16: parts die under a running gateway. Reads go on uncached as long as the database answers, are 503 when it does
//! not, and caching comes back by itself. (An edge that is down is in `edges.rs`, a Redis that hangs in `mongo.rs`.)

use std::net::SocketAddr;
use std::time::Duration;

use freshet_fixture::{Mongo, MongoUri, Parts, fresh_database_name};
use mongodb::Collection;
use mongodb::bson::{Document, doc};

use crate::edges::Door;
use crate::support::{Answer, PATIENCE, Server, send};

const PRIVATE: &str = "private, no-store, max-age=0";

/// A collection of one record that others write, and a gateway over it.
struct Scene {
    collection: Collection<Document>,
    target: String,
    server: Server,
}

impl Scene {
    async fn over(mongo: &MongoUri, more: &[(&str, &str)]) -> Scene {
        let db = fresh_database_name();
        let client = mongo.client().await.expect("a client");
        let collection = client.database(&db).collection("c");
        let record = doc! { "_id": "x", "n": 0 };
        collection.insert_one(record).await.expect("inserted");
        let server = Scene::gateway(mongo, more).await;
        let target = format!("/v1/{db}/c/x");
        Scene {
            collection,
            target,
            server,
        }
    }

    async fn gateway(mongo: &MongoUri, more: &[(&str, &str)]) -> Server {
        let mut settings = vec![("store", mongo.as_str())];
        settings.extend_from_slice(more);
        Server::caching(&settings).await
    }

    async fn set(&self, n: i32) {
        let set = doc! { "$set": { "n": n } };
        let majority = mongodb::options::WriteConcern::majority();
        let updating = self.collection.update_one(doc! { "_id": "x" }, set);
        updating.write_concern(majority).await.expect("updated");
    }

    async fn is_cached_with(&self, n: i32) {
        self.server
            .until(&self.target, |answer| {
                answer.status == 200 && answer.is_hit() && answer.json()["n"] == n
            })
            .await;
    }

    /// Asks until the answer comes from a database that is reached again; each answer until then is an honest one.
    async fn recovers(&self, n: i32) {
        let recovering = async {
            loop {
                let answer = self.server.get(&self.target).await;
                if answer.status == 200 && answer.is_hit() && answer.json()["n"] == n {
                    return;
                }
                honest(&answer);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let recovered = tokio::time::timeout(PATIENCE * 2, recovering).await;
        recovered.expect("caching comes back");
    }
}

/// The record, or a 503 that nobody keeps.
fn honest(answer: &Answer) {
    match answer.status.as_u16() {
        200 => assert!(answer.json()["n"].is_number()),
        503 => {
            assert_eq!(answer.header("cache-control"), PRIVATE);
            assert!(!answer.header("retry-after").is_empty());
        }
        _ => panic!("{answer:?}"),
    }
}

#[tokio::test]
async fn c16_without_redis_reads_go_on_uncached_and_one_that_forgot_all_is_cached_on_again() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let redis = Parts::own_redis().await.expect("Redis");
    let scene = Scene::over(&mongo, &[("redis", redis.url.as_str())]).await;
    scene.is_cached_with(0).await;
    redis.node.kill().await.expect("killed");
    scene.set(1).await;
    let new = scene.server.until(&scene.target, |answer| {
        assert_eq!(answer.status, 200, "reads go on: {answer:?}");
        answer.json()["n"] == 1
    });
    let new = tokio::time::timeout(PATIENCE / 2, new).await.expect("soon");
    assert_eq!(new.header("cache-control"), PRIVATE);
    let ready = scene.server.get("/readyz").await;
    assert_eq!(ready.status, 200);
    assert_eq!(ready.json()["caching"], false);
    let written = scene.server.put(&scene.target, r#"{"n":2}"#).await;
    assert_eq!(written.status, 200, "writes go on");
    redis.node.restart().await.expect("restarted");
    scene.is_cached_with(2).await;
}

#[tokio::test]
async fn c16_a_primary_that_dies_costs_503s_until_the_next_is_elected() {
    let mongo: Mongo = Parts::mongo3().await.expect("a replica set");
    let scene = Scene::over(&mongo.uri, &[]).await;
    scene.is_cached_with(0).await;
    mongo.nodes[0].kill().await.expect("killed");
    scene.recovers(0).await;
    scene.set(1).await;
    scene.recovers(1).await;
}

#[tokio::test]
async fn c16_without_any_database_it_is_503_once_copies_are_not_provably_fresh() {
    let mongo = Parts::own_mongo().await.expect("a replica set");
    let scene = Scene::over(&mongo.uri, &[]).await;
    let other = scene.target.replace("/x", "/y");
    scene.is_cached_with(0).await;
    mongo.nodes[0].kill().await.expect("killed");
    let refused = scene.server.get(&other).await;
    assert_eq!(refused.status, 503, "there was no copy of it");
    honest(&refused);
    let refused = scene.server.until(&scene.target, |answer| {
        honest(answer);
        answer.status == 503
    });
    refused.await;
    let down = |answer: &Answer| answer.status == 503;
    scene.server.until("/readyz", down).await;
    let written = scene.server.put(&scene.target, r#"{"n":7}"#).await;
    assert_eq!(written.status, 503);
    let healthy = scene.server.get("/healthz").await;
    assert_eq!(healthy.status, 200, "it is not the process that is broken");
    mongo.nodes[0].restart().await.expect("restarted");
    scene.recovers(0).await;
    scene.set(1).await;
    scene.recovers(1).await;
    assert_eq!(scene.server.get(&other).await.status, 404);
}

/// What changed while it was dead is purged by its next life, from where the earlier one had come to.
#[tokio::test]
async fn c8_c16_a_gateway_that_was_killed_takes_up_its_duties_when_it_is_started_again() {
    let mongo = Parts::mongo().await.expect("a replica set");
    let redis = Parts::own_redis().await.expect("Redis");
    let door = Door::open().await;
    let varnish = Parts::varnish(&[door.port], None).await.expect("Varnish");
    let edges = format!(
        "[{{kind = \"varnish\", urls = [{:?}], secret = {:?}}}]",
        varnish.url, varnish.secret
    );
    let settings = [
        ("redis", redis.url.as_str()),
        ("name", "a"),
        ("edge", edges.as_str()),
        ("server.fill_timeout", "500ms"),
    ];
    let mut scene = Scene::over(&mongo, &settings).await;
    door.gateway.send_replace(Some(scene.server.address));
    let at_edge: SocketAddr = varnish.url["http://".len()..].parse().expect("an address");
    let target = scene.target.clone();
    let edge = || send(at_edge, "GET", &target, &[], "");
    scene.is_cached_with(0).await;
    let cached = async {
        while !edge()
            .await
            .header("cache-status")
            .ends_with("varnish; hit")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cached)
        .await
        .expect("cached at the edge");

    scene.server.kill();
    scene.set(1).await;
    let stale = edge().await;
    assert_eq!(stale.json()["n"], 0, "nobody is there to purge it");
    scene.server = Scene::gateway(&mongo, &settings).await;
    door.gateway.send_replace(Some(scene.server.address));
    let purged = async {
        while edge().await.json()["n"] != 1 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, purged)
        .await
        .expect("purged");
    scene.is_cached_with(1).await;
}
