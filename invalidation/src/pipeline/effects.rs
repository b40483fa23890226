//! Carrying out what a batch of changes comes to: match, plan, then sketch → tier → purges → lifetimes.
//! The sketch comes first: from then on nobody who asks it trusts a copy. What the sketch does not take is
//! tried again until it does; nothing is skipped and the watermark stands still (rules C6, C7).

use std::time::Duration;

use freshet_core::freshness::{
    ResourceKind, SurrogateKey, collection_surrogate, database_surrogate,
};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Effect;
use freshet_core::sketch::Epoch;
use freshet_core::time::Position;
use tracing::{error, warn};

use super::{Inner, Progress};
use crate::effect::{Effects, Plan, plan};
use crate::ingest::port::Batch;
use crate::matcher::{Affected, Notification, affected};
use crate::purge::{Order, Target};
use crate::registry::Retiring;
use crate::sketch::port::{Report, SketchError, Write};

impl Inner {
    /// Gives a batch its effects. The watermark moves once purges are noted: see [`Inner::report_progress`].
    pub(super) async fn apply(&self, batch: Batch) {
        let losses = self.state.lock().losses;
        let plan = self.match_all(&batch);
        self.carry_out(plan).await;
        // Last: who follows a query may read what it shows through caches.
        self.live.deliver(&batch);
        if let Some(watermark) = batch.watermark {
            self.observe(watermark.position);
        }
        self.progress.send_modify(|progress| {
            let earlier = progress.take().filter(|earlier| earlier.losses == losses);
            let (watermark, resume) = earlier.map_or((None, None), |e| (e.watermark, e.resume));
            *progress = Some(Progress {
                losses,
                watermark: batch.watermark.or(watermark),
                resume: batch.resume.or(resume),
            });
        });
    }

    /// Tells the sketch how far this process is, beside the matching of what comes next. What several batches came to is
    /// told at once.
    pub(super) async fn report_progress(&self) {
        let mut news = self.progress.subscribe();
        while news.changed().await.is_ok() {
            let progress = news.borrow_and_update().clone();
            let Some(progress) = progress else { continue };
            self.note_purges().await;
            self.tell().await;
            self.advance(&progress);
            self.report(progress.resume.as_deref()).await;
        }
    }

    fn advance(&self, progress: &Progress) {
        let mut state = self.state.lock();
        if let Some(watermark) = progress.watermark
            && state.losses == progress.losses
        {
            state.watermark = Some(watermark);
            state.repeated &= state.taken_up >= Some(watermark.as_of);
        }
    }

    fn match_all(&self, batch: &Batch) -> Plan {
        let now = self.clock.now();
        let mut faults = 0;
        let mut all = Vec::with_capacity(batch.events.len());
        for event in &batch.events {
            let mut registry = self.registry.lock();
            let mut collection = registry.collection(&event.namespace);
            let earlier = collection.as_ref().map_or(0, |c| c.faults());
            let mut one = affected(collection.as_deref_mut(), event, now);
            faults += collection.map_or(0, |c| c.faults()) - earlier;
            if let Some(role) = self.cell() {
                role.leave(&mut one);
                role.retained.lock().push(event);
            }
            if let Affected::Collection(_, position) = &mut one {
                registry.reshape();
                // A read after it may have shown what took the collection's place.
                *position = (*position).max(self.position());
                let joined = registry.joined(&event.namespace, *position, now);
                all.push(Affected::Resources(joined));
            }
            all.push(one);
            // The next to begin is matched from here on: both under one lock.
            registry.matched_through(event.position);
        }
        self.registry.lock().matched_through(batch.through);
        if let Some(role) = self.cell() {
            role.retained.lock().through(batch.through);
        }
        self.observe(batch.through);
        if faults > 0 {
            error!(
                failures = faults,
                "a filter failed and is taken for touched"
            );
        }
        self.metrics.matched(batch.events.len(), &all, faults);
        self.feed_rates(&all);
        plan(all)
    }

    fn feed_rates(&self, all: &[Affected]) {
        let now = self.clock.now();
        let mut estimator = self.estimator.lock();
        for affected in all {
            if let Affected::Resources(touched) = affected
                && let Some(record) = touched.first()
                && record.kind == ResourceKind::Record
            {
                estimator.written(&record.namespace, &record.key, now);
            }
        }
    }

    /// Queries that make room for others: their copies are stale first, as if written to just now; then nobody has to
    /// match them.
    pub(super) async fn retire(&self, retiring: Vec<Retiring>) {
        let notification = |one: &Retiring| Notification {
            namespace: one.namespace.clone(),
            key: one.key.clone(),
            kind: ResourceKind::Query,
            effect: Effect::Maybe,
            position: self.position().max(Position(one.after.0.saturating_add(1))),
        };
        let touched = retiring.iter().map(notification).collect();
        self.carry_out(plan([Affected::Resources(touched)])).await;
        let mut registry = self.registry.lock();
        retiring.iter().for_each(|one| registry.retire(one));
    }

    /// What is to be purged outlives this process before the change feed's token passes its change (rule C5).
    async fn note_purges(&self) {
        let mut attempt = 0;
        while let Err(error) = self.outbox.note().await {
            attempt += 1;
            if attempt == 1 {
                warn!(%error, "purges are not noted; trying until they are");
            }
            self.pause(attempt).await;
        }
    }

    async fn carry_out(&self, plan: Plan) {
        for (namespace, effects) in plan.0 {
            let mut attempt = 0;
            let repeated = self.state.lock().repeated;
            while let Err(error) = self
                .carry_out_one(&namespace, &effects, repeated || attempt > 0)
                .await
            {
                attempt += 1;
                self.recover(&error, attempt).await;
            }
        }
    }

    /// `again`: an attempt before, or an earlier life of this process, may have had its effect on the sketch without our
    /// hearing of it, so what was outstanding cannot be told any more: everything is purged.
    async fn carry_out_one(
        &self,
        namespace: &Namespace,
        effects: &Effects,
        again: bool,
    ) -> Result<(), SketchError> {
        let epoch = self.epoch()?;
        if let Some(position) = effects.whole {
            self.sketch
                .report_collection(epoch, namespace, position)
                .await?;
        }
        let writes: Vec<Write> = effects
            .keys
            .iter()
            .map(|(key, (_, position))| Write {
                key: key.clone(),
                position: *position,
            })
            .collect();
        let hits = match writes.is_empty() {
            true => Vec::new(),
            false => self.sketch.report_write(epoch, namespace, &writes).await?,
        };
        if effects.whole.is_some() {
            self.tier.drop_collection(namespace);
        }
        let keys: Vec<Key> = writes.into_iter().map(|write| write.key).collect();
        self.tier.drop_keys(&keys);
        if let Some(role) = self.cell() {
            role.note(namespace, effects);
        }
        self.order_purges(namespace, effects, &hits, again);
        self.feed_lifetimes(namespace, effects);
        Ok(())
    }

    fn order_purges(&self, namespace: &Namespace, effects: &Effects, hits: &[bool], again: bool) {
        let touched = effects.keys.iter().zip(hits);
        let orders =
            touched
                .filter(|(_, hit)| again || **hit)
                .map(|((key, (kind, position)), _)| Order {
                    surrogate: SurrogateKey::resource(*kind, key),
                    target: Target::Resource(namespace.clone(), key.clone()),
                    position: *position,
                });
        let whole = effects.whole.map(|position| Order {
            surrogate: collection_surrogate(namespace),
            target: Target::Collection(namespace.clone()),
            position,
        });
        let orders: Vec<Order> = orders.chain(whole).collect();
        self.metrics.invalidated(orders.len());
        self.outbox.order(orders);
    }

    fn feed_lifetimes(&self, namespace: &Namespace, effects: &Effects) {
        let now = self.clock.now();
        let policy = self.settings.policy(namespace);
        let mut estimator = self.estimator.lock();
        for (key, (kind, _)) in &effects.keys {
            if *kind == ResourceKind::Query {
                estimator.invalidated(policy, key, now);
            }
        }
    }

    /// Tells the sketch how far this process is. Until that got through, nothing is cached.
    pub(super) async fn report(&self, resume: Option<&[u8]>) {
        let mut attempt = 0;
        while let Err(error) = self.report_once(resume).await {
            attempt += 1;
            self.recover(&error, attempt).await;
        }
    }

    async fn report_once(&self, resume: Option<&[u8]>) -> Result<(), SketchError> {
        let epoch = self.epoch()?;
        let now = self.clock.now();
        let state = *self.state.lock();
        let Some(age_ms) = state.age_ms(now) else {
            return Ok(());
        };
        let report = Report {
            watermark: state.position(),
            age_ms,
            invalidation_ms: state.invalidation_ms(self.outbox.invalidation_ms(), now),
        };
        if self.cell().is_some_and(|role| !role.is_held(now)) {
            let why = "another process may be this cell by now".to_owned();
            return Err(SketchError::Unavailable(why));
        }
        let gone = self.sketch.report(epoch, report, resume).await?;
        if let Some(role) = self.cell() {
            role.gone.send_if_modified(|known| {
                let is_news = *known != gone;
                *known = gone;
                is_news
            });
        }
        let mut state = self.state.lock();
        state.sketch = state.epoch.is_some_and(|current| current.number == epoch);
        Ok(())
    }

    /// After a failure: waits, or enters the epoch that is current now.
    pub(super) async fn recover(&self, error: &SketchError, attempt: u32) {
        self.state.lock().sketch = false;
        match error {
            SketchError::EpochChanged(_) => {
                warn!("the sketch lost its state, or another process began a new epoch");
                if let Err(error) = self.begin_epoch().await {
                    warn!(%error, "no new epoch yet");
                    self.pause(attempt).await;
                }
            }
            SketchError::Unavailable(_) | SketchError::Full => {
                if attempt == 1 {
                    warn!(%error, "the sketch does not take a change; trying until it does");
                }
                self.pause(attempt).await;
            }
        }
    }

    pub(super) async fn pause(&self, attempt: u32) {
        let (first, most) = self.settings.retry_ms;
        let wait = first.saturating_mul(1 << attempt.saturating_sub(1).min(16));
        tokio::time::sleep(Duration::from_millis(wait.min(most))).await;
    }

    pub(super) fn epoch(&self) -> Result<u64, SketchError> {
        let epoch = self.state.lock().epoch;
        epoch
            .map(|epoch| epoch.number)
            .ok_or_else(|| SketchError::Unavailable("not opened".to_owned()))
    }

    /// C8: the sketch's state is lost. It contains everything from now on; what was issued before is dropped
    /// wherever it can be.
    pub(super) async fn begin_epoch(&self) -> Result<(), SketchError> {
        let epoch = self.sketch.saturate(self.epoch()?, self.position()).await?;
        self.enter(epoch, true);
        Ok(())
    }

    /// Goes on in an epoch; `suspect`: copies of an earlier one may be out.
    pub(super) fn enter(&self, epoch: Epoch, suspect: bool) {
        let now = self.clock.now();
        {
            let mut state = self.state.lock();
            state.epoch = Some(epoch);
            state.sketch = false;
            state.suspect_until = (suspect && self.outbox.has_nodes()).then(|| {
                let slack = self.settings.outbox.repeat_after_ms;
                now.after_ms(self.settings.caps().s.as_ms() + slack)
            });
        }
        self.snapshots.clear();
        self.metrics.epoch(epoch.number);
        if !suspect {
            return;
        }
        self.tier.drop_all();
        let orders = self.settings.databases.iter().map(|db| Order {
            surrogate: database_surrogate(db),
            target: Target::Database(db.clone(), epoch.number),
            position: Position::ZERO,
        });
        self.outbox.order(orders);
    }
}
