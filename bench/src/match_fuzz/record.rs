//! Records a history: writes go to a real MongoDB, every query is asked after each of them, and the events are taken
//! from the change stream as the gateway takes them.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use bson::{Document, RawDocumentBuf, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::Clock;
use freshet_fixture::Mongo;
use freshet_invalidation::Images;
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::Source;
use futures_util::TryStreamExt;
use futures_util::future::try_join_all;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::{
    Acknowledgment, ChangeStreamPreAndPostImages, CollectionOptions, WriteConcern,
};
use mongodb::{Client, Collection, Database};

use super::case::{Asked, Found, History, Watching, What, Written};

/// Records in one reply at most: all of a query's come in the first.
const BATCH_RECORDS: u32 = 1_000;
/// How often an idle feed is asked for what is missing.
const IDLE_BATCHES_MAX: usize = 200;

/// A write, to be carried out.
#[derive(Clone, Debug)]
pub(super) enum Planned {
    Insert(Document),
    Replace(Document),
    Update(i32, Document),
    Delete(i32),
}

impl Planned {
    fn selector(&self) -> Document {
        let id = match self {
            Planned::Insert(document) | Planned::Replace(document) => document.get("_id").cloned(),
            Planned::Update(id, _) | Planned::Delete(id) => Some((*id).into()),
        };
        doc! { "_id": id }
    }
}

/// What happens to the records.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) records: Vec<Document>,
    pub(super) writes: Vec<Planned>,
}

/// The server and its feed.
pub(super) struct Recorder {
    database: Database,
    source: MongoSource,
    collections: u64,
    _mongo: Mongo,
}

type Records = Collection<RawDocumentBuf>;

impl Recorder {
    pub(super) async fn start(mongo: Mongo, clock: Arc<dyn Clock>) -> anyhow::Result<Recorder> {
        let client: Client = mongo.uri.client().await?;
        let mut source = MongoSource::new(client.clone(), clock, None);
        source.next().await?;
        Ok(Recorder {
            database: client.database("fuzz"),
            source,
            collections: 0,
            _mongo: mongo,
        })
    }

    /// Carries the plan out and asks after every write. `images`: what the collection's events carry.
    pub(super) async fn record(
        &mut self,
        plan: &Plan,
        asked: &[Asked],
        images: Images,
    ) -> anyhow::Result<(History, Vec<Watching>)> {
        let records = self.collection(images).await?;
        if !plan.records.is_empty() {
            let raw = plan.records.iter().map(RawDocumentBuf::try_from);
            let raw: Vec<RawDocumentBuf> = raw.collect::<Result<_, _>>()?;
            records.insert_many(raw).await?;
        }
        let mut questions = Questions::of(asked);
        questions.ask(&records).await?;
        let mut states = Vec::new();
        let inserted = plan.records.len();
        let mut events = self.events(records.name(), inserted).await?;
        for write in &plan.writes {
            if !carry_out(&records, write).await? {
                continue;
            }
            states.push(match images {
                Images::Both => None, // the feed will tell, in the end
                Images::AfterOnly => {
                    // What is looked up is looked up now.
                    events.extend(self.events(records.name(), 1).await?);
                    records.find_one(write.selector()).await?.map(Rc::new)
                }
            });
            questions.ask(&records).await?;
        }
        let missing = inserted + states.len() - events.len();
        events.extend(self.events(records.name(), missing).await?);
        let history = history(events, inserted, images, states)?;
        records.drop().await?;
        Ok((history, questions.answered(asked)))
    }

    async fn collection(&mut self, images: Images) -> anyhow::Result<Records> {
        self.collections += 1;
        let name = format!("records{}", self.collections);
        let on = ChangeStreamPreAndPostImages::builder()
            .enabled(images == Images::Both)
            .build();
        self.database
            .create_collection(&name)
            .change_stream_pre_and_post_images(on)
            .await?;
        // The feed waits for the majority anyway.
        let acknowledged = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
        let options = CollectionOptions::builder()
            .write_concern(acknowledged)
            .build();
        Ok(self.database.collection_with_options(&name, options))
    }

    async fn events(
        &mut self,
        collection: &str,
        wanted: usize,
    ) -> anyhow::Result<Vec<ChangeEvent>> {
        let mut events = Vec::with_capacity(wanted);
        let mut idle = 0;
        while events.len() < wanted {
            let batch = self.source.next().await?;
            idle = if batch.events.is_empty() { idle + 1 } else { 0 };
            ensure!(
                idle < IDLE_BATCHES_MAX,
                "{} of {wanted} events came",
                events.len()
            );
            let ours = |event: &ChangeEvent| {
                event.namespace.collection() == collection
                    && matches!(event.change, Change::Record { .. })
            };
            events.extend(batch.events.into_iter().filter(ours));
        }
        ensure!(events.len() == wanted, "more events than writes");
        Ok(events)
    }
}

/// Whether it changed anything.
async fn carry_out(records: &Records, write: &Planned) -> anyhow::Result<bool> {
    let outcome = match write {
        Planned::Insert(document) => records
            .insert_one(RawDocumentBuf::try_from(document)?)
            .await
            .map(|_| true),
        Planned::Replace(document) => {
            let replaced = records
                .replace_one(write.selector(), RawDocumentBuf::try_from(document)?)
                .upsert(true)
                .await;
            replaced.map(|done| done.modified_count > 0 || done.upserted_id.is_some())
        }
        Planned::Update(_, update) => records
            .update_one(write.selector(), update.clone())
            .await
            .map(|done| done.modified_count > 0),
        Planned::Delete(_) => records
            .delete_one(write.selector())
            .await
            .map(|done| done.deleted_count > 0),
    };
    match outcome {
        Ok(changed) => Ok(changed),
        // An _id that is there, an operator that does not fit the field: nothing was written.
        Err(error) if matches!(*error.kind, ErrorKind::Write(_) | ErrorKind::Command(_)) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// The states before and after each write. Without images they are those that were read after each (`exact`), and
/// what the feed told is kept beside them.
fn history(
    events: Vec<ChangeEvent>,
    inserted: usize,
    images: Images,
    exact: Vec<Option<Rc<RawDocumentBuf>>>,
) -> anyhow::Result<History> {
    let mut history = History::default();
    let mut exact = exact.into_iter();
    let mut states: HashMap<String, Rc<RawDocumentBuf>> = HashMap::new();
    for (number, event) in events.into_iter().enumerate() {
        let Change::Record { id, before, after } = event.change else {
            bail!("a collection was changed as a whole");
        };
        let name = format!("{id:?}");
        let known = states.get(&name).cloned();
        let state = match (&after, images) {
            (Image::Known(document), _) if number < inserted => Some(Rc::new(document.clone())),
            (_, Images::AfterOnly) => exact.next().flatten(),
            (Image::Known(document), _) => Some(Rc::new(document.clone())),
            (Image::Absent, _) => None,
            _ => bail!("an after-image is missing"),
        };
        match &state {
            Some(state) => drop(states.insert(name, state.clone())),
            None => drop(states.remove(&name)),
        }
        if number < inserted {
            history.before.extend(state);
            continue;
        }
        if images == Images::Both {
            let told = match &before {
                Image::Known(document) => Some(document),
                Image::Absent => None,
                _ => bail!("a before-image is missing"),
            };
            ensure!(
                told == known.as_deref(),
                "a before-image is not the state before"
            );
            exact.next();
        }
        history.writes.push(Written {
            id,
            before: known,
            after: state,
            images: (images == Images::AfterOnly).then_some((before, after)),
        });
    }
    Ok(history)
}

/// The different questions among what is asked: pages of one filter and order are one.
struct Questions {
    questions: Vec<Question>,
    found: Vec<Vec<Found>>,
    of: Vec<usize>,
}

#[derive(PartialEq)]
struct Question {
    filter: Document,
    /// `None`: how many there are.
    sort: Option<Document>,
}

impl Questions {
    fn of(asked: &[Asked]) -> Questions {
        let mut questions: Vec<Question> = Vec::new();
        let mut of = Vec::new();
        for one in asked {
            // As the gateway asks: the filter as it was parsed and written again.
            let filter = one
                .parse_filter()
                .and_then(|filter| Document::try_from(&*filter.to_document()).ok());
            let sort = match &one.what {
                What::Count => None,
                What::Page { .. } => one
                    .query()
                    .and_then(|query| Document::try_from(&*query.sort.to_document()).ok()),
            };
            let question = Question {
                filter: filter.unwrap_or_default(),
                sort,
            };
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

    async fn ask(&mut self, records: &Records) -> anyhow::Result<()> {
        let all = self.questions.iter().map(|question| question.ask(records));
        for (found, answers) in try_join_all(all).await?.into_iter().zip(&mut self.found) {
            answers.push(found);
        }
        Ok(())
    }

    fn answered(self, asked: &[Asked]) -> Vec<Watching> {
        let found: Vec<Rc<Vec<Found>>> = self.found.into_iter().map(Rc::new).collect();
        let pairs = asked.iter().zip(self.of);
        pairs
            .map(|(asked, of)| Watching::new(asked.clone(), found[of].clone()))
            .collect()
    }
}

impl Question {
    async fn ask(&self, records: &Records) -> anyhow::Result<Found> {
        let found = match &self.sort {
            None => records
                .count_documents(self.filter.clone())
                .await
                .map(Found::Count),
            Some(sort) => {
                let find = async {
                    let cursor = records
                        .find(self.filter.clone())
                        .sort(sort.clone())
                        .batch_size(BATCH_RECORDS)
                        .await?;
                    cursor.map_ok(Rc::new).try_collect::<Vec<_>>().await
                };
                find.await.map(|all| Found::Records(Rc::new(all)))
            }
        };
        found.or_else(refused)
    }
}

/// What the server refuses is an answer too: parallel arrays in the order.
fn refused(error: Error) -> anyhow::Result<Found> {
    match *error.kind {
        ErrorKind::Command(_) => Ok(Found::Refused),
        _ => Err(error).context("asking the database"),
    }
}
