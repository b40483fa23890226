//! A write, understood: what is to be written under which condition, what the decision inside the store's
//! transaction is, and what the answer says.

use bson::{RawBson, RawDocument, RawDocumentBuf};
use bytes::Bytes;
use freshet_core::freshness::etag;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::Rep;
use freshet_core::value::id::RecordId;
use http::{HeaderMap, Method, StatusCode};

use super::change::{self, Change, Impossible};
use super::idempotency::{First, Repeatable};
use super::precondition::Precondition;
use crate::auth::access::Rule;
use crate::config::settings::Limits;
use crate::error::{Kind, Problem};
use crate::read::fetch::{document_body, items_body, record_id, record_key};
use crate::route::{Params, Route};
use crate::store::{Answer, Decision, Read, Write};

/// A write, access already checked.
pub struct Request {
    /// What the path names.
    pub route: Route,
    /// The method.
    pub method: Method,
    /// The target as spelled.
    pub target: String,
    /// The parameters.
    pub params: Params,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// What is to be done.
pub struct Plan {
    /// Where.
    pub namespace: Namespace,
    /// What.
    pub work: Work,
    /// Under which condition.
    pub precondition: Precondition,
    /// Whether the answer is kept for a repeat.
    pub repeatable: Option<Repeatable>,
    rep: Rep,
}

/// What is written.
pub enum Work {
    /// New records.
    Insert {
        /// With their ids.
        documents: Vec<RawDocumentBuf>,
        /// They came as an array.
        many: bool,
    },
    /// A change of one record.
    Change {
        /// Which.
        id: RecordId,
        /// How.
        change: Change,
    },
}

impl Plan {
    /// Understands a request.
    ///
    /// # Errors
    /// 400, 413, 415.
    pub fn parse(request: &Request, rule: &Rule, limits: &Limits) -> Result<Plan, Problem> {
        let Request {
            method,
            headers,
            body,
            target,
            ..
        } = request;
        let rep = rep(&request.params)?;
        let precondition = Precondition::parse(headers, rule.require_if_match)?;
        let (namespace, work) = match &request.route {
            Route::Collection(namespace) => {
                let (documents, many) =
                    change::inserted(headers, body, limits.insert_documents_max)?;
                (namespace.clone(), Work::Insert { documents, many })
            }
            Route::Record(namespace, id) => {
                let change = Change::parse(method, headers, body, id)?;
                let id = id.clone();
                (namespace.clone(), Work::Change { id, change })
            }
            _ => return Err(Problem::no_such_path()),
        };
        Ok(Plan {
            repeatable: Repeatable::parse(&namespace, method, target, headers, body)?,
            namespace,
            work,
            precondition,
            rep,
        })
    }

    /// What the transaction reads: the first answer kept under the request's key, the record to change.
    #[must_use]
    pub fn reads(&self) -> Vec<Read> {
        let kept = self.repeatable.as_ref().map(|repeatable| Read::Record {
            namespace: repeatable.namespace.clone(),
            id: repeatable.id(),
        });
        let record = self.id().map(|id| Read::Record {
            namespace: self.namespace.clone(),
            id,
        });
        kept.into_iter().chain(record).collect()
    }

    /// The decision over what was read. The first answer comes with it where one is kept or was.
    ///
    /// # Errors
    /// Why nothing is written.
    pub fn decide(
        &self,
        answers: &[Answer],
        now_ms: u64,
    ) -> Result<(Decision, Option<First>), Problem> {
        let mut answers = answers.iter().map(|answer| match answer {
            Answer::Record(record) => record.as_deref(),
            Answer::Query(_) => None,
        });
        let kept = self
            .repeatable
            .as_ref()
            .and_then(|_| answers.next())
            .flatten();
        let current = answers.next().flatten();
        if let (Some(repeatable), Some(record)) = (&self.repeatable, kept)
            && let Some(first) = repeatable.again(record, now_ms)?
        {
            return Ok((Decision::Keep, Some(first)));
        }
        self.precondition.check(current)?;
        let Some(repeatable) = &self.repeatable else {
            return Ok((Decision::Write(self.writes(current, now_ms)?), None));
        };
        let (mut writes, first) = self.writes_and_answer(current, now_ms)?;
        writes.push(Write::Put {
            namespace: repeatable.namespace.clone(),
            id: repeatable.id(),
            document: repeatable.record(&first, now_ms),
        });
        Ok((Decision::Write(writes), Some(first)))
    }

    fn writes(&self, current: Option<&RawDocument>, now_ms: u64) -> Result<Vec<Write>, Problem> {
        match &self.work {
            Work::Insert { documents, .. } => Ok(self.inserts(documents)),
            Work::Change { id, change } => {
                let id = RawBson::from(id.as_raw());
                let write = change.write(&self.namespace, &id, current, now_ms)?;
                Ok(vec![write])
            }
        }
    }

    /// The answer is part of what is written, so the new state has to be known here.
    fn writes_and_answer(
        &self,
        current: Option<&RawDocument>,
        now_ms: u64,
    ) -> Result<(Vec<Write>, First), Problem> {
        let namespace = self.namespace.clone();
        match &self.work {
            Work::Insert { documents, .. } => {
                Ok((self.inserts(documents), self.answer(documents, true)?))
            }
            Work::Change { id, change } => {
                let id = RawBson::from(id.as_raw());
                let after = change.apply(current, now_ms)?;
                let documents: Vec<_> = after.iter().cloned().collect();
                let first = self.answer(&documents, current.is_none())?;
                let write = match after {
                    Some(document) => Write::Put {
                        namespace,
                        id,
                        document,
                    },
                    None => Write::Delete { namespace, id },
                };
                Ok((vec![write], first))
            }
        }
    }

    fn inserts(&self, documents: &[RawDocumentBuf]) -> Vec<Write> {
        documents
            .iter()
            .map(|document| Write::Insert {
                namespace: self.namespace.clone(),
                document: document.clone(),
            })
            .collect()
    }

    /// What the answer says when the write leaves `documents` behind.
    ///
    /// # Errors
    /// 500.
    pub fn answer(&self, documents: &[RawDocumentBuf], created: bool) -> Result<First, Problem> {
        let status = match &self.work {
            Work::Change {
                change: Change::Delete,
                ..
            } => StatusCode::NO_CONTENT,
            _ if created => StatusCode::CREATED,
            _ => StatusCode::OK,
        };
        let mut first = First {
            status: status.as_u16(),
            etag: None,
            location: None,
            body: Bytes::new(),
        };
        if let Work::Insert { many: true, .. } = &self.work {
            first.body = items_body(documents, self.rep);
        } else if let [document] = documents {
            first.body = document_body(document, self.rep);
            first.etag = Some(etag(&first.body).to_string());
            let key = record_key(&self.namespace, &record_id(document)?);
            first.location = created.then(|| key.as_str().to_owned());
        }
        Ok(first)
    }

    /// The keys of the records that are not what they were.
    ///
    /// # Errors
    /// 500.
    pub fn keys(&self) -> Result<Vec<Key>, Problem> {
        match &self.work {
            Work::Change { id, .. } => Ok(vec![record_key(&self.namespace, id)]),
            Work::Insert { documents, .. } => documents
                .iter()
                .map(|document| Ok(record_key(&self.namespace, &record_id(document)?)))
                .collect(),
        }
    }

    fn id(&self) -> Option<RawBson> {
        match &self.work {
            Work::Change { id, .. } => Some(RawBson::from(id.as_raw())),
            Work::Insert { .. } => None,
        }
    }
}

impl From<Impossible> for Problem {
    fn from(impossible: Impossible) -> Problem {
        match impossible {
            Impossible::Missing => Problem::new(Kind::NotFound, "there is no such record"),
            Impossible::Unfit(error) => {
                Problem::new(Kind::Rejected, error.detail).at(error.pointer)
            }
        }
    }
}

/// `rep` is the one parameter of a write.
fn rep(params: &Params) -> Result<Rep, Problem> {
    match params.as_slice() {
        [] => Ok(Rep::Relaxed),
        [(name, value)] if name == "rep" => match value.as_str() {
            "relaxed" => Ok(Rep::Relaxed),
            "canonical" => Ok(Rep::Canonical),
            _ => Err(Problem::malformed("must be relaxed or canonical").of_parameter("rep")),
        },
        [(name, _), ..] => {
            Err(Problem::malformed("no such parameter here").of_parameter(name.clone()))
        }
    }
}
