//! Gateways over a grid of workers: real processes, MongoDB and Redis.

use std::ops::Range;

use freshet_core::name::Namespace;
use freshet_core::query::{Filter, Query};
use freshet_fixture::{Parts, Redis, fresh_database_name};
use freshet_invalidation::partition::Shape;
use mongodb::Collection;
use mongodb::bson::{Document, doc, rawdoc};

use crate::stream::Copy;
use crate::support::{Answer, Server, encode, freshet};

/// Queries whose records change, and those whose records do not.
const WRITTEN: Range<i32> = 0..8;
const STILL: Range<i32> = 8..48;

/// Two workers, one for each half of the queries, and two gateways.
struct Grid {
    db: String,
    settings: Vec<(String, String)>,
    workers: Vec<Server>,
    gateways: Vec<Server>,
    records: Collection<Document>,
    _redis: Redis,
}

impl Grid {
    async fn start() -> Grid {
        let mongo = Parts::mongo().await.expect("a replica set");
        let redis = Parts::own_redis().await.expect("Redis");
        let db = fresh_database_name();
        let access = format!(
            "[{{collection = \"{db}.*\", read = \"public\", write = \"public\", database_only = \"allow\"}}]"
        );
        let settings = [
            ("store", mongo.as_str()),
            ("redis", redis.url.as_str()),
            ("access", &access),
            ("grid.query_partitions", "2"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let client = mongo.client().await.expect("a client");
        let mut grid = Grid {
            records: client.database(&db).collection("c"),
            db,
            settings: settings.into_iter().map(owned).collect(),
            workers: Vec::new(),
            gateways: Vec::new(),
            _redis: redis,
        };
        for queries in ["0/2", "1/2"] {
            grid.workers.push(grid.worker(queries));
        }
        for name in ["one", "two"] {
            let mut settings = grid.settings();
            settings.push(("name", name));
            grid.gateways.push(Server::caching(&settings).await);
        }
        grid
    }

    fn settings(&self) -> Vec<(&str, &str)> {
        let all = self.settings.iter();
        all.map(|(name, value)| (name.as_str(), value.as_str()))
            .collect()
    }

    fn worker(&self, queries: &str) -> Server {
        Server::worker(queries, "0/1", &self.settings())
    }

    fn target(&self, group: i32) -> String {
        let filter = encode(&format!("{{\"group\":{group}}}"));
        format!("/v1/{}/c?filter={filter}", self.db)
    }

    /// Those whose query is in a row, or the record that it shows.
    fn still_of(&self, row: u32) -> Vec<i32> {
        let shape = Shape {
            queries: 2,
            writes: 1,
        };
        let is = |group: &i32| {
            let namespace = Namespace::new(&self.db, "c").expect("a name");
            let filter = rawdoc! {"group": *group};
            let record = namespace.record_key(&format!("~{group}"));
            let query = Query {
                filter: Filter::parse(&filter).expect("a filter"),
                ..Query::all(namespace)
            };
            let rows = [&query.key(), &record].map(|key| shape.row_of_key(key));
            rows.contains(&row)
        };
        STILL.filter(is).collect()
    }

    async fn insert(&self, id: i32, group: i32) {
        let record = doc! {"_id": id, "group": group, "n": 0};
        self.records.insert_one(record).await.expect("inserted");
    }

    /// Every query of these is in every gateway's tier.
    async fn warm(&self, groups: Range<i32>) {
        for group in groups {
            for gateway in &self.gateways {
                gateway
                    .until(&self.target(group), |answer| answer.is_hit())
                    .await;
            }
        }
    }

    async fn set(&self, group: i32, n: i32) {
        let change = doc! {"$set": {"n": n}};
        let updated = self.records.update_many(doc! {"group": group}, change);
        updated.await.expect("updated");
    }

    /// All that are written to.
    async fn set_all(&self, n: i32) {
        for group in WRITTEN {
            self.set(group, n).await;
        }
    }

    /// Every gateway shows the last change.
    async fn shows(&self, n: i32) {
        for group in WRITTEN {
            for gateway in &self.gateways {
                gateway
                    .until(&self.target(group), |answer| {
                        answer.json()["items"][0]["n"] == n
                    })
                    .await;
            }
        }
    }
}

#[tokio::test]
async fn gateways_over_workers_cache_and_hear_of_every_change() {
    let mut grid = Grid::start().await;
    for group in WRITTEN.chain(STILL) {
        grid.insert(group, group).await;
    }
    grid.warm(WRITTEN).await;
    grid.set_all(1).await;
    grid.shows(1).await;

    // A gateway's own write is seen by the other.
    let record = format!("/v1/{}/c/~3", grid.db);
    let written = grid.gateways[0].patch(&record, "merge", r#"{"n":2}"#).await;
    assert_eq!(written.status, 200, "{}", written.text());
    grid.gateways[1]
        .until(&grid.target(3), |answer| {
            answer.json()["items"][0]["n"] == 2
        })
        .await;

    // C8: a worker killed and back in time: nothing is missed.
    grid.workers[0].kill();
    grid.set_all(3).await;
    grid.workers[0] = grid.worker("0/2");
    grid.shows(3).await;
    grid.warm(STILL).await;

    // Away for longer: its half is answered by the database, the other half from caches.
    grid.workers[1].kill();
    grid.set_all(4).await;
    grid.shows(4).await;
    let is_uncached = |answer: &Answer| answer.header("cache-status").contains("matcher-behind");
    let half = grid.still_of(1);
    assert!(!half.is_empty() && half.len() < STILL.len(), "{half:?}");
    for group in STILL {
        let lost = half.contains(&group);
        grid.gateways[0]
            .until(&grid.target(group), |answer| match lost {
                true => is_uncached(answer),
                false => answer.is_hit(),
            })
            .await;
    }
    grid.workers[1] = grid.worker("1/2");
    grid.set_all(5).await;
    grid.shows(5).await;
    grid.warm(STILL).await;
}

/// Live queries are followed by each gateway itself; and of two workers that are the same cell one waits.
#[tokio::test]
async fn live_queries_go_on_over_a_grid_and_a_cell_is_one_worker() {
    let mut grid = Grid::start().await;
    grid.insert(1, 1).await;
    let filter = encode(r#"{"group":1}"#);
    let live = format!("/v1/{}/c/_live?filter={filter}", grid.db);
    let mut stream = grid.gateways[0].follow(&live, None).await;
    let first = stream.next().await.expect("a result");
    let mut copy = Copy(Vec::new());
    copy.apply(&first);
    grid.set(1, 7).await;
    while copy.0.first().is_none_or(|record| record["n"] != 7) {
        let event = stream.next().await.expect("a change");
        copy.apply(&event);
    }

    let second = grid.worker("0/2");
    let waits = second.get("/readyz").await;
    assert_eq!(waits.status, 503, "{}", waits.text());
    grid.workers[0].terminate();
    assert!(grid.workers[0].ended().await);
    second.until("/readyz", |answer| answer.status == 200).await;
    grid.workers[0] = second;
    grid.warm(1..2).await;
}

#[test]
fn a_worker_that_does_not_fit_says_so() {
    let refused = |arguments: &[&str]| {
        let output = freshet().args(arguments).output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    let worker = ["worker", "--query-partition", "0/2", "--write-partition"];
    let said = refused(&[worker.as_slice(), &["1/1"]].concat());
    assert!(said.contains("the first is 0"), "{said}");
    let mongo = [
        "--store",
        "mongodb://127.0.0.1:1/?replicaSet=r",
        "--redis",
        "redis://127.0.0.1:1",
        "--set",
        "grid.query_partitions=3",
    ];
    let said = refused(&[worker.as_slice(), &["0/1"], &mongo].concat());
    assert!(said.contains("3 query partitions"), "{said}");
    let said = refused(&[
        "check",
        "--store",
        "embedded:x",
        "--set",
        "grid.query_partitions=2",
    ]);
    assert!(said.contains("a grid needs MongoDB"), "{said}");
}
