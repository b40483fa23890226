//! What every request needs, in one place, put together once at the start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use freshet_core::freshness::Edge;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Moment};
use freshet_invalidation::{NotCached, Pipeline};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::admission::Doorkeeper;
use crate::auth::access::Access;
use crate::config::Settings;
use crate::edges;
use crate::live::Lives;
use crate::store::{Images, Store};
use crate::stored::Shelf;
use crate::telemetry::activity::Activity;
use crate::telemetry::metrics::Metrics;
use crate::tier::{Coalescer, Entry, Tier};

/// Collections whose images have been looked at, at most; beyond, they are looked at again.
const DECLARED_MAX: usize = 10_000;
/// How long what was found out about a collection is believed, in milliseconds, where no change of shape is heard of.
const LOOKED_MS_MAX: u64 = 180_000;
/// How long a collection that is not there, or cannot be looked at, is not looked for again, in milliseconds.
const ABSENT_MS: u64 = 1_000;

/// The application.
pub struct App {
    /// What it was told.
    pub settings: Settings,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The database.
    pub store: Arc<dyn Store>,
    /// From a write to its effects.
    pub pipeline: Pipeline,
    /// The gateway's own cache.
    pub tier: Arc<Tier>,
    /// Reads under way.
    pub coalescer: Coalescer,
    /// Stored queries at hand.
    pub shelf: Shelf,
    /// Live queries.
    pub lives: Lives,
    /// Who may do what.
    pub access: Access,
    /// Which answers enter caches; none: all.
    pub doorkeeper: Option<Doorkeeper>,
    /// In whose spellings shared-cache headers are written.
    pub edges: Vec<Edge>,
    /// Permits for reads of the database.
    pub reads: Semaphore,
    /// Permits for writes.
    pub writes: Arc<Semaphore>,
    /// Numbers.
    pub metrics: Metrics,
    /// Lately's events, for the landing page of `freshet dev`.
    pub activity: Option<Arc<Activity>>,
    /// SIGTERM was seen.
    pub draining: AtomicBool,
    declared: Mutex<HashMap<Namespace, Looked>>,
    repeatable_dbs: Mutex<HashSet<String>>,
}

/// What was found out about a collection.
#[derive(Clone, Copy)]
struct Looked {
    /// The collections' shape before it was looked at.
    shape: u64,
    /// Until when it is believed.
    until: Moment,
    /// What the feed says about it; `None`: not all that reads show (C14).
    images: Option<freshet_invalidation::Images>,
}

/// What the application is made of, beside its settings.
pub struct Parts {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The database.
    pub store: Arc<dyn Store>,
    /// From a write to its effects.
    pub pipeline: Pipeline,
    /// The gateway's own cache, which the pipeline also knows.
    pub tier: Arc<Tier>,
    /// Lately's events.
    pub activity: Option<Arc<Activity>>,
}

impl App {
    /// Puts the application together.
    #[must_use]
    pub fn new(settings: Settings, parts: Parts) -> App {
        let admission = &settings.admission;
        let doorkeeper = admission.doorkeeper.then(|| {
            let window_ms = u64::try_from(admission.window.as_millis()).unwrap_or(u64::MAX);
            let keys_max = usize::try_from(admission.keys_max).unwrap_or(usize::MAX);
            Doorkeeper::new(window_ms, keys_max, parts.clock.now())
        });
        App {
            access: Access::new(&settings.access),
            doorkeeper,
            edges: edges::dialects(&settings.edges),
            reads: Semaphore::new(permits(settings.limits.reads_in_flight_max)),
            writes: Arc::new(Semaphore::new(permits(
                settings.limits.writes_in_flight_max,
            ))),
            metrics: Metrics::new(|registry| parts.pipeline.register(registry)),
            coalescer: Coalescer::default(),
            shelf: Shelf::default(),
            lives: Lives::new(
                permits(settings.live.queries_max),
                permits(settings.live.followers_max),
            ),
            draining: AtomicBool::new(false),
            declared: Mutex::default(),
            repeatable_dbs: Mutex::default(),
            clock: parts.clock,
            store: parts.store,
            pipeline: parts.pipeline,
            tier: parts.tier,
            activity: parts.activity,
            settings,
        }
    }

    /// The answer that the tier has under exactly this text, unless what became of it may not be known here.
    #[must_use]
    pub fn kept(&self, key: &str, now: Moment) -> Option<Arc<Entry>> {
        let entry = self.tier.get(key, now)?;
        self.pipeline.serves(now).then_some(entry)
    }

    /// Tells the pipeline what the change feed says about a collection, before an answer from it is cached. Answers
    /// the shape that the collections had before it was looked at: a ticket with another one may be of something else.
    ///
    /// # Errors
    /// `Undecidable`: not all that reads of it show is in the feed, or that cannot be found out now (C14).
    pub async fn declare(&self, namespace: &Namespace) -> Result<u64, NotCached> {
        let shape = self.pipeline.shape();
        let known = self.declared.lock().get(namespace).copied();
        let now = self.clock.now();
        let images = match known {
            Some(looked) if looked.shape == shape && now < looked.until => looked.images,
            _ => self.look_at(namespace, shape).await,
        };
        // Each time: the pipeline forgets collections of which nothing is active.
        self.pipeline
            .declare(namespace, images.ok_or(NotCached::Undecidable)?);
        Ok(shape)
    }

    async fn look_at(
        &self,
        namespace: &Namespace,
        shape: u64,
    ) -> Option<freshet_invalidation::Images> {
        let begun = self.clock.now();
        let (images, believed_ms) = match self.store.ensure_images(namespace).await {
            Ok(Images::On) => (Some(freshet_invalidation::Images::Both), LOOKED_MS_MAX),
            Ok(Images::NotPermitted | Images::NotSupported) => {
                let least = freshet_invalidation::Images::AfterOnly;
                (Some(least), LOOKED_MS_MAX)
            }
            Ok(Images::NotWatched) => (None, LOOKED_MS_MAX),
            Ok(Images::Missing) => (None, ABSENT_MS),
            Err(error) => {
                tracing::warn!(%namespace, %error, "what a collection is cannot be found out");
                (None, ABSENT_MS)
            }
        };
        let looked = Looked {
            shape,
            until: begun.after_ms(believed_ms),
            images,
        };
        let mut declared = self.declared.lock();
        if declared.len() >= DECLARED_MAX && !declared.contains_key(namespace) {
            declared.clear();
        }
        declared.insert(namespace.clone(), looked);
        images
    }

    /// Notes that first answers are kept in this database.
    pub fn keeps_answers(&self, db: &str) {
        let mut dbs = self.repeatable_dbs.lock();
        if !dbs.contains(db) && dbs.len() < DECLARED_MAX {
            dbs.insert(db.to_owned());
        }
    }

    /// The databases in which first answers are kept.
    #[must_use]
    pub fn repeatable_dbs(&self) -> Vec<String> {
        self.repeatable_dbs.lock().iter().cloned().collect()
    }
}

fn permits(count: u64) -> usize {
    usize::try_from(count)
        .unwrap_or(usize::MAX)
        .min(Semaphore::MAX_PERMITS)
}
