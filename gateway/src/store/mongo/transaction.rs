//! Conditional writes: snapshot read → decide → write → majority commit, begun again while another writer
//! was faster (`TransientTransactionError`).
//!
//! Isolation is MongoDB's snapshot: what the transaction writes cannot have changed since it was read; what it
//! only reads is consistent in itself.

use std::time::Duration;

use bson::RawBson;
use freshet_core::time::Position;
use mongodb::ClientSession;
use mongodb::error::{Error, TRANSIENT_TRANSACTION_ERROR, UNKNOWN_TRANSACTION_COMMIT_RESULT};
use mongodb::options::ReadConcern;

use super::super::check::checked_document;
use super::super::port::{
    Answer, Decide, Decision, Read, Refused, StoreError, Transacted, Write, Written,
};
use super::error::{Failed, translate};
use super::{MongoStore, operation_time};

/// How often a commit of unknown outcome is sent again; the server then says what became of it.
const COMMIT_ATTEMPTS_MAX: u32 = 5;
/// The longest pause before a transaction is begun again.
const PAUSE_MS_MAX: u64 = 20;

/// How one attempt ended.
enum Attempt {
    Done(Transacted),
    /// Another writer was faster.
    Again,
}

impl MongoStore {
    pub(super) async fn run_transaction(
        &self,
        reads: &[Read],
        decide: &Decide,
    ) -> Result<Transacted, StoreError> {
        for attempt in 0..self.options.transaction_attempts_max {
            let (mut session, _) = self.session_after(Position::ZERO).await?;
            match self.attempt(&mut session, reads, decide).await {
                Ok(Attempt::Done(outcome)) => {
                    // A session that only read a snapshot has seen what no majority may have yet: the next
                    // read in it would wait for that.
                    if matches!(outcome, Transacted::Committed { .. }) {
                        self.sessions.give_back(session);
                    }
                    return Ok(outcome);
                }
                Ok(Attempt::Again) => {}
                Err(failed) => {
                    // Dropping the session aborts what is left of the transaction.
                    drop(session);
                    if !failed.has_label(TRANSIENT_TRANSACTION_ERROR) {
                        return Err(failed.into());
                    }
                }
            }
            tokio::time::sleep(pause(attempt)).await;
        }
        Err(StoreError::Conflict)
    }

    async fn attempt(
        &self,
        session: &mut ClientSession,
        reads: &[Read],
        decide: &Decide,
    ) -> Result<Attempt, Failed> {
        session
            .start_transaction()
            .read_concern(ReadConcern::snapshot())
            .await?;
        let mut answers = Vec::with_capacity(reads.len());
        for read in reads {
            answers.push(self.answer_in(session, read).await?);
        }
        let outcome = match decide(&answers) {
            Decision::Write(writes) if writes.is_empty() => Transacted::Kept,
            Decision::Write(writes) => return self.carry_out(session, writes).await,
            Decision::Keep => Transacted::Kept,
            Decision::Refuse(reason) => Transacted::Refused(reason),
        };
        session.abort_transaction().await?;
        Ok(Attempt::Done(outcome))
    }

    async fn answer_in(&self, session: &mut ClientSession, read: &Read) -> Result<Answer, Failed> {
        Ok(match read {
            Read::Record { namespace, id } => Answer::Record(
                self.record_in(session, namespace, id.as_raw_bson_ref())
                    .await?,
            ),
            Read::Query(find) => Answer::Query(
                self.find_in(session, &find.as_find(Position::ZERO), None)
                    .await?,
            ),
        })
    }

    async fn carry_out(
        &self,
        session: &mut ClientSession,
        writes: Vec<Write>,
    ) -> Result<Attempt, Failed> {
        let mut written = Vec::with_capacity(writes.len());
        for write in &writes {
            match self.write_in(session, write).await {
                Ok(Some(one)) => written.push(one),
                Ok(None) => {
                    session.abort_transaction().await?;
                    return Ok(Attempt::Done(Transacted::Refused(Refused::Missing)));
                }
                // A record that the snapshot does not show was created meanwhile.
                Err(Failed::Driver(error))
                    if matches!(write, Write::Put { .. })
                        && translate(error.clone()) == StoreError::DuplicateId =>
                {
                    return Ok(Attempt::Again);
                }
                Err(failed) => return Err(failed),
            }
        }
        commit(session).await?;
        let position = self.acknowledged(session);
        for one in &mut written {
            one.position = position;
        }
        Ok(Attempt::Done(Transacted::Committed { written }))
    }

    /// One write; `None` when the record to update is not there.
    async fn write_in(
        &self,
        session: &mut ClientSession,
        write: &Write,
    ) -> Result<Option<Written>, Failed> {
        let (document, created) = match write {
            Write::Insert {
                namespace,
                document,
            } => {
                checked_document(document)?;
                self.insert_in(session, namespace, document).await?;
                (Some(document.clone()), true)
            }
            Write::Put {
                namespace,
                id,
                document,
            } => {
                let (document, created) = self
                    .put_in(session, namespace, id.as_raw_bson_ref(), document)
                    .await?;
                (Some(document), created)
            }
            Write::Update {
                namespace,
                id,
                operators,
            } => {
                let document = self
                    .update_in(session, namespace, id.as_raw_bson_ref(), operators)
                    .await?;
                if document.is_none() {
                    return Ok(None);
                }
                (document, false)
            }
            Write::Delete { namespace, id } => {
                self.delete_in(session, namespace, RawBson::as_raw_bson_ref(id))
                    .await?;
                (None, false)
            }
        };
        Ok(Some(Written {
            document,
            created,
            position: operation_time(session),
        }))
    }
}

async fn commit(session: &mut ClientSession) -> Result<(), Error> {
    let mut attempts = 1;
    loop {
        match session.commit_transaction().await {
            Ok(()) => return Ok(()),
            Err(error)
                if attempts < COMMIT_ATTEMPTS_MAX
                    && error.contains_label(UNKNOWN_TRANSACTION_COMMIT_RESULT) =>
            {
                attempts += 1;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Longer with every attempt, so that a crowd of writers thins out.
fn pause(attempt: u32) -> Duration {
    Duration::from_millis(u64::from(attempt).min(PAUSE_MS_MAX))
}
