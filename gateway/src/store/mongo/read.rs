//! Reads: one majority read at or after a position, answered as the server's own bytes.
//!
//! The position that an answer states is the one the read was made after (C1), never the operation time that
//! came back with it, which may be later than what was read.

use bson::{Document, RawBsonRef, RawDocument, RawDocumentBuf, doc};
use freshet_core::aggregate::Plan;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use futures_util::StreamExt;
use mongodb::ClientSession;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ReadConcern;
use mongodb::raw_batch_cursor::SessionRawBatchCursor;

use super::super::documents::Documents;
use super::super::port::{Counted, Find, Found, Got, Store, StoreError};
use super::error::{Failed, translate};
use super::{MongoStore, by_id, decoded, timestamp};

impl MongoStore {
    pub(super) async fn read_query(&self, find: &Find<'_>) -> Result<Found, StoreError> {
        let (mut session, position) = self.session_after(find.at_least).await?;
        // One snapshot, for the reason that a count has: a list of ids would not be told of what moved within it.
        let snapshot = Some(ReadConcern::snapshot());
        let found = match self.find_in(&mut session, find, snapshot).await {
            Err(Failed::Driver(error)) if has_no_snapshot(&error) => {
                let documents = self.find_in(&mut session, find, None).await?;
                (documents, Position::ZERO)
            }
            found => (found?, position),
        };
        self.sessions.give_back(session);
        Ok(answered(found))
    }

    pub(super) async fn read_record(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        at_least: Position,
    ) -> Result<Got, StoreError> {
        let (mut session, position) = self.session_after(at_least).await?;
        let document = self.record_in(&mut session, namespace, id).await?;
        self.sessions.give_back(session);
        Ok(Got { document, position })
    }

    pub(super) async fn read_count(
        &self,
        namespace: &Namespace,
        filter: &RawDocument,
        at_least: Position,
    ) -> Result<Counted, StoreError> {
        let (mut session, position) = self.session_after(at_least).await?;
        // A majority read is made in steps, each of the state of its moment: a record that moves in the index
        // meanwhile is counted twice or not at all, and no change of the count will ever tell.
        let counted = self
            .collection(namespace)
            .count_documents(decoded(filter)?)
            .read_concern(ReadConcern::snapshot())
            .max_time(self.read_limit())
            .session(&mut session)
            .await;
        let (count, position) = match counted {
            Err(error) if has_no_snapshot(&error) => {
                let counted = self
                    .collection(namespace)
                    .count_documents(decoded(filter)?)
                    .max_time(self.read_limit())
                    .session(&mut session)
                    .await;
                // Good to be answered, not to be kept: it was made after no position as a whole.
                (counted.map_err(translate)?, Position::ZERO)
            }
            counted => (counted.map_err(translate)?, position),
        };
        self.sessions.give_back(session);
        Ok(Counted { count, position })
    }

    pub(super) async fn read_aggregate(
        &self,
        namespace: &Namespace,
        pipeline: &Plan,
        at_least: Position,
    ) -> Result<Found, StoreError> {
        let stages = pipeline
            .documents()
            .iter()
            .map(|stage| decoded(stage))
            .collect::<Result<Vec<_>, _>>()?;
        let (mut session, position) = self.session_after(at_least).await?;
        // One snapshot, for the reason that a count has.
        let snapshot = Some(ReadConcern::snapshot());
        let read = self.aggregate_in(&mut session, namespace, stages.clone(), snapshot);
        let found = match read.await {
            Err(Failed::Driver(error)) if has_no_snapshot(&error) => {
                let read = self.aggregate_in(&mut session, namespace, stages, None);
                (read.await?, Position::ZERO)
            }
            found => (found?, position),
        };
        self.sessions.give_back(session);
        Ok(answered(found))
    }

    async fn aggregate_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        stages: Vec<Document>,
        concern: Option<ReadConcern>,
    ) -> Result<Documents, Failed> {
        let collection = self.collection(namespace);
        let mut action = collection.aggregate(stages).max_time(self.read_limit());
        if let Some(concern) = concern {
            action = action.read_concern(concern);
        }
        let cursor = action.session(&mut *session).batch().await?;
        drain(cursor, session).await
    }

    /// A session whose next read is made causally after `at_least` and after every write that this store
    /// acknowledged, and the position that such a read may state.
    pub(super) async fn session_after(
        &self,
        at_least: Position,
    ) -> Result<(ClientSession, Position), StoreError> {
        let position = at_least.max(self.committed());
        let mut session = self.sessions.take().await?;
        if position > Position::ZERO {
            session.advance_operation_time(timestamp(position));
        }
        Ok((session, position))
    }

    pub(super) async fn find_in(
        &self,
        session: &mut ClientSession,
        find: &Find<'_>,
        concern: Option<ReadConcern>,
    ) -> Result<Documents, Failed> {
        if find.limit == 0 {
            return Ok(Documents::default());
        }
        let collection = self.collection(find.namespace);
        let mut action = collection
            .find(decoded(find.filter)?)
            .limit(i64::from(find.limit))
            // One more than can come: the server then closes the cursor with the first reply.
            .batch_size(find.limit.saturating_add(1))
            .max_time(self.read_limit());
        if find.skip > 0 {
            action = action.skip(u64::from(find.skip));
        }
        if let Some(sort) = find.sort {
            action = action.sort(decoded(sort)?);
        }
        if let Some(projection) = find.projection {
            action = action.projection(decoded(projection)?);
        }
        if let Some(concern) = concern {
            action = action.read_concern(concern);
        }
        let cursor = action.session(&mut *session).batch().await?;
        drain(cursor, session).await
    }

    pub(super) async fn record_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<Option<RawDocumentBuf>, Failed> {
        let cursor = self
            .collection(namespace)
            .find(by_id(id)?)
            // A negative limit asks for one reply and no cursor.
            .limit(-1)
            .max_time(self.read_limit())
            .session(&mut *session)
            .batch()
            .await?;
        let documents = drain(cursor, session).await?;
        Ok(documents.iter().next().map(RawDocument::to_owned))
    }

    pub(super) async fn list_collections(&self, db: &str) -> Result<Vec<Namespace>, StoreError> {
        let names = self
            .client
            .database(db)
            .list_collection_names()
            .filter(doc! { "type": "collection" })
            .await
            .map_err(translate)?;
        let mut collections: Vec<Namespace> = names
            .iter()
            .filter_map(|name| Namespace::new(db, name).ok())
            .collect();
        collections.sort();
        Ok(collections)
    }
}

fn answered((documents, position): (Documents, Position)) -> Found {
    let at = documents.snapshot();
    let at = at.map(|at| Position::from_timestamp(at.time, at.increment));
    // Of a collection that is not there the server does not say when that was.
    let absent = documents.is_empty() && position > Position::ZERO;
    Found {
        snapshot: at.or(absent.then_some(position)),
        documents,
        position,
    }
}

/// Snapshot reads are not there (before MongoDB 5.0: 72, 123; capped collections: 246), or not yet after a collection
/// was created (246).
fn has_no_snapshot(error: &Error) -> bool {
    matches!(&*error.kind, ErrorKind::Command(command) if matches!(command.code, 72 | 123 | 246))
}

/// Reads a cursor to its end, keeping the replies as they are.
async fn drain(
    mut cursor: SessionRawBatchCursor,
    session: &mut ClientSession,
) -> Result<Documents, Failed> {
    let mut documents = Documents::default();
    let mut replies = cursor.stream(session);
    while let Some(reply) = replies.next().await {
        documents.push_reply(reply?)?;
    }
    Ok(documents)
}
