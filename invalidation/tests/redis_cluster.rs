//! Redis as it is run in production when things go wrong: a cluster whose slots move and whose nodes die, a server whose
//! certificate or user is not the right one.

mod conformance;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use conformance::{SystemClock, guarded, redis_at, server};
use freshet_core::change::Image;
use freshet_core::time::{ManualClock, Position};
use freshet_fixture::{Node, Parts, RedisCluster};
use freshet_invalidation::RedisServer;
use freshet_invalidation::sketch::RedisSketch;
use freshet_invalidation::sketch::port::{SketchError, SketchStore, Start};
use redis::Value;
use stage::{Stage, limits, lives, query, state};

const ROOT: &str = "{f}";

fn sketch(server: RedisServer) -> RedisSketch {
    redis_at(server, "f", "a", limits(), Arc::new(SystemClock::new()))
}

fn stage_on(cluster: &RedisCluster) -> Stage {
    let clock = Arc::new(ManualClock::at(1_000_000));
    let sketch = sketch(server(cluster.url.as_str()));
    Stage::with(clock, Arc::new(sketch), Start::First, None, None)
}

/// A command to one node, as an operator gives it.
async fn tell(node: &Node, command: &str) -> Value {
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", node.port())).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("connects");
    let mut words = command.split(' ');
    let mut told = redis::cmd(words.next().expect("a command"));
    told.arg(words.collect::<Vec<_>>());
    told.query_async(&mut connection).await.expect(command)
}

async fn text(node: &Node, command: &str) -> String {
    redis::from_redis_value(tell(node, command).await).expect("text")
}

/// Moves the slot of `ROOT` and all that is in it, as `redis-cli --cluster reshard` does.
async fn reshard(cluster: &RedisCluster, from: usize, to: usize) {
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
    let slot: u16 = redis::from_redis_value(tell(source, &format!("CLUSTER KEYSLOT {ROOT}")).await)
        .expect("a slot");
    let of_source = text(source, "CLUSTER MYID").await;
    let of_target = text(target, "CLUSTER MYID").await;
    tell(
        target,
        &format!("CLUSTER SETSLOT {slot} IMPORTING {of_source}"),
    )
    .await;
    tell(
        source,
        &format!("CLUSTER SETSLOT {slot} MIGRATING {of_target}"),
    )
    .await;
    let found = tell(source, &format!("CLUSTER GETKEYSINSLOT {slot} 1000")).await;
    let keys: Vec<String> = redis::from_redis_value(found).expect("keys");
    assert!(!keys.is_empty(), "the sketch is in this slot");
    let mut migrate = redis::cmd("MIGRATE");
    migrate.arg("127.0.0.1").arg(target.port()).arg("").arg(0);
    migrate.arg(5_000).arg("KEYS").arg(&keys);
    let client =
        redis::Client::open(format!("redis://127.0.0.1:{}", source.port())).expect("a URL");
    let mut connection = client
        .get_multiplexed_async_connection()
        .await
        .expect("connects");
    let () = migrate.query_async(&mut connection).await.expect("moved");
    for node in [target, source] {
        tell(node, &format!("CLUSTER SETSLOT {slot} NODE {of_target}")).await;
    }
}

/// The stage is up, and a copy is out.
async fn begun(cluster: &RedisCluster) -> Stage {
    let stage = stage_on(cluster);
    stage.progress(1).await;
    stage.read(query(), 1, lives(10, 10), &[]).await;
    assert!(!stage.header().await.saturated);
    stage
}

/// The server that has the state now is not the one that confirmed it: it begins anew (C8), and goes on.
async fn begins_anew(stage: &Stage, before: u64) {
    stage.change(5, 1, Image::Absent, state(1, 20)).await;
    stage
        .until("a new epoch begins", || {
            stage.pipeline.status().epoch > before
        })
        .await;
    assert!(stage.header().await.saturated);
    assert!(stage.contains(&query()).await, "the change has its effect");
    let ticket = stage.pipeline.begin(query()).expect("caching goes on");
    assert_eq!(stage.settle(ticket, 5, lives(10, 10), &[]).await, Ok(()));
}

#[tokio::test]
async fn c8_a_slot_that_moves_to_another_node_takes_the_sketch_along() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    let stage = begun(&cluster).await;
    let before = stage.header().await.epoch.number;
    let from = cluster.node_of(ROOT).await.expect("a node");
    reshard(&cluster, from, (from + 1) % 3).await;
    begins_anew(&stage, before).await;
}

#[tokio::test]
async fn c8_a_node_that_died_with_the_sketch_begins_a_new_one() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    let stage = begun(&cluster).await;
    let before = stage.header().await.epoch.number;
    let owner = &cluster.nodes[cluster.node_of(ROOT).await.expect("a node")];
    owner.kill().await.expect("killed");
    let ticket = stage.pipeline.begin(query()).expect("begins");
    let settling = stage.settle(ticket, 1, lives(10, 0), &[]);
    let settled = tokio::time::timeout(Duration::from_secs(5), settling).await;
    assert!(settled.expect("in time").is_err(), "C16: not cached");
    owner.restart().await.expect("restarted");
    cluster.whole().await.expect("whole again");
    begins_anew(&stage, before).await;
}

/// What the replica has may be older than what its master confirmed.
#[tokio::test]
async fn c8_a_replica_that_takes_over_begins_a_new_one() {
    let mut cluster = Parts::redis_cluster().await.expect("a cluster");
    let owner = cluster.node_of(ROOT).await.expect("a node");
    cluster.add_replica(owner).await.expect("a replica");
    let stage = begun(&cluster).await;
    let before = stage.header().await.epoch.number;
    cluster.nodes[owner].kill().await.expect("killed");
    begins_anew(&stage, before).await;
}

/// The others refuse their slots meanwhile, as a cluster does that is not whole; nothing of the sketch was lost.
#[tokio::test]
async fn a_node_that_died_without_the_sketch_costs_nothing_but_time() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    let stage = begun(&cluster).await;
    let before = stage.header().await.epoch;
    let owner = cluster.node_of(ROOT).await.expect("a node");
    let other = &cluster.nodes[(owner + 1) % 3];
    other.kill().await.expect("killed");
    let down = async {
        while !text(&cluster.nodes[owner], "CLUSTER INFO")
            .await
            .contains("cluster_state:fail")
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), down)
        .await
        .expect("noticed");
    let event = Stage::event(5, 1, Image::Absent, state(1, 20));
    stage.send(Ok(stage.batch(5, vec![event])));
    other.restart().await.expect("restarted");
    cluster.whole().await.expect("whole again");
    stage.reaches(5).await;
    assert!(stage.contains(&query()).await);
    assert_eq!(stage.header().await.epoch, before);
}

#[tokio::test]
async fn a_cluster_that_comes_up_later_is_found() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    for node in &cluster.nodes {
        node.kill().await.expect("killed");
    }
    let store = sketch(server(cluster.url.as_str()));
    let opening = tokio::time::timeout(Duration::from_secs(5), store.open(Start::First)).await;
    let opened = opening.expect("in time");
    assert!(
        matches!(opened, Err(SketchError::Unavailable(_))),
        "{opened:?}"
    );
    for node in &cluster.nodes {
        node.restart().await.expect("restarted");
    }
    cluster.whole().await.expect("whole again");
    let mut opened = store.open(Start::First).await;
    for _ in 0..200 {
        if opened.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        opened = store.open(Start::First).await;
    }
    assert!(opened.is_ok(), "{opened:?}");
}

/// As docs/operations.md has it.
#[tokio::test]
async fn a_clusters_user_needs_one_right_more() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    for node in &cluster.nodes {
        tell(
            node,
            "ACL SETUSER freshet on >password ~{f}* +@hash +@set +@sortedset +@string +@bitmap \
             +@stream +del +unlink +exists +info +time +fcall +function|load +cluster|slots",
        )
        .await;
        tell(node, "ACL SETUSER default off").await;
    }
    let url = cluster.url.as_str().replace("//", "//freshet:password@");
    let store = sketch(server(&url));
    let epoch = store.open(Start::First).await.expect("opened").epoch.number;
    store.saturate(epoch, Position(1)).await.expect("begun");
}

#[tokio::test]
async fn who_is_not_trusted_is_not_spoken_to_and_no_password_is_shown() {
    let redis = Parts::guarded_redis().await.expect("Redis over TLS");
    let url = redis.url.as_str();
    let authority = std::fs::read(&redis.authority).expect("an authority");
    let wrong = url.replace(redis.password, "hunter2");
    let open = async |server: RedisServer| sketch(server).open(Start::First).await;
    let tls = |url: &str| RedisServer::parse(url, Some(&authority)).expect("a URL");
    for (server, why) in [
        (server(url), "certificate"),
        (tls(&wrong), "authentication failed"),
        (
            tls(&url.replace("freshet:", "default:")),
            "authentication failed",
        ),
        (server(&url.replace("rediss:", "redis:")), "Unavailable"),
    ] {
        let shown = format!(
            "{server:?} {:?}",
            open(server.clone()).await.expect_err("refused")
        );
        assert!(shown.contains(why), "{why}: {shown}");
        for secret in [redis.password, "over the:wire", "hunter2"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    assert!(open(guarded(&redis)).await.is_ok(), "the right one is");
}
