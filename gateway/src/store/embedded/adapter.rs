//! The embedded store behind the port.

use std::sync::Arc;

use async_trait::async_trait;
use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::aggregate::Plan;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_invalidation::ingest::port::Source;

use super::super::port::{
    Answer, Counted, Decide, Decision, Find, Found, Got, Images, Read, Store, StoreError,
    Transacted, Write, Written,
};
use super::compile::Compiled;
use super::plan::{Work, record_at};
use super::tables::{Snapshot, broken};
use super::{EmbeddedStore, aggregate, feed, keys};

#[async_trait]
impl Store for EmbeddedStore {
    async fn find(&self, find: &Find<'_>) -> Result<Found, StoreError> {
        let query = Compiled::of(find)?;
        let snapshot = self.snapshot(find.at_least).await?;
        let (position, limits) = (Position(snapshot.sequence), self.shared.options.limits());
        let documents = if query.is_by_id() {
            query.run(&snapshot.documents, limits)?
        } else {
            self.blocking(move || query.run(&snapshot.documents, limits))
                .await?
        };
        Ok(Found {
            documents: documents.into(),
            position,
            snapshot: Some(position),
        })
    }

    async fn get(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        at_least: Position,
    ) -> Result<Got, StoreError> {
        let key = keys::record(namespace, id);
        let snapshot = self.snapshot(at_least).await?;
        Ok(Got {
            document: record_at(&snapshot.documents, &key)?,
            position: Position(snapshot.sequence),
        })
    }

    async fn count(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        at_least: Position,
    ) -> Result<Counted, StoreError> {
        let query = Compiled::matching(namespace, filter)?;
        let snapshot = self.snapshot(at_least).await?;
        let (position, limits) = (Position(snapshot.sequence), self.shared.options.limits());
        let count = self
            .blocking(move || query.count(&snapshot.documents, limits))
            .await?;
        Ok(Counted { count, position })
    }

    async fn aggregate(
        &self,
        namespace: &Namespace,
        pipeline: &Plan,
        at_least: Position,
    ) -> Result<Found, StoreError> {
        let snapshot = self.snapshot(at_least).await?;
        let (position, limits) = (Position(snapshot.sequence), self.shared.options.limits());
        let (namespace, pipeline) = (namespace.clone(), pipeline.clone());
        let documents = self
            .blocking(move || aggregate::run(&namespace, &pipeline, &snapshot.documents, limits))
            .await?;
        Ok(Found {
            documents: documents.into(),
            position,
            snapshot: Some(position),
        })
    }

    async fn insert(
        &self,
        namespace: &Namespace,
        documents: &[RawDocumentBuf],
    ) -> Result<Position, StoreError> {
        let writes: Vec<Write> = documents
            .iter()
            .map(|document| Write::Insert {
                namespace: namespace.clone(),
                document: document.clone(),
            })
            .collect();
        match self.work(Work::Write(writes)).await? {
            Transacted::Committed { written } => Ok(written
                .first()
                .map_or_else(|| self.committed(), |written| written.position)),
            Transacted::Kept | Transacted::Refused(_) => Ok(self.committed()),
        }
    }

    async fn put(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        document: &RawDocument,
    ) -> Result<Written, StoreError> {
        let write = Write::Put {
            namespace: namespace.clone(),
            id: id.into(),
            document: document.to_owned(),
        };
        let written = self.write(write).await?;
        written.ok_or_else(|| StoreError::Internal("a write had no answer".to_owned()))
    }

    async fn update(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<Written>, StoreError> {
        self.write(Write::Update {
            namespace: namespace.clone(),
            id: id.into(),
            operators: operators.to_owned(),
        })
        .await
    }

    async fn delete(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<Option<Position>, StoreError> {
        let read = Read::Record {
            namespace: namespace.clone(),
            id: id.into(),
        };
        let deletion = Write::Delete {
            namespace: namespace.clone(),
            id: id.into(),
        };
        let decide: Decide = Arc::new(move |answers| match answers {
            [Answer::Record(Some(_))] => Decision::Write(vec![deletion.clone()]),
            _ => Decision::Keep,
        });
        Ok(match self.transact(&[read], &decide).await? {
            Transacted::Committed { written } => written.first().map(|written| written.position),
            Transacted::Kept | Transacted::Refused(_) => None,
        })
    }

    async fn transact(&self, reads: &[Read], decide: &Decide) -> Result<Transacted, StoreError> {
        self.work(Work::Transact(reads.to_vec(), decide.clone()))
            .await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        if let Some(failure) = self.shared.failed.lock().clone() {
            return Err(failure);
        }
        Snapshot::of(&self.shared.database).map(drop)
    }

    async fn collections(&self, db: &str) -> Result<Vec<Namespace>, StoreError> {
        let snapshot = self.snapshot(Position::ZERO).await?;
        let mut collections: Vec<Namespace> = Vec::new();
        let mut from = [db.as_bytes(), &[0]].concat();
        loop {
            // From each collection straight to the next.
            let mut range = snapshot
                .documents
                .range::<&[u8]>(&*from..)
                .map_err(broken)?;
            let Some((key, _)) = range.next().transpose().map_err(broken)? else {
                return Ok(collections);
            };
            let name = keys::collection_of(key.value(), db);
            let Some(namespace) = name.and_then(|name| Namespace::new(db, name).ok()) else {
                return Ok(collections);
            };
            from = keys::after(&keys::prefix(&namespace));
            collections.push(namespace);
        }
    }

    async fn ensure_images(&self, _namespace: &Namespace) -> Result<Images, StoreError> {
        Ok(Images::On)
    }

    fn source(&self, resume: Option<Vec<u8>>) -> Box<dyn Source> {
        Box::new(feed::EmbeddedSource::new(self.shared.clone(), resume))
    }

    fn committed(&self) -> Position {
        Position(*self.shared.committed.borrow())
    }
}
