//! Writes of one record that depend on nothing, as one retryable command each; and insertions of many, as
//! one transaction. All wait for a majority (`w: majority`, journalled).

use std::sync::Arc;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use mongodb::ClientSession;
use mongodb::options::ReturnDocument;

use super::super::check::{checked_document, identified, unidentified};
use super::super::port::{Decide, Decision, StoreError, Transacted, Write, Written};
use super::error::Failed;
use super::{MongoStore, by_id, decoded};

impl MongoStore {
    pub(super) async fn write_new(
        &self,
        namespace: &Namespace,
        documents: &[RawDocumentBuf],
    ) -> Result<Position, StoreError> {
        for document in documents {
            checked_document(document)?;
        }
        match documents {
            [] => Ok(self.committed_position()),
            [document] => {
                let mut session = self.sessions.take().await?;
                self.insert_in(&mut session, namespace, document).await?;
                Ok(self.done(session))
            }
            many => self.write_many(namespace, many).await,
        }
    }

    async fn write_many(
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
        let decide: Decide = Arc::new(move |_| Decision::Write(writes.clone()));
        match self.run_transaction(&[], &decide).await? {
            Transacted::Committed { written } => Ok(written
                .first()
                .map_or_else(|| self.committed_position(), |written| written.position)),
            Transacted::Kept | Transacted::Refused(_) => Err(StoreError::Internal(
                "an insertion was neither done nor failed".to_owned(),
            )),
        }
    }

    pub(super) async fn write_whole(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        document: &RawDocument,
    ) -> Result<Written, StoreError> {
        let mut session = self.sessions.take().await?;
        let (document, created) = self.put_in(&mut session, namespace, id, document).await?;
        Ok(Written {
            document: Some(document),
            created,
            position: self.done(session),
        })
    }

    pub(super) async fn write_operators(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<Written>, StoreError> {
        let mut session = self.sessions.take().await?;
        let document = self
            .update_in(&mut session, namespace, id, operators)
            .await?;
        let position = self.done(session);
        Ok(document.map(|document| Written {
            document: Some(document),
            created: false,
            position,
        }))
    }

    pub(super) async fn write_deletion(
        &self,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<Option<Position>, StoreError> {
        let mut session = self.sessions.take().await?;
        let deleted = self.delete_in(&mut session, namespace, id).await?;
        let position = self.done(session);
        Ok(deleted.then_some(position))
    }

    /// Notes what the session's last write was acknowledged at, and keeps the session.
    pub(super) fn done(&self, session: ClientSession) -> Position {
        let position = self.acknowledged(&session);
        self.sessions.give_back(session);
        position
    }

    pub(super) async fn insert_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        document: &RawDocumentBuf,
    ) -> Result<(), Failed> {
        self.collection(namespace)
            .insert_one(document)
            .session(session)
            .await?;
        Ok(())
    }

    /// Creates or replaces. What is sent has no `_id`, so that a record keeps the one it has (5 and 5.0 are one
    /// id). Asks for the state before, which says whether there was one and under which `_id`: with it, the
    /// state after is known without a second look.
    pub(super) async fn put_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        document: &RawDocument,
    ) -> Result<(RawDocumentBuf, bool), Failed> {
        let document = identified(document, id)?;
        let before = self
            .collection(namespace)
            .find_one_and_replace(by_id(id)?, &unidentified(&document)?)
            .upsert(true)
            .return_document(ReturnDocument::Before)
            .session(session)
            .await?;
        let kept = before
            .as_ref()
            .and_then(|before| before.get("_id").ok().flatten());
        match kept {
            Some(kept) => Ok((identified(&document, kept)?, false)),
            None => Ok((document, true)),
        }
    }

    pub(super) async fn update_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<RawDocumentBuf>, Failed> {
        Ok(self
            .collection(namespace)
            .find_one_and_update(by_id(id)?, decoded(operators)?)
            .return_document(ReturnDocument::After)
            .session(session)
            .await?)
    }

    pub(super) async fn delete_in(
        &self,
        session: &mut ClientSession,
        namespace: &Namespace,
        id: RawBsonRef<'_>,
    ) -> Result<bool, Failed> {
        let outcome = self
            .collection(namespace)
            .delete_one(by_id(id)?)
            .session(session)
            .await?;
        Ok(outcome.deleted_count > 0)
    }

    pub(super) fn committed_position(&self) -> Position {
        super::super::port::Store::committed(self)
    }
}
