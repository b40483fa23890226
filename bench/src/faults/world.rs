//! The deployment: a replica set of three, Redis, two gateways (the binary as users build it), two Varnish nodes that
//! take the gateways in turn. Each gateway reaches Redis and the purge endpoint of each node over a wire of its own.

use std::path::Path;
use std::sync::Arc;

use bson::{Document, doc};
use freshet_fixture::{ClockedRedis, Mongo, Node, Parts, Varnish};
use mongodb::options::{ChangeStreamPreAndPostImages, ClientOptions};
use mongodb::{Client, IndexModel};

use super::history::Value;
use super::load::{Load, document};
use super::universe::{COLLECTIONS, DATABASE, PICTURED, Place, Universe};
use super::wire::Wire;

/// The longest lifetimes, seconds: short, so that what begins anew is soon over, and longer than most faults.
const MAX_AGE_S: u64 = 12;
const SHARED_MAX_AGE_S: u64 = 30;

/// A gateway and its wires.
pub(super) struct Gateway {
    pub(super) node: Node,
    /// To Redis.
    pub(super) redis: Wire,
    /// To the purge endpoint of each Varnish node.
    pub(super) purges: Vec<Wire>,
}

/// Everything that runs.
pub(super) struct World {
    pub(super) mongo: Mongo,
    pub(super) redis: ClockedRedis,
    pub(super) gateways: Vec<Gateway>,
    pub(super) edges: Vec<Varnish>,
    pub(super) load: Arc<Load>,
}

impl World {
    /// Starts the parts and fills the database.
    pub(super) async fn start(freshet: &Path) -> anyhow::Result<World> {
        let (mongo, redis) = tokio::try_join!(Parts::mongo3(), Parts::clocked_redis())?;
        let mut gateways = Vec::new();
        for name in ["a", "b"] {
            gateways.push(gateway(name, freshet, &mongo, &redis).await?);
        }
        let ports: Vec<u16> = gateways.iter().map(|gateway| gateway.node.port()).collect();
        let edges = vec![
            Parts::varnish(&ports, None).await?,
            Parts::varnish(&ports, None).await?,
        ];
        for gateway in &gateways {
            for (wire, edge) in gateway.purges.iter().zip(&edges) {
                wire.connect(edge.node.port());
            }
        }
        let urls = edges.iter().map(|edge| edge.url.clone()).collect();
        let load = Arc::new(Load::new(mongo.uri.as_str(), urls).await?);
        let world = World {
            mongo,
            redis,
            gateways,
            edges,
            load,
        };
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

    /// The name by which a gateway's connections are known to the database.
    pub(super) fn app_name(gateway: usize) -> String {
        format!("gateway-{}", ["a", "b"][gateway])
    }

    /// Copies the gateways' logs there.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn keep_logs(&self, directory: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)?;
        for (number, gateway) in self.gateways.iter().enumerate() {
            let log = gateway.node.directory().join("output");
            std::fs::copy(log, directory.join(World::app_name(number)))?;
        }
        Ok(())
    }
}

async fn gateway(
    name: &str,
    freshet: &Path,
    mongo: &Mongo,
    redis: &ClockedRedis,
) -> anyhow::Result<Gateway> {
    let (wire, purges) = (Wire::new().await?, [Wire::new().await?, Wire::new().await?]);
    wire.connect(redis.redis.node.port());
    let urls = purges
        .each_ref()
        .map(|wire| format!("\"http://{}\"", wire.address));
    let settings = format!(
        "store = \"{}&appName=gateway-{name}\"\nredis = \"redis://{}\"\nname = \"{name}\"\n\
         [admission]\ndoorkeeper = false\n\
         [policy]\nmax_age_max = \"{MAX_AGE_S}s\"\nshared_max_age_max = \"{SHARED_MAX_AGE_S}s\"\n\
         [[access]]\ncollection = \"{DATABASE}.*\"\nread = \"public\"\nwrite = \"public\"\n\
         [[edge]]\nkind = \"varnish\"\nurls = [{}]\nsecret = \"{}\"\n",
        mongo.uri,
        wire.address,
        urls.join(", "),
        Varnish::SECRET,
    );
    let node = Parts::program("gateway", |directory, port| {
        let server = format!("[server]\nlisten = \"127.0.0.1:{port}\"\ndrain_timeout = \"5s\"\nfill_timeout = \"1s\"\n");
        let at = directory.join("freshet.toml");
        // Where it cannot be written, the gateway does not start and says why.
        let _ = std::fs::write(&at, format!("{settings}{server}"));
        let words = [freshet, "serve".as_ref(), "--config".as_ref(), &at];
        words.map(|word: &Path| word.display().to_string()).to_vec()
    })
    .await?;
    Ok(Gateway {
        node,
        redis: wire,
        purges: purges.into(),
    })
}
