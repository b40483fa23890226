//! A process of Freshet, the binary as users build it: a gateway, or a worker of the grid. It reaches Redis and the purge
//! endpoint of each Varnish node over wires of its own.

use std::path::Path;

use freshet_fixture::{ClockedRedis, Mongo, Node, Parts, Varnish};
use freshet_invalidation::partition::{Cell, Shape};

use super::universe::DATABASE;
use super::wire::Wire;

/// The longest lifetimes, seconds: short, so that what begins anew is soon over, and longer than most faults.
const MAX_AGE_S: u64 = 12;
const SHARED_MAX_AGE_S: u64 = 30;

/// A gateway or a worker, and its wires.
pub(super) struct Program {
    /// The name by which its connections are known to the database.
    pub(super) name: String,
    pub(super) node: Node,
    /// To Redis.
    pub(super) redis: Wire,
    /// To the purge endpoint of each Varnish node.
    pub(super) purges: [Wire; 2],
}

/// A worker.
pub(super) struct Worker {
    pub(super) cell: Cell,
    pub(super) program: Program,
}

/// What every process is started with.
pub(super) struct Setup<'w> {
    pub(super) freshet: &'w Path,
    pub(super) mongo: &'w Mongo,
    pub(super) redis: &'w ClockedRedis,
    /// `None`: the gateways match for themselves.
    pub(super) grid: Option<Shape>,
}

impl Setup<'_> {
    /// Starts a gateway.
    ///
    /// # Errors
    /// It does not come up.
    pub(super) async fn gateway(&self, name: &str) -> anyhow::Result<Program> {
        self.start(format!("gateway-{name}"), &["serve"]).await
    }

    /// Starts the worker of every cell.
    ///
    /// # Errors
    /// One does not come up.
    pub(super) async fn workers(&self) -> anyhow::Result<Vec<Worker>> {
        let mut workers = Vec::new();
        for cell in self.grid.into_iter().flat_map(cells) {
            let Shape { queries, writes } = cell.shape;
            let (row, column) = (
                format!("{}/{queries}", cell.row),
                format!("{}/{writes}", cell.column),
            );
            let words = [
                "worker",
                "--query-partition",
                &row,
                "--write-partition",
                &column,
            ];
            let name = format!("worker-{}-{}", cell.row, cell.column);
            let program = self.start(name, &words).await?;
            workers.push(Worker { cell, program });
        }
        Ok(workers)
    }

    async fn start(&self, name: String, words: &[&str]) -> anyhow::Result<Program> {
        let (redis, purges) = (Wire::new().await?, [Wire::new().await?, Wire::new().await?]);
        redis.connect(self.redis.redis.node.port());
        let settings = self.settings(&name, &redis, &purges);
        let node = Parts::program("freshet", |directory, port| {
            let server = format!("[server]\nlisten = \"127.0.0.1:{port}\"\ndrain_timeout = \"5s\"\nfill_timeout = \"1s\"\n");
            let at = directory.join("freshet.toml");
            // Where it cannot be written, the program does not start and says why.
            let _ = std::fs::write(&at, format!("{settings}{server}"));
            let (freshet, at) = (self.freshet.display().to_string(), at.display().to_string());
            let all = [&[freshet.as_str()], words, &["--config", at.as_str()]].concat();
            all.into_iter().map(str::to_owned).collect()
        })
        .await?;
        Ok(Program {
            name,
            node,
            redis,
            purges,
        })
    }

    fn settings(&self, name: &str, redis: &Wire, purges: &[Wire; 2]) -> String {
        let urls = purges
            .each_ref()
            .map(|wire| format!("\"http://{}\"", wire.address));
        let grid = self.grid.map_or_else(String::new, |shape| {
            let Shape { queries, writes } = shape;
            format!("[grid]\nquery_partitions = {queries}\nwrite_partitions = {writes}\n")
        });
        format!(
            "store = \"{}&appName={name}\"\nredis = \"redis://{}\"\nname = \"{name}\"\n\
             [admission]\ndoorkeeper = false\n\
             [policy]\nmax_age_max = \"{MAX_AGE_S}s\"\nshared_max_age_max = \"{SHARED_MAX_AGE_S}s\"\n\
             [[access]]\ncollection = \"{DATABASE}.*\"\nread = \"public\"\nwrite = \"public\"\n\
             [[edge]]\nkind = \"varnish\"\nurls = [{}]\nsecret = \"{}\"\n{grid}",
            self.mongo.uri,
            redis.address,
            urls.join(", "),
            Varnish::SECRET,
        )
    }
}

fn cells(shape: Shape) -> impl Iterator<Item = Cell> {
    let cell = move |row, column| Cell { shape, row, column };
    (0..shape.queries).flat_map(move |row| (0..shape.writes).map(move |column| cell(row, column)))
}
