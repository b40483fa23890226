//! Opens a store of either kind with a collection of its own.

use std::sync::Arc;
use std::time::Instant;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Moment, Position};
use freshet_fixture::{Parts, fresh_database_name};
use freshet_gateway::store::{
    EmbeddedOptions, EmbeddedStore, Find, Images, MongoOptions, MongoStore, Store,
};
use tempfile::TempDir;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    Mongo,
    Embedded,
}

pub(crate) struct RealClock(Instant);

#[allow(clippy::disallowed_methods)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

impl Clock for RealClock {
    #[allow(clippy::cast_possible_truncation)]
    fn now(&self) -> Moment {
        Moment(instant().duration_since(self.0).as_millis() as u64)
    }

    fn wall_ms(&self) -> u64 {
        1_700_000_000_000
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(RealClock(instant()))
}

pub(crate) struct Home {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) namespace: Namespace,
    /// Removed with the last use of it.
    _directory: Option<TempDir>,
}

pub(crate) async fn open(kind: Kind) -> Home {
    let namespace = Namespace::new(&fresh_database_name(), "things").unwrap();
    match kind {
        Kind::Mongo => {
            let uri = Parts::mongo().await.unwrap();
            let options = MongoOptions::new(uri.as_str());
            let store = MongoStore::connect(options, clock()).await.unwrap();
            let db = store.client().database(namespace.db());
            db.create_collection(namespace.collection()).await.unwrap();
            assert_eq!(store.ensure_images(&namespace).await.unwrap(), Images::On);
            Home {
                store: Arc::new(store),
                namespace,
                _directory: None,
            }
        }
        Kind::Embedded => {
            let directory = tempfile::tempdir().unwrap();
            let store =
                EmbeddedStore::open(EmbeddedOptions::new(directory.path()), clock()).unwrap();
            Home {
                store: Arc::new(store),
                namespace,
                _directory: Some(directory),
            }
        }
    }
}

impl Home {
    pub(crate) async fn insert(&self, documents: &[RawDocumentBuf]) -> Position {
        self.store.insert(&self.namespace, documents).await.unwrap()
    }

    pub(crate) async fn get(&self, id: impl Into<RawBson>) -> Option<RawDocumentBuf> {
        let id = id.into();
        let got = self
            .store
            .get(&self.namespace, id.as_raw_bson_ref(), Position::ZERO)
            .await
            .unwrap();
        got.document
    }

    pub(crate) fn all<'a>(&'a self, filter: &'a RawDocument, sort: &'a RawDocument) -> Find<'a> {
        Find {
            namespace: &self.namespace,
            filter,
            sort: Some(sort),
            skip: 0,
            limit: 1000,
            projection: None,
            at_least: Position::ZERO,
        }
    }

    pub(crate) async fn everything(&self) -> Vec<RawDocumentBuf> {
        let (filter, sort) = (rawdoc! {}, rawdoc! { "_id": 1 });
        let found = self.store.find(&self.all(&filter, &sort)).await.unwrap();
        found.documents.iter().map(RawDocument::to_owned).collect()
    }
}

pub(crate) fn id(id: &RawBson) -> bson::RawBsonRef<'_> {
    id.as_raw_bson_ref()
}
