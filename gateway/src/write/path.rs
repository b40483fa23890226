//! The write path: route → precondition → store → acknowledge → respond. The caller carries a write that has begun
//! through when the client goes away, since what the database did must reach the pipeline and the tier.

use std::sync::Arc;

use freshet_core::time::Position;
use http::header::{ETAG, LOCATION};
use http::{HeaderValue, StatusCode};
use parking_lot::Mutex;

use super::change::{Change, Impossible};
use super::idempotency::First;
use super::plan::{Plan, Request, Work};
use crate::app::App;
use crate::auth::access::Rule;
use crate::error::{Kind, Problem};
use crate::respond::{self, FRESHET_POSITION, Reply};
use crate::server::Body;
use crate::store::{Decide, Decision, Refused, StoreError, Transacted, Written};
use crate::telemetry::activity::Event;

/// What was written, and how it is answered.
struct Done {
    first: First,
    position: Position,
}

/// Carries out a write.
///
/// # Errors
/// The problem to send instead.
pub async fn write(app: &App, rule: &Rule, request: &Request) -> Result<Reply, Problem> {
    let plan = Arc::new(Plan::parse(request, rule, &app.settings.limits)?);
    let direct = plan.precondition.is_none() && plan.repeatable.is_none();
    let done = match direct {
        true => store(app, &plan).await?,
        false => transact(app, &plan).await?,
    };
    app.pipeline.observe(done.position);
    for key in plan.keys()? {
        let held = app.tier.invalidate(&key);
        if let (true, Some(activity)) = (held, &app.activity) {
            let key = key.as_str().to_owned();
            activity.add(Event::Invalidated { key }, app.clock.wall_ms());
        }
    }
    Ok(respond(done))
}

/// Writes what needs no look at the record first.
async fn store(app: &App, plan: &Arc<Plan>) -> Result<Done, Problem> {
    let namespace = &plan.namespace;
    let (id, change) = match &plan.work {
        Work::Insert { documents, .. } => {
            let position = app.store.insert(namespace, documents).await?;
            let first = plan.answer(documents, true)?;
            return Ok(Done { first, position });
        }
        Work::Change { id, change } => (id, change),
    };
    let written = match change {
        Change::MergePatch(_) => return transact(app, plan).await,
        Change::Put(document) => Some(app.store.put(namespace, id.as_raw(), document).await?),
        Change::Update(operators, _) => app
            .store
            .update(namespace, id.as_raw(), operators)
            .await
            .map_err(unfit)?,
        Change::Delete => {
            let deleted = app.store.delete(namespace, id.as_raw()).await?;
            deleted.map(|position| Written {
                document: None,
                created: false,
                position,
            })
        }
    };
    let written = written.ok_or(Impossible::Missing)?;
    let documents: Vec<_> = written.document.into_iter().collect();
    Ok(Done {
        first: plan.answer(&documents, written.created)?,
        position: written.position,
    })
}

/// What a decision came to, beside what the store needs to know of it.
type Verdict = Arc<Mutex<Result<Option<First>, Problem>>>;

/// Writes what depends on the record's state, or on whether the request was here before.
async fn transact(app: &App, plan: &Arc<Plan>) -> Result<Done, Problem> {
    let reads = plan.reads();
    if plan.repeatable.is_some() {
        app.keeps_answers(plan.namespace.db());
    }
    let verdict: Verdict = Arc::new(Mutex::new(Ok(None)));
    let decide = decision(plan, app.clock.wall_ms(), &verdict);
    let transacted = match app.store.transact(&reads, &decide).await {
        // The same request may have come through another gateway at once: its answer is found now.
        Err(StoreError::DuplicateId) if plan.repeatable.is_some() => {
            app.store.transact(&reads, &decide).await?
        }
        other => other.map_err(unfit)?,
    };
    let verdict = std::mem::replace(&mut *verdict.lock(), Ok(None));
    match transacted {
        Transacted::Committed { written } => {
            let position = written.iter().map(|written| written.position).max();
            let position = position.unwrap_or_else(|| app.store.committed());
            let first = match verdict? {
                Some(first) => first,
                None => {
                    let created = written.first().is_some_and(|written| written.created);
                    let documents: Vec<_> =
                        written.into_iter().filter_map(|w| w.document).collect();
                    plan.answer(&documents, created)?
                }
            };
            Ok(Done { first, position })
        }
        Transacted::Kept => {
            let first = verdict?
                .ok_or_else(|| Problem::new(Kind::Internal, "a repeat has no first answer"))?;
            let position = app.store.committed();
            Ok(Done { first, position })
        }
        Transacted::Refused(refused) => Err(verdict.err().unwrap_or_else(|| refusal(&refused))),
    }
}

/// The decision as the store calls it: maybe several times, the last time counts.
fn decision(plan: &Arc<Plan>, now_ms: u64, verdict: &Verdict) -> Decide {
    let (plan, verdict) = (Arc::clone(plan), Arc::clone(verdict));
    Arc::new(move |answers| {
        let (decision, came_to) = match plan.decide(answers, now_ms) {
            Ok((decision, first)) => (decision, Ok(first)),
            Err(problem) => (Decision::Refuse(Refused::Precondition), Err(problem)),
        };
        *verdict.lock() = came_to;
        decision
    })
}

/// The change itself was understood before: what the database still has against it is about the record.
fn unfit(error: StoreError) -> Problem {
    match error {
        StoreError::BadRequest(detail) => Problem::new(Kind::Rejected, detail),
        other => other.into(),
    }
}

fn refusal(refused: &Refused) -> Problem {
    match refused {
        Refused::Missing => Impossible::Missing.into(),
        Refused::Invalid { detail, pointer } => {
            Problem::new(Kind::Rejected, detail.clone()).at(pointer.clone())
        }
        Refused::Precondition | Refused::OutOfDate(_) => Problem::new(
            Kind::PreconditionFailed,
            "the record is not in the state that the request named",
        ),
    }
}

fn respond(done: Done) -> Reply {
    let status = StatusCode::from_u16(done.first.status).unwrap_or(StatusCode::OK);
    let has_body = status != StatusCode::NO_CONTENT;
    let mut headers = respond::private(has_body.then_some(respond::JSON));
    headers.insert(FRESHET_POSITION, respond::position(done.position));
    for (name, value) in [(ETAG, &done.first.etag), (LOCATION, &done.first.location)] {
        if let Some(value) = value
            .as_deref()
            .and_then(|value| HeaderValue::from_str(value).ok())
        {
            headers.insert(name, value);
        }
    }
    respond::reply(status, headers, Body::of(done.first.body))
}
