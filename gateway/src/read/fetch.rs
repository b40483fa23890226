//! Asks the database, and writes what came into the bytes that are sent.

use bson::{RawBson, RawDocument, RawDocumentBuf};
use bytes::Bytes;
use freshet_core::aggregate::{ANSWER_DOCUMENTS_MAX, local_values};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;
use freshet_core::query::{AggregateQuery, Query, Rep};
use freshet_core::time::Position;
use freshet_core::value::ejson::{self, Mode};
use freshet_core::value::id::RecordId;
use freshet_invalidation::{LOOK_AHEAD, Window};

use super::asked::{Asked, representation};
use crate::app::App;
use crate::error::{Kind, Limit, Problem};
use crate::store::{Documents, Find};

/// What was read, ready to be sent.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The body.
    pub body: Bytes,
    /// A lower bound of the read's position (C1).
    pub position: Position,
    /// The keys of the records of a query's answer, those of the look-ahead included.
    pub members: Vec<Key>,
    /// Where a query's answer begins and ends.
    pub window: Window,
    /// Of each join the local values that were looked for; `None`: not known.
    pub joined: Vec<Option<Vec<RawBson>>>,
}

/// Reads at or after `from`.
///
/// # Errors
/// 404 for a record that is not there, 503 when the database does not answer or too many reads wait for it.
pub async fn fetch(app: &App, asked: &Asked, from: Position) -> Result<Fetched, Problem> {
    let _permit = app.reads.try_acquire().map_err(|_| {
        let problem = Problem::new(Kind::Unavailable, "too many reads wait for the database");
        problem.of_limit(Limit::Reads)
    })?;
    let reading = async {
        match asked {
            Asked::Record(record) => {
                let got = app
                    .store
                    .get(&record.namespace, record.id.as_raw(), from)
                    .await?;
                let document = got.document.ok_or_else(|| {
                    Problem::new(Kind::NotFound, "there is no such record").read_at(got.position)
                })?;
                let shown = record.projection.apply(&document).map_err(corrupt)?;
                Ok(Fetched {
                    body: document_body(&shown, record.rep),
                    position: got.position,
                    members: Vec::new(),
                    window: Window::default(),
                    joined: Vec::new(),
                })
            }
            Asked::Query(query) => find(app, query, from).await,
            Asked::Count(count) => {
                let filter = count.filter.to_document();
                let counted = app.store.count(&count.namespace, &filter, from).await?;
                Ok(Fetched {
                    body: format!("{{\"count\":{}}}", counted.count).into(),
                    position: counted.position,
                    members: Vec::new(),
                    window: Window::default(),
                    joined: Vec::new(),
                })
            }
            Asked::Aggregate(query) => aggregate(app, query, from).await,
        }
    };
    tokio::time::timeout(app.settings.limits.read_timeout, reading)
        .await
        .map_err(|_| Problem::new(Kind::Unavailable, "the database did not answer in time"))?
}

/// The plan lets one document more through than may be answered: that one says that there are too many.
async fn aggregate(app: &App, query: &AggregateQuery, from: Position) -> Result<Fetched, Problem> {
    let plan = query.pipeline.plan();
    let found = app.store.aggregate(&query.namespace, &plan, from).await?;
    if found.documents.len() > ANSWER_DOCUMENTS_MAX as usize {
        let detail = format!(
            "the answer has more than {ANSWER_DOCUMENTS_MAX} documents: end the pipeline with $limit"
        );
        return Err(Problem::malformed(detail).of_parameter("pipeline"));
    }
    Ok(Fetched {
        body: items(found.documents.iter(), query.rep),
        position: found.position,
        members: Vec::new(),
        window: Window::default(),
        joined: joined(app, query, found.position).await?,
    })
}

/// The local values of each join, read at the answer's position or later: of what the answer saw none is missing, but for
/// what a later write took away, and that touches the answer.
async fn joined(
    app: &App,
    query: &AggregateQuery,
    from: Position,
) -> Result<Vec<Option<Vec<RawBson>>>, Problem> {
    let mut all = Vec::new();
    for lookup in query.pipeline.lookups() {
        let values = match query.pipeline.local_values_pipeline(&lookup) {
            Some(pipeline) => {
                let plan = pipeline.plan();
                let found = app.store.aggregate(&query.namespace, &plan, from).await?;
                local_values(found.documents.iter())
            }
            None => None,
        };
        all.push(values);
    }
    Ok(all)
}

/// More than asked for: whether one is there decides whether there is a next page.
async fn find(app: &App, query: &Query, from: Position) -> Result<Fetched, Problem> {
    let filter = query.effective_filter().to_document();
    let sort = query.sort.to_document();
    let found = app
        .store
        .find(&Find {
            namespace: &query.namespace,
            filter: &filter,
            sort: Some(&sort),
            skip: query.effective_skip(),
            limit: query.limit + LOOK_AHEAD as u32,
            projection: None,
            at_least: from,
        })
        .await?;
    let members = found
        .documents
        .iter()
        .map(|document| record_id(document).map(|id| query.namespace.record_key(id.segment())))
        .collect::<Result<_, _>>()?;
    Ok(Fetched {
        body: result_body(query, &found.documents)?,
        position: found.position,
        members,
        window: Window::of(
            found.documents.iter(),
            query.limit as usize,
            query.effective_skip() > 0,
            &query.sort.pattern(),
        ),
        joined: Vec::new(),
    })
}

/// What a query lists, without a next page.
///
/// # Errors
/// A record that cannot be shown.
pub fn listed<'d>(
    query: &Query,
    documents: impl Iterator<Item = &'d RawDocument>,
) -> Result<Bytes, Problem> {
    let mut body = list(query, documents)?;
    body.push(b'}');
    Ok(body.into())
}

/// `{"items":[…]`.
fn list<'d>(
    query: &Query,
    documents: impl Iterator<Item = &'d RawDocument>,
) -> Result<Vec<u8>, Problem> {
    let mut body = b"{\"items\":[".to_vec();
    for (index, document) in documents.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        item(query, document, &mut body)?;
    }
    body.push(b']');
    Ok(body)
}

fn result_body(query: &Query, documents: &Documents) -> Result<Bytes, Problem> {
    let limit = query.limit as usize;
    let mut body = list(query, documents.iter().take(limit))?;
    let last = documents.iter().take(limit).last();
    if documents.len() > limit
        && let Some(cursor) = last.and_then(|last| query.next(last, query.limit))
    {
        body.extend_from_slice(b",\"next\":");
        body.extend_from_slice(
            serde_json::Value::from(cursor.text())
                .to_string()
                .as_bytes(),
        );
    }
    body.push(b'}');
    Ok(body.into())
}

/// One record as a query shows it.
///
/// # Errors
/// A record that cannot be shown.
pub fn item(query: &Query, document: &RawDocument, body: &mut Vec<u8>) -> Result<(), Problem> {
    if representation(query.view) == Representation::Ids {
        let key = query.namespace.record_key(record_id(document)?.segment());
        body.extend_from_slice(b"{\"_ref\":");
        body.extend_from_slice(serde_json::Value::from(key.as_str()).to_string().as_bytes());
        body.push(b'}');
        return Ok(());
    }
    if query.projection.is_all() {
        write(document, query.rep, body);
        return Ok(());
    }
    let shown = query.projection.apply(document).map_err(corrupt)?;
    write(&shown, query.rep, body);
    Ok(())
}

/// One document as a body.
#[must_use]
pub fn document_body(document: &RawDocument, rep: Rep) -> Bytes {
    let mut body = Vec::with_capacity(document.as_bytes().len() * 2);
    write(document, rep, &mut body);
    body.into()
}

/// Several documents as the body of an insert's answer.
#[must_use]
pub fn items_body(documents: &[RawDocumentBuf], rep: Rep) -> Bytes {
    items(documents.iter().map(|document| &**document), rep)
}

fn items<'d>(documents: impl Iterator<Item = &'d RawDocument>, rep: Rep) -> Bytes {
    let mut body = b"{\"items\":[".to_vec();
    for (index, document) in documents.enumerate() {
        if index > 0 {
            body.push(b',');
        }
        write(document, rep, &mut body);
    }
    body.extend_from_slice(b"]}");
    body.into()
}

/// A document's id.
///
/// # Errors
/// 500 for a stored document that has none.
pub fn record_id(document: &RawDocument) -> Result<RecordId, Problem> {
    match document.get("_id") {
        Ok(Some(id)) => RecordId::of(id).map_err(|error| {
            Problem::new(Kind::Internal, "a stored record's _id cannot be named")
                .because(error.to_string())
        }),
        Ok(None) => Err(Problem::new(Kind::Internal, "a stored record has no _id")),
        Err(error) => Err(corrupt(error)),
    }
}

/// The key of a record.
#[must_use]
pub fn record_key(namespace: &Namespace, id: &RecordId) -> Key {
    namespace.record_key(id.segment())
}

fn write(document: &RawDocument, rep: Rep, body: &mut Vec<u8>) {
    ejson::write_document(document, dialect(rep), body);
}

/// How values are written.
#[must_use]
pub fn dialect(rep: Rep) -> Mode {
    match rep {
        Rep::Relaxed => Mode::Relaxed,
        Rep::Canonical => Mode::Canonical,
    }
}

fn corrupt(error: bson::error::Error) -> Problem {
    Problem::new(Kind::Internal, "a stored record cannot be read").because(error.to_string())
}
