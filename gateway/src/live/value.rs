//! The answer of a live query that computes something: a count or a single group is kept up to date by what each write
//! did; anything else is asked for again when it may be another one.

use bson::{RawArrayBuf, RawDocumentBuf, rawdoc};
use bytes::Bytes;
use freshet_core::aggregate::{ANSWER_DOCUMENTS_MAX, Incremental, Pipeline, SingleGroup, Step};
use freshet_core::query::{AggregateQuery, CountQuery, Filter};
use freshet_core::time::{Moment, Position};
use freshet_invalidation::Watch;
use freshet_invalidation::live::Did;

use super::kept::{Read, Told};
use super::list::no_snapshot;
use crate::app::App;
use crate::error::{Kind, Problem};
use crate::read::fetch::items_body;

/// The answer.
pub(super) struct Value {
    asked: Asked,
    pipeline: Pipeline,
    kept: Option<Incremental>,
    body: Bytes,
}

enum Asked {
    Count(CountQuery),
    Group(Box<AggregateQuery>, Box<SingleGroup>),
    Other(Box<AggregateQuery>),
}

impl Value {
    pub(super) fn count(query: CountQuery) -> Result<Value, Problem> {
        let stages = [
            rawdoc! {"$match": query.filter.to_document()},
            rawdoc! {"$count": "count"},
        ];
        let pipeline = Pipeline::parse(&RawArrayBuf::from_iter(stages)).map_err(|error| {
            Problem::new(Kind::Internal, "a count cannot be followed").because(error.to_string())
        })?;
        Ok(Value::new(Asked::Count(query), pipeline))
    }

    pub(super) fn aggregate(query: Box<AggregateQuery>) -> Value {
        let (asked, pipeline) = match query.pipeline.single_group() {
            Some(group) => {
                let renewal = group.renewal();
                (Asked::Group(query, Box::new(group)), renewal)
            }
            None => {
                let pipeline = query.pipeline.clone();
                (Asked::Other(query), pipeline)
            }
        };
        Value::new(asked, pipeline)
    }

    fn new(asked: Asked, pipeline: Pipeline) -> Value {
        Value {
            asked,
            pipeline,
            kept: None,
            body: Bytes::new(),
        }
    }

    pub(super) fn watch(&self) -> Watch {
        match &self.asked {
            Asked::Count(query) => Watch::count(query.filter.clone()),
            Asked::Group(query, _) | Asked::Other(query) => {
                let filter = query.pipeline.leading_filter();
                // What is not led by a filter may depend on every record.
                let filter = filter.unwrap_or_else(Filter::default);
                Watch::aggregate(filter, Some(query.pipeline.dependencies()))
            }
        }
    }

    pub(super) async fn read(&mut self, app: &App, from: Position) -> Result<Read, Problem> {
        let namespace = match &self.asked {
            Asked::Count(query) => &query.namespace,
            Asked::Group(query, _) | Asked::Other(query) => &query.namespace,
        };
        let plan = self.pipeline.plan();
        let found = app.store.aggregate(namespace, &plan, from).await?;
        let position = found.snapshot.ok_or_else(no_snapshot)?;
        let first = found.documents.iter().next();
        self.kept = match &self.asked {
            Asked::Count(_) => {
                let count = first.and_then(|first| first.get("count").ok().flatten());
                let count =
                    count.and_then(|count| count.as_i64().or(count.as_i32().map(i64::from)));
                let count = u64::try_from(count.unwrap_or(0)).unwrap_or(0);
                Some(Incremental::count(count))
            }
            Asked::Group(_, group) => Incremental::group(group, first),
            Asked::Other(_) => None,
        };
        if let Asked::Other(query) = &self.asked {
            if found.documents.len() > ANSWER_DOCUMENTS_MAX as usize {
                let detail = format!("more than {ANSWER_DOCUMENTS_MAX} documents");
                return Err(Problem::malformed(detail).of_parameter("pipeline"));
            }
            let documents: Vec<RawDocumentBuf> =
                found.documents.iter().map(ToOwned::to_owned).collect();
            return Ok(self.told_at(position, items_body(&documents, query.rep)));
        }
        let body = self
            .current()
            .ok_or_else(|| Problem::new(Kind::Internal, "a group cannot be followed"))?;
        Ok(self.told_at(position, body))
    }

    pub(super) fn apply(&mut self, changes: &[Did]) -> Told {
        for did in changes {
            let (
                Some(kept),
                Did::Record {
                    before,
                    after,
                    exact: true,
                    ..
                },
            ) = (&mut self.kept, did)
            else {
                return Told::Read(Moment(0));
            };
            let (before, after) = (before.as_deref(), after.as_deref());
            let step = kept.apply(before.map(AsRef::as_ref), after.map(AsRef::as_ref));
            if step == Step::Renew {
                return Told::Read(Moment(0));
            }
        }
        match self.current() {
            Some(body) => Told::Events(self.told_at(Position::ZERO, body).events),
            None => Told::Read(Moment(0)),
        }
    }

    pub(super) fn result(&self) -> Bytes {
        self.body.clone()
    }

    /// The answer as it is kept.
    fn current(&self) -> Option<Bytes> {
        let kept = self.kept.as_ref()?;
        Some(match &self.asked {
            Asked::Count(_) => format!("{{\"count\":{}}}", kept.rows()).into(),
            Asked::Group(query, _) => {
                let answer: Vec<RawDocumentBuf> = kept.answer().into_iter().collect();
                items_body(&answer, query.rep)
            }
            Asked::Other(_) => return None,
        })
    }

    /// The whole answer, if it is another one.
    fn told_at(&mut self, position: Position, body: Bytes) -> Read {
        let events = match body == self.body {
            true => Vec::new(),
            false => vec![("result", body.to_vec())],
        };
        self.body = body;
        Read { position, events }
    }
}
