//! Records a history: writes go to a real MongoDB, every query is asked after each of them, and the events are taken
//! from the change stream as the gateway takes them.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use anyhow::{anyhow, bail, ensure};
use bson::{Document, RawDocumentBuf, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::Clock;
use freshet_fixture::Mongo;
use freshet_invalidation::Images;
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::Source;
use mongodb::error::ErrorKind;
use mongodb::options::{
    Acknowledgment, ChangeStreamPreAndPostImages, CollectionOptions, WriteConcern,
};
use mongodb::{Client, Collection, Database};

use super::case::{Asked, History, Of, Watching, Written};
use super::questions::Questions;

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
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub(super) records: Vec<Document>,
    /// Those of the other collection.
    pub(super) others: Vec<Document>,
    pub(super) writes: Vec<(Of, Planned)>,
}

/// The server and its feed.
pub(super) struct Recorder {
    client: Client,
    source: MongoSource,
    histories: u64,
    _mongo: Mongo,
}

pub(super) type Records = Collection<RawDocumentBuf>;

/// A database of its own for every history: joins name collections.
struct Collections {
    database: Database,
    records: Records,
    others: Records,
}

impl Collections {
    fn of(&self, of: Of) -> &Records {
        match of {
            Of::Records => &self.records,
            Of::Others => &self.others,
        }
    }
}

impl Recorder {
    pub(super) async fn start(mongo: Mongo, clock: Arc<dyn Clock>) -> anyhow::Result<Recorder> {
        let client: Client = mongo.uri.client().await?;
        let mut source = MongoSource::new(client.clone(), clock, None);
        source.next().await?;
        Ok(Recorder {
            client,
            source,
            histories: 0,
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
        let collections = self.collections(images).await?;
        for (of, documents) in [(Of::Records, &plan.records), (Of::Others, &plan.others)] {
            if !documents.is_empty() {
                let raw = documents.iter().map(RawDocumentBuf::try_from);
                let raw: Vec<RawDocumentBuf> = raw.collect::<Result<_, _>>()?;
                collections.of(of).insert_many(raw).await?;
            }
        }
        let mut questions = Questions::of(asked);
        questions.ask(&collections.records).await?;
        let mut states = Vec::new();
        let inserted = plan.records.len() + plan.others.len();
        let database = collections.database.name();
        let mut events = self.events(database, inserted).await?;
        for (of, write) in &plan.writes {
            let records = collections.of(*of);
            if !carry_out(records, write).await? {
                continue;
            }
            states.push(match images {
                Images::Both => None, // the feed will tell, in the end
                Images::AfterOnly => {
                    // What is looked up is looked up now.
                    events.extend(self.events(database, 1).await?);
                    records.find_one(write.selector()).await?.map(Rc::new)
                }
            });
            questions.ask(&collections.records).await?;
        }
        let missing = inserted + states.len() - events.len();
        events.extend(self.events(database, missing).await?);
        let history = history(events, inserted, images, states)?;
        collections.database.drop().await?;
        Ok((history, questions.answered(asked)))
    }

    async fn collections(&mut self, images: Images) -> anyhow::Result<Collections> {
        self.histories += 1;
        let database = self.client.database(&format!("fuzz{}", self.histories));
        let on = ChangeStreamPreAndPostImages::builder()
            .enabled(images == Images::Both)
            .build();
        // The feed waits for the majority anyway.
        let acknowledged = WriteConcern::builder().w(Acknowledgment::Nodes(1)).build();
        let options = CollectionOptions::builder()
            .write_concern(acknowledged)
            .build();
        let mut made = Vec::new();
        for of in [Of::Records, Of::Others] {
            let create = database.create_collection(of.name());
            create.change_stream_pre_and_post_images(on.clone()).await?;
            made.push(database.collection_with_options(of.name(), options.clone()));
        }
        let [records, others] = made.try_into().map_err(|_| anyhow!("two collections"))?;
        Ok(Collections {
            database,
            records,
            others,
        })
    }

    async fn events(&mut self, database: &str, wanted: usize) -> anyhow::Result<Vec<ChangeEvent>> {
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
                event.namespace.db() == database && matches!(event.change, Change::Record { .. })
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
    let mut states: HashMap<(Of, String), Rc<RawDocumentBuf>> = HashMap::new();
    for (number, event) in events.into_iter().enumerate() {
        let Change::Record { id, before, after } = event.change else {
            bail!("a collection was changed as a whole");
        };
        let of = match event.namespace.collection() == Of::Records.name() {
            true => Of::Records,
            false => Of::Others,
        };
        let name = (of, format!("{id:?}"));
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
            match of {
                Of::Records => history.before.extend(state),
                Of::Others => history.others.extend(state),
            }
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
            of,
            id,
            before: known,
            after: state,
            images: (images == Images::AfterOnly).then_some((before, after)),
        });
    }
    Ok(history)
}
