//! The MongoDB adapter: records in a replica set, read with `readConcern: majority` causally after a known
//! position, written with `w: majority`.
//!
//! Why the driver's own helpers and explicit sessions, and not raw commands: `docs/decisions/0004-mongodb-access.md`.
//! It never reads from a secondary and never answers with what could still be rolled back.

mod error;
mod images;
mod read;
mod sessions;
mod transaction;
mod write;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, Timestamp, doc};
use freshet_core::aggregate::Plan;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Position};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::Source;
use mongodb::options::{
    ClientOptions, ReadConcern, ReadPreference, SelectionCriteria, WriteConcern,
};
use mongodb::{Client, ClientSession, Collection};

use super::port::{
    Counted, Decide, Find, Found, Got, Images, Read, Store, StoreError, Transacted, Written,
};
use error::translate;
use sessions::Sessions;

/// How to reach a deployment, and what it may take.
#[derive(Clone, Debug)]
pub struct MongoOptions {
    /// `mongodb://…` or `mongodb+srv://…`.
    pub uri: String,
    /// Open connections at most, per server.
    pub pool_connections_max: u32,
    /// Connections kept open.
    pub pool_connections_min: u32,
    /// How long to look for a primary.
    pub server_selection_ms_max: u64,
    /// How long the server may work on a read (`maxTimeMS`).
    pub read_ms_max: u64,
    /// How long a write may wait for its majority (`wtimeout`).
    pub write_ms_max: u64,
    /// How often a transaction that lost to another writer is begun again.
    pub transaction_attempts_max: u32,
}

impl MongoOptions {
    /// The defaults, for this deployment.
    #[must_use]
    pub fn new(uri: &str) -> MongoOptions {
        MongoOptions {
            uri: uri.to_owned(),
            pool_connections_max: 100,
            pool_connections_min: 0,
            server_selection_ms_max: 3_000,
            read_ms_max: 5_000,
            write_ms_max: 10_000,
            transaction_attempts_max: 100,
        }
    }
}

/// Connections opened at the same time; the driver's own default of 2 makes a cold pool slow.
const CONNECTING_MAX: u32 = 8;

/// The adapter. Cheap to share behind an `Arc`.
pub struct MongoStore {
    client: Client,
    sessions: Sessions,
    clock: Arc<dyn Clock>,
    options: MongoOptions,
    /// The newest position acknowledged to this process.
    committed: AtomicU64,
}

impl MongoStore {
    /// Prepares the client; connections are opened when they are needed.
    ///
    /// # Errors
    /// [`StoreError::BadRequest`] when the address makes no sense, `Unavailable` when its name cannot be
    /// looked up.
    pub async fn connect(
        options: MongoOptions,
        clock: Arc<dyn Clock>,
    ) -> Result<MongoStore, StoreError> {
        let client = Client::with_options(client_options(&options).await?).map_err(translate)?;
        let sessions = Sessions::new(client.clone(), clock.clone(), options.pool_connections_max);
        Ok(MongoStore {
            client,
            sessions,
            clock,
            options,
            committed: AtomicU64::new(0),
        })
    }

    /// The driver's client, which the change stream shares.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn collection(&self, namespace: &Namespace) -> Collection<RawDocumentBuf> {
        self.client
            .database(namespace.db())
            .collection(namespace.collection())
    }

    /// Records that everything up to the session's operation time is committed, and says what that is.
    fn acknowledged(&self, session: &ClientSession) -> Position {
        let position = operation_time(session);
        self.committed.fetch_max(position.0, Ordering::AcqRel);
        position
    }

    fn read_limit(&self) -> Duration {
        Duration::from_millis(self.options.read_ms_max)
    }
}

/// The client's options: what the address says, with the concerns that the contract needs put over it.
async fn client_options(options: &MongoOptions) -> Result<ClientOptions, StoreError> {
    let mut client = ClientOptions::parse(&options.uri)
        .await
        .map_err(translate)?;
    client.app_name.get_or_insert_with(|| "freshet".to_owned());
    client.max_pool_size = Some(options.pool_connections_max);
    client.min_pool_size = Some(options.pool_connections_min);
    client.max_connecting = Some(CONNECTING_MAX);
    client.server_selection_timeout = Some(Duration::from_millis(options.server_selection_ms_max));
    client.read_concern = Some(ReadConcern::majority());
    client.selection_criteria = Some(SelectionCriteria::ReadPreference(ReadPreference::Primary));
    client.write_concern = Some(
        WriteConcern::builder()
            .w(mongodb::options::Acknowledgment::Majority)
            .w_timeout(Duration::from_millis(options.write_ms_max))
            .build(),
    );
    client.retry_reads = Some(true);
    client.retry_writes = Some(true);
    Ok(client)
}

/// The newest operation time that the session has seen.
fn operation_time(session: &ClientSession) -> Position {
    session.operation_time().map_or(Position::ZERO, |time| {
        Position::from_timestamp(time.time, time.increment)
    })
}

fn timestamp(position: Position) -> Timestamp {
    let (time, increment) = position.to_timestamp();
    Timestamp { time, increment }
}

/// The filter that finds one record, in the form that the server answers from the `_id` index alone.
fn by_id(id: RawBsonRef<'_>) -> Result<Document, StoreError> {
    let value: bson::Bson = id
        .try_into()
        .map_err(|error: bson::error::Error| StoreError::BadRequest(error.to_string()))?;
    Ok(match value {
        // A document could hold operators; a regular expression would be matched, not compared.
        value @ (bson::Bson::Document(_) | bson::Bson::RegularExpression(_)) => {
            doc! { "_id": { "$eq": value } }
        }
        value => doc! { "_id": value },
    })
}

fn decoded(document: &RawDocument) -> Result<Document, StoreError> {
    document
        .try_into()
        .map_err(|error: bson::error::Error| StoreError::BadRequest(error.to_string()))
}

#[async_trait]
impl Store for MongoStore {
    async fn find(&self, find: &Find<'_>) -> Result<Found, StoreError> {
        self.read_query(find).await
    }

    async fn get(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        at_least: Position,
    ) -> Result<Got, StoreError> {
        self.read_record(namespace, id, at_least).await
    }

    async fn count(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        at_least: Position,
    ) -> Result<Counted, StoreError> {
        self.read_count(namespace, filter, at_least).await
    }

    async fn aggregate(
        &self,
        namespace: &Namespace,
        pipeline: &Plan,
        at_least: Position,
    ) -> Result<Found, StoreError> {
        self.read_aggregate(namespace, pipeline, at_least).await
    }

    async fn insert(
        &self,
        namespace: &Namespace,
        documents: &[RawDocumentBuf],
    ) -> Result<Position, StoreError> {
        self.write_new(namespace, documents).await
    }

    async fn put(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        document: &RawDocument,
    ) -> Result<Written, StoreError> {
        self.write_whole(namespace, id, document).await
    }

    async fn update(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<Written>, StoreError> {
        self.write_operators(namespace, id, operators).await
    }

    async fn delete(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<Option<Position>, StoreError> {
        self.write_deletion(namespace, id).await
    }

    async fn transact(&self, reads: &[Read], decide: &Decide) -> Result<Transacted, StoreError> {
        self.run_transaction(reads, decide).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.client
            .database("admin")
            .run_command(doc! { "ping": 1 })
            .await
            .map_err(translate)?;
        Ok(())
    }

    async fn collections(&self, db: &str) -> Result<Vec<Namespace>, StoreError> {
        self.list_collections(db).await
    }

    async fn ensure_images(&self, namespace: &Namespace) -> Result<Images, StoreError> {
        self.switch_images_on(namespace).await
    }

    fn source(&self, resume: Option<Vec<u8>>) -> Box<dyn Source> {
        Box::new(MongoSource::new(
            self.client.clone(),
            self.clock.clone(),
            resume,
        ))
    }

    fn committed(&self) -> Position {
        Position(self.committed.load(Ordering::Acquire))
    }
}
