//! The deployment: a replica set of three, Redis, two gateways, two Varnish nodes that take the gateways in turn, and the
//! workers of a grid or none.

use std::path::Path;
use std::sync::Arc;

use bson::{Document, doc};
use freshet_fixture::{ClockedRedis, Mongo, Node, Parts, Varnish};
use freshet_invalidation::partition::Shape;
use mongodb::options::{ChangeStreamPreAndPostImages, ClientOptions};
use mongodb::{Client, IndexModel};

use super::history::Value;
use super::load::{Load, document};
use super::program::{Program, Setup, Worker};
use super::universe::{COLLECTIONS, PICTURED, Place, Universe};

/// Everything that runs.
pub(super) struct World {
    pub(super) mongo: Mongo,
    pub(super) redis: ClockedRedis,
    /// None where the gateways match for themselves.
    pub(super) workers: Vec<Worker>,
    pub(super) gateways: Vec<Program>,
    pub(super) edges: Vec<Varnish>,
    pub(super) load: Arc<Load>,
}

impl World {
    /// Starts the parts, with workers for a grid of this shape, and fills the database.
    pub(super) async fn start(freshet: &Path, grid: Option<Shape>) -> anyhow::Result<World> {
        let (mongo, redis) = tokio::try_join!(Parts::mongo3(), Parts::clocked_redis())?;
        let setup = Setup {
            freshet,
            mongo: &mongo,
            redis: &redis,
            grid,
        };
        let workers = setup.workers().await?;
        let gateways = vec![setup.gateway("a").await?, setup.gateway("b").await?];
        let ports: Vec<u16> = gateways.iter().map(|gateway| gateway.node.port()).collect();
        let edges = vec![
            Parts::varnish(&ports, None).await?,
            Parts::varnish(&ports, None).await?,
        ];
        let urls = edges.iter().map(|edge| edge.url.clone()).collect();
        let load = Arc::new(Load::new(mongo.uri.as_str(), urls).await?);
        let world = World {
            mongo,
            redis,
            workers,
            gateways,
            edges,
            load,
        };
        for program in world.programs() {
            for (wire, edge) in program.purges.iter().zip(&world.edges) {
                wire.connect(edge.node.port());
            }
        }
        for collection in 0..COLLECTIONS.len() {
            world.create(collection).await?;
            world.fill(collection).await?;
        }
        Ok(world)
    }

    /// Makes a collection.
    ///
    /// # Errors
    /// The database refuses.
    pub(super) async fn create(&self, collection: usize) -> anyhow::Result<()> {
        let database = &self.load.database;
        let images = ChangeStreamPreAndPostImages::builder()
            .enabled(collection == PICTURED)
            .build();
        database
            .create_collection(COLLECTIONS[collection])
            .change_stream_pre_and_post_images(images)
            .await?;
        let index = IndexModel::builder().keys(doc! { "group": 1 }).build();
        self.load.collection(collection).create_index(index).await?;
        Ok(())
    }

    /// Writes every record of a collection that has none. The caller is alone with the collection.
    ///
    /// # Errors
    /// The database refuses.
    pub(super) async fn fill(&self, collection: usize) -> anyhow::Result<()> {
        let load = &self.load;
        let mut records: Vec<Document> = Vec::new();
        let mut states = Vec::new();
        for place in Universe::places(collection) {
            let history = load.universe.of(place);
            let value = Value {
                version: history.next_version(),
                group: place.groups()[0],
            };
            records.push(document(place, value));
            states.push((place, history.begin(Some(value), load.clock.us())));
        }
        load.collection(collection).insert_many(records).await?;
        self.acknowledge(&states);
        Ok(())
    }

    /// These writes were acknowledged just now.
    pub(super) fn acknowledge(&self, states: &[(Place, usize)]) {
        let now = self.load.clock.us();
        for (place, state) in states {
            self.load.universe.of(*place).acknowledge(*state, now);
        }
    }

    /// A client of one node of the set, whatever that node is just now.
    ///
    /// # Errors
    /// The driver refuses.
    pub(super) async fn direct(node: &Node) -> anyhow::Result<Client> {
        let uri = format!("mongodb://127.0.0.1:{}/?directConnection=true", node.port());
        let mut options = ClientOptions::parse(uri).await?;
        options.app_name = Some("fault".to_owned());
        options.server_selection_timeout = Some(std::time::Duration::from_secs(2));
        Ok(Client::with_options(options)?)
    }

    /// The node that is the primary.
    ///
    /// # Errors
    /// None is.
    pub(super) async fn primary(&self) -> anyhow::Result<&Node> {
        for _ in 0..100 {
            for node in &self.mongo.nodes {
                let hello = async {
                    let admin = World::direct(node).await?.database("admin");
                    let hello = admin.run_command(doc! { "hello": 1 }).await?;
                    anyhow::Ok(hello.get_bool("isWritablePrimary")?)
                };
                let limit = std::time::Duration::from_secs(1);
                if matches!(tokio::time::timeout(limit, hello).await, Ok(Ok(true))) {
                    return Ok(node);
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        anyhow::bail!("the set has no primary")
    }

    /// The workers, then the gateways.
    pub(super) fn programs(&self) -> impl Iterator<Item = &Program> {
        let workers = self.workers.iter().map(|worker| &worker.program);
        workers.chain(&self.gateways)
    }

    /// Copies the logs of workers and gateways there.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep_logs(&self, directory: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)?;
        for program in self.programs() {
            let log = program.node.directory().join("output");
            std::fs::copy(log, directory.join(&program.name))?;
        }
        Ok(())
    }
}
