//! What a transaction would do, worked out without touching anything: either every write of it fits, or none
//! happens. Reads the state as earlier transactions of the same commit left it.

use std::collections::HashMap;

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use freshet_core::update;
use redb::ReadableTable;

use super::super::check::{checked_document, identified};
use super::super::port::{
    Answer, Decide, Decision, Read, Refused, StoreError, Transacted, Write, Written,
};
use super::compile::{Compiled, matches};
use super::keys;
use super::log::Effect;
use super::query::Limits;
use super::tables::broken;

/// A transaction to carry out.
pub(super) enum Work {
    /// Reads, decides, writes.
    Transact(Vec<Read>, Decide),
    /// Writes.
    Write(Vec<Write>),
}

/// What a transaction comes to.
pub(super) struct Plan {
    /// In order; each is a change of the log.
    pub(super) effects: Vec<Effect>,
    /// The answer, whose position is still to be set.
    pub(super) outcome: Transacted,
}

impl Plan {
    fn nothing(outcome: Transacted) -> Plan {
        Plan {
            effects: Vec::new(),
            outcome,
        }
    }

    /// Sets the position of everything written.
    pub(super) fn at(&mut self, position: Position) {
        if let Transacted::Committed { written } = &mut self.outcome {
            for one in written {
                one.position = position;
            }
        }
    }
}

/// Works a transaction out.
pub(super) struct Planner<'t, T> {
    documents: &'t T,
    limits: Limits,
    now_ms: u64,
    /// What earlier writes of this transaction left.
    left: HashMap<Vec<u8>, Option<RawDocumentBuf>>,
    effects: Vec<Effect>,
}

impl<'t, T: ReadableTable<&'static [u8], &'static [u8]>> Planner<'t, T> {
    pub(super) fn new(documents: &'t T, limits: Limits, now_ms: u64) -> Planner<'t, T> {
        Planner {
            documents,
            limits,
            now_ms,
            left: HashMap::new(),
            effects: Vec::new(),
        }
    }

    pub(super) fn plan(self, work: Work) -> Result<Plan, StoreError> {
        match work {
            Work::Write(writes) => self.write(writes),
            Work::Transact(reads, decide) => {
                let answers = reads
                    .iter()
                    .map(|read| self.answer(read))
                    .collect::<Result<Vec<_>, _>>()?;
                match decide(&answers) {
                    Decision::Write(writes) if !writes.is_empty() => self.write(writes),
                    Decision::Write(_) | Decision::Keep => Ok(Plan::nothing(Transacted::Kept)),
                    Decision::Refuse(reason) => Ok(Plan::nothing(Transacted::Refused(reason))),
                }
            }
        }
    }

    fn answer(&self, read: &Read) -> Result<Answer, StoreError> {
        Ok(match read {
            Read::Record { namespace, id } => {
                Answer::Record(self.current(&keys::record(namespace, id.as_raw_bson_ref()))?)
            }
            Read::Query(find) => {
                let query = Compiled::of(&find.as_find(Position::ZERO))?;
                Answer::Query(query.run(self.documents, self.limits)?.into())
            }
        })
    }

    fn write(mut self, writes: Vec<Write>) -> Result<Plan, StoreError> {
        let mut written = Vec::with_capacity(writes.len());
        for write in writes {
            match self.write_one(write)? {
                Some(one) => written.push(one),
                None => return Ok(Plan::nothing(Transacted::Refused(Refused::Missing))),
            }
        }
        Ok(Plan {
            effects: self.effects,
            outcome: Transacted::Committed { written },
        })
    }

    /// One write; `None` when the record to update is not there.
    fn write_one(&mut self, write: Write) -> Result<Option<Written>, StoreError> {
        match write {
            Write::Insert {
                namespace,
                document,
            } => {
                let id = RawBson::from(checked_document(&document)?);
                let id = id.as_raw_bson_ref();
                let key = keys::record(&namespace, id);
                if self.current(&key)?.is_some() {
                    return Err(StoreError::DuplicateId);
                }
                let document = identified(&document, id)?;
                Ok(Some(self.put(key, namespace, id, None, Some(document))))
            }
            Write::Put {
                namespace,
                id,
                document,
            } => {
                let id = id.as_raw_bson_ref();
                let key = keys::record(&namespace, id);
                let before = self.current(&key)?;
                let mut document = identified(&document, id)?;
                if let Some(kept) = before.as_deref().and_then(stored_id) {
                    document = identified(&document, kept)?;
                }
                Ok(Some(self.put(key, namespace, id, before, Some(document))))
            }
            Write::Update {
                namespace,
                id,
                operators,
            } => self.update(namespace, id.as_raw_bson_ref(), &operators),
            Write::Delete { namespace, id } => {
                let id = id.as_raw_bson_ref();
                let key = keys::record(&namespace, id);
                let before = self.current(&key)?;
                Ok(Some(self.put(key, namespace, id, before, None)))
            }
        }
    }

    fn update(
        &mut self,
        namespace: Namespace,
        id: RawBsonRef<'_>,
        operators: &RawDocument,
    ) -> Result<Option<Written>, StoreError> {
        let key = keys::record(&namespace, id);
        let Some(before) = self.current(&key)? else {
            return Ok(None);
        };
        let after = update::parse(operators)
            .and_then(|update| update.apply(&before, self.now_ms, &matches))
            .map_err(|error| match error.reason {
                update::Reason::TooLarge => StoreError::TooLarge,
                _ => StoreError::BadRequest(error.to_string()),
            })?;
        checked_document(&after)?;
        Ok(Some(self.put(
            key,
            namespace,
            id,
            Some(before),
            Some(after),
        )))
    }

    fn put(
        &mut self,
        key: Vec<u8>,
        namespace: Namespace,
        id: RawBsonRef<'_>,
        before: Option<RawDocumentBuf>,
        after: Option<RawDocumentBuf>,
    ) -> Written {
        let written = Written {
            document: after.clone(),
            created: before.is_none() && after.is_some(),
            position: Position::ZERO,
        };
        // What changes nothing is no change.
        if before != after {
            // The id as the record has it, where there is one.
            let stored = [&after, &before].into_iter().flatten().next();
            let id = stored
                .and_then(|record| stored_id(record))
                .unwrap_or(id)
                .into();
            self.left.insert(key.clone(), after.clone());
            self.effects.push(Effect {
                key,
                namespace,
                id,
                before,
                after,
            });
        }
        written
    }

    fn current(&self, key: &[u8]) -> Result<Option<RawDocumentBuf>, StoreError> {
        if let Some(left) = self.left.get(key) {
            return Ok(left.clone());
        }
        record_at(self.documents, key)
    }
}

/// The record under a storage key.
pub(super) fn record_at(
    documents: &impl ReadableTable<&'static [u8], &'static [u8]>,
    key: &[u8],
) -> Result<Option<RawDocumentBuf>, StoreError> {
    documents
        .get(key)
        .map_err(broken)?
        .map(|value| {
            RawDocumentBuf::from_bytes(value.value().to_vec())
                .map_err(|error| StoreError::Internal(error.to_string()))
        })
        .transpose()
}

fn stored_id(document: &RawDocument) -> Option<RawBsonRef<'_>> {
    document.get("_id").ok().flatten()
}
