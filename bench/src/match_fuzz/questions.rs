//! What the database is asked after every write: each different question once, as the gateway asks it.

use std::rc::Rc;

use anyhow::Context;
use bson::{Document, RawDocumentBuf};
use freshet_core::aggregate::{Pipeline, local_values};
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use mongodb::error::{Error, ErrorKind};

use super::case::{Asked, Computed, Found, Watching, What};
use super::record::Records;

/// Records in one reply at most: all of a query's come in the first.
const BATCH_RECORDS: u32 = 1_100;

/// The different questions among what is asked: pages of one filter and order are one.
pub(super) struct Questions {
    questions: Vec<Question>,
    found: Vec<Vec<Found>>,
    of: Vec<usize>,
}

#[derive(PartialEq)]
enum Question {
    Count(Document),
    Find(Document, Document),
    Compute(Stages),
    /// Nothing that the gateway would ask.
    Nothing,
}

/// Pipelines, as the database is given them.
#[derive(PartialEq)]
struct Stages {
    answer: Vec<Document>,
    /// Of each join, what tells its local values.
    joined: Vec<Option<Vec<Document>>>,
    renewal: Option<Vec<Document>>,
}

impl Questions {
    pub(super) fn of(asked: &[Asked]) -> Questions {
        let mut questions: Vec<Question> = Vec::new();
        let mut of = Vec::new();
        for one in asked {
            let question = Question::of(one).unwrap_or(Question::Nothing);
            let known = questions.iter().position(|known| *known == question);
            of.push(known.unwrap_or_else(|| {
                questions.push(question);
                questions.len() - 1
            }));
        }
        let found = questions.iter().map(|_| Vec::new()).collect();
        Questions {
            questions,
            found,
            of,
        }
    }

    pub(super) async fn ask(&mut self, records: &Records) -> anyhow::Result<()> {
        let all = self.questions.iter().map(|question| question.ask(records));
        for (found, answers) in try_join_all(all).await?.into_iter().zip(&mut self.found) {
            // Most answers stay as they are: they are kept once.
            let same = answers.last().filter(|last| **last == found).cloned();
            answers.push(same.unwrap_or(found));
        }
        Ok(())
    }

    pub(super) fn answered(self, asked: &[Asked]) -> Vec<Watching> {
        let found: Vec<Rc<Vec<Found>>> = self.found.into_iter().map(Rc::new).collect();
        let pairs = asked.iter().zip(self.of);
        pairs
            .map(|(asked, of)| Watching::new(asked.clone(), found[of].clone()))
            .collect()
    }
}

impl Question {
    /// As the gateway asks: what was parsed, written again.
    fn of(asked: &Asked) -> Option<Question> {
        let filter = || Document::try_from(&*asked.parse_filter()?.to_document()).ok();
        match &asked.what {
            What::Count => filter().map(Question::Count),
            What::Page { .. } => {
                let sort = asked.query()?.sort.to_document();
                Some(Question::Find(filter()?, Document::try_from(&*sort).ok()?))
            }
            What::Aggregate { .. } => {
                let pipeline = asked.aggregate()?.pipeline;
                let joined = pipeline.lookups().into_iter().map(|lookup| {
                    let values = pipeline.local_values_pipeline(&lookup);
                    values.as_ref().map(stages)
                });
                let renewal = pipeline.single_group().map(|group| group.renewal());
                Some(Question::Compute(Stages {
                    answer: stages(&pipeline),
                    joined: joined.collect(),
                    renewal: renewal.as_ref().map(stages),
                }))
            }
        }
    }

    async fn ask(&self, records: &Records) -> anyhow::Result<Found> {
        let found = match self {
            Question::Count(filter) => records
                .count_documents(filter.clone())
                .await
                .map(Found::Count),
            Question::Find(filter, sort) => {
                let find = async {
                    let cursor = records
                        .find(filter.clone())
                        .sort(sort.clone())
                        .batch_size(BATCH_RECORDS)
                        .await?;
                    cursor.map_ok(Rc::new).try_collect::<Vec<_>>().await
                };
                find.await.map(|all| Found::Records(Rc::new(all)))
            }
            Question::Compute(stages) => stages
                .ask(records)
                .await
                .map(|computed| Found::Computed(Rc::new(computed))),
            Question::Nothing => Ok(Found::Refused),
        };
        found.or_else(refused)
    }
}

impl Stages {
    async fn ask(&self, records: &Records) -> Result<Computed, Error> {
        let documents = aggregate(records, &self.answer).await?;
        let mut joined = Vec::with_capacity(self.joined.len());
        for stages in &self.joined {
            joined.push(match stages {
                Some(stages) => {
                    let values = aggregate(records, stages).await?;
                    local_values(values.iter().map(|one| &**one))
                }
                None => None,
            });
        }
        let renewal = match &self.renewal {
            Some(stages) => aggregate(records, stages).await?.pop(),
            None => None,
        };
        Ok(Computed {
            documents,
            joined,
            renewal,
        })
    }
}

fn stages(pipeline: &Pipeline) -> Vec<Document> {
    let all = pipeline.plan().documents();
    let decoded = all.iter().map(|stage| Document::try_from(&**stage));
    decoded.collect::<Result<_, _>>().unwrap_or_default()
}

async fn aggregate(records: &Records, stages: &[Document]) -> Result<Vec<RawDocumentBuf>, Error> {
    let cursor = records
        .aggregate(stages.to_vec())
        .batch_size(BATCH_RECORDS)
        .with_type::<RawDocumentBuf>()
        .await?;
    cursor.try_collect().await
}

/// What the server refuses is an answer too: parallel arrays in the order.
fn refused(error: Error) -> anyhow::Result<Found> {
    match *error.kind {
        ErrorKind::Command(_) => Ok(Found::Refused),
        _ => Err(error).context("asking the database"),
    }
}
