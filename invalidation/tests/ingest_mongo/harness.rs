//! A feed of one test's own database, and what is asked of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bson::{RawBson, RawDocumentBuf, Timestamp, doc};
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::time::{Clock, Moment, Position};
use freshet_fixture::{Parts, fresh_database_name};
use freshet_invalidation::ingest::mongo::MongoSource;
use freshet_invalidation::ingest::port::{Batch, Source, Watermark};
use mongodb::options::ChangeStreamPreAndPostImages;
use mongodb::{Client, Collection};

/// How long a test waits for what must come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

struct RealClock(Instant);

#[allow(clippy::disallowed_methods)]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

impl Clock for RealClock {
    fn now(&self) -> Moment {
        #[allow(clippy::cast_possible_truncation)]
        Moment(instant().duration_since(self.0).as_millis() as u64)
    }

    fn wall_ms(&self) -> u64 {
        0
    }
}

pub(crate) fn clock() -> Arc<dyn Clock> {
    Arc::new(RealClock(instant()))
}

pub(crate) struct Feed {
    pub(crate) source: MongoSource,
    pub(crate) db: String,
    pub(crate) last: Batch,
}

impl Feed {
    pub(crate) async fn open(
        client: &Client,
        clock: &Arc<dyn Clock>,
        db: &str,
        resume: Option<Vec<u8>>,
    ) -> Feed {
        let mut feed = Feed {
            source: MongoSource::new(client.clone(), clock.clone(), resume),
            db: db.to_owned(),
            last: Batch::default(),
        };
        feed.step().await;
        feed
    }

    /// The next batch's events of this test's database.
    pub(crate) async fn step(&mut self) -> Vec<ChangeEvent> {
        let batch = self.source.next().await.unwrap();
        assert!(
            batch.through >= self.last.through,
            "through never goes back"
        );
        self.last = batch;
        let db = &self.db;
        self.last
            .events
            .iter()
            .filter(|event| event.namespace.db() == db)
            .cloned()
            .collect()
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<ChangeEvent> {
        let begun = instant();
        let mut events = Vec::new();
        while events.len() < count {
            assert!(
                begun.elapsed() < PATIENCE,
                "{} of {count} events came",
                events.len()
            );
            events.extend(self.step().await);
        }
        assert_eq!(events.len(), count);
        events
    }

    pub(crate) async fn watermark(&mut self, at_least: Position, as_of: Moment) -> Watermark {
        let begun = instant();
        loop {
            assert!(begun.elapsed() < PATIENCE, "no watermark");
            self.step().await;
            if let Some(mark) = self.last.watermark
                && mark.position >= at_least
                && mark.as_of >= as_of
            {
                return mark;
            }
        }
    }
}

pub(crate) async fn set_up() -> (Client, Arc<dyn Clock>, String) {
    let client = Parts::mongo().await.unwrap().client().await.unwrap();
    (client, clock(), fresh_database_name())
}

pub(crate) async fn with_images(
    client: &Client,
    db: &str,
    name: &str,
) -> Collection<RawDocumentBuf> {
    client
        .database(db)
        .create_collection(name)
        .change_stream_pre_and_post_images(
            ChangeStreamPreAndPostImages::builder()
                .enabled(true)
                .build(),
        )
        .await
        .unwrap();
    client.database(db).collection(name)
}

pub(crate) fn images(event: &ChangeEvent) -> (RawBson, Image, Image) {
    match &event.change {
        Change::Record { id, before, after } => (id.clone(), before.clone(), after.clone()),
        Change::Collection => panic!("not a record"),
    }
}

pub(crate) async fn operation_time(client: &Client) -> Position {
    let reply = client
        .database("admin")
        .run_command(doc! { "ping": 1 })
        .await
        .unwrap();
    let Timestamp { time, increment } = reply.get_timestamp("operationTime").unwrap();
    Position::from_timestamp(time, increment)
}
