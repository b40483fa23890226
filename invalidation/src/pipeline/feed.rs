//! The loops: changes in, confirmations back.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use freshet_core::name::Namespace;
use freshet_core::time::Moment;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::{error, info, warn};

use super::{Connect, Inner};
use crate::ingest::port::{Batch, Source, SourceError};
use crate::partition::Retained;
use crate::purge::{Confirmed, Target};
use crate::sketch::port::{Earlier, Opened, Purged, Start};

/// Batches of confirmations waiting for the sketch.
const CONFIRMATIONS_MAX: usize = 64;
/// How often the active list is swept, milliseconds.
const SWEEP_MS: u64 = 1_000;

/// Batches that are fetched ahead of what is matched.
const BATCHES_AHEAD: usize = 2;
/// Changes that are given their effects at once, about.
const EVENTS_AT_ONCE_MAX: usize = 1_000;

/// Runs the pipeline until `stop`: four tasks, so that the next changes are fetched, those at hand matched, the last ones'
/// progress reported, and edges purged, at the same time.
pub(super) async fn run(
    inner: &Arc<Inner>,
    start: Start,
    connect: Connect,
    stop: CancellationToken,
) {
    let (confirmed, confirmations) = mpsc::channel(CONFIRMATIONS_MAX);
    let of = || Arc::clone(inner);
    let (taking, confirming, reporting, purging) = (of(), of(), of(), of());
    let mut tasks = JoinSet::new();
    tasks.spawn(until(stop.clone(), async move {
        take_in(&taking, start, connect).await;
    }));
    tasks.spawn(until(stop.clone(), async move {
        confirm(&confirming, confirmations).await;
    }));
    tasks.spawn(until(stop.clone(), async move {
        reporting.report_progress().await;
    }));
    if inner.cell().is_some() {
        let (attending, stop) = (of(), stop.clone());
        tasks.spawn(async move {
            // Also when another process is this cell by now: then this one has nothing left to do.
            let _ends = stop.clone().drop_guard();
            until(stop, attending.attend()).await;
        });
    }
    tasks.spawn(async move { purging.outbox.run(confirmed, stop).await });
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            error!(%error, "a part of the pipeline failed");
        }
    }
    if let Some(role) = inner.cell() {
        role.let_go().await;
    }
    info!("the pipeline stopped");
}

pub(super) async fn until(stop: CancellationToken, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = stop.cancelled() => {}
    }
}

async fn take_in(inner: &Arc<Inner>, start: Start, connect: Connect) {
    let source = connect(take_up(inner, start).await);
    let (fetched, mut batches) = mpsc::channel(BATCHES_AHEAD);
    let _fetching = AbortOnDropHandle::new(tokio::spawn(fetch(Arc::clone(inner), source, fetched)));
    let mut swept = inner.clock.now();
    let (mut interrupted, mut ahead) = (false, None);
    loop {
        let next = match ahead.take() {
            Some(next) => Some(next),
            None => batches.recv().await,
        };
        let Some(next) = next else {
            error!("the change feed ended by itself: nothing is cached any more");
            inner.state.lock().feed = false;
            return;
        };
        match next {
            Ok(batch) => {
                interrupted = false;
                let batch = with_more(batch, &mut batches, &mut ahead);
                inner.apply(batch).await;
                inner.state.lock().feed = true;
            }
            Err(SourceError::Unavailable(why)) => {
                if !interrupted {
                    warn!(why, "the change feed is interrupted");
                }
                interrupted = true;
                inner.state.lock().feed = false;
            }
            Err(SourceError::Gap(why)) => {
                warn!(why, "changes were lost: everything counts as stale");
                lose(inner).await;
            }
            Err(SourceError::Missed(why)) => match inner.cell() {
                Some(role) => {
                    warn!(
                        why,
                        "changes were missed: what this row shows counts as stale"
                    );
                    inner.lose_own_row(role).await;
                }
                None => lose(inner).await,
            },
        }
        swept = sweep(inner, swept).await;
    }
}

/// Fetches what happens, until nobody takes it. Failures are over once the feed has said how far it is complete: one that
/// opens and fails again, or loses its history again and again, is given more and more time.
async fn fetch(
    inner: Arc<Inner>,
    mut source: Box<dyn Source>,
    fetched: mpsc::Sender<Result<Batch, SourceError>>,
) {
    let mut failures = 0;
    loop {
        let next = source.next().await;
        let failed = next.is_err();
        match &next {
            Err(_) => failures += 1,
            Ok(batch) if batch.watermark.is_some() => failures = 0,
            Ok(_) => {}
        }
        if fetched.send(next).await.is_err() {
            return;
        }
        if failed {
            inner.pause(failures).await;
        }
    }
}

/// A batch, with those after it that are there already: under load many changes share the effects' round trips.
fn with_more(
    mut batch: Batch,
    batches: &mut mpsc::Receiver<Result<Batch, SourceError>>,
    ahead: &mut Option<Result<Batch, SourceError>>,
) -> Batch {
    while batch.events.len() < EVENTS_AT_ONCE_MAX {
        match batches.try_recv() {
            Ok(Ok(more)) => batch.follow_with(more),
            Ok(other) => {
                *ahead = Some(other);
                break;
            }
            Err(_) => break,
        }
    }
    batch
}

/// Opens the sketch, for as long as it takes, and takes up what it kept. Answers where the feed resumes.
async fn take_up(inner: &Inner, start: Start) -> Option<Vec<u8>> {
    inner.claim().await;
    let opened = open(inner, start).await;
    // In any case: what stays in the ledger unread would never leave it.
    let taken_up = inner.outbox.take_up().await;
    let known = match opened.earlier {
        Earlier::Nothing => true,
        Earlier::Kept(_) => taken_up,
        Earlier::Lost => false,
    };
    inner.enter(opened.epoch, !known);
    inner.begin_down().await;
    let Earlier::Kept(resume) = opened.earlier else {
        return None;
    };
    match revive(inner).await {
        Ok(revived) => {
            info!(revived, "the kept sketch is taken up");
            let mut state = inner.state.lock();
            state.taken_up = Some(inner.clock.now());
            state.repeated = known;
            drop(state);
            Some(resume)
        }
        Err(why) => {
            warn!(
                why,
                "the kept sketch is given up: everything counts as stale"
            );
            lose(inner).await;
            None
        }
    }
}

async fn open(inner: &Inner, start: Start) -> Opened {
    let mut attempt = 0;
    loop {
        match inner.sketch.open(start).await {
            Ok(opened) => return opened,
            Err(error) => {
                attempt += 1;
                if attempt == 1 {
                    warn!(%error, "the sketch cannot be opened yet");
                }
                inner.pause(attempt).await;
            }
        }
    }
}

/// Matches again what an earlier life issued copies of, before the feed resumes (rules C1, C8).
async fn revive(inner: &Inner) -> Result<usize, String> {
    let Some(name) = &inner.revive else {
        return Err("nothing tells what its keys name".to_owned());
    };
    let outstanding = inner
        .sketch
        .outstanding()
        .await
        .map_err(|error| error.to_string())?;
    let now = inner.clock.now();
    let until = now.after_ms(inner.settings.caps().span_ms() + inner.settings.registry.ticket_ms);
    for (namespace, key) in &outstanding {
        let resource = name(namespace, key).ok_or_else(|| format!("{key} names nothing"))?;
        if inner.cell().is_some_and(|role| !role.has(&resource)) {
            continue;
        }
        let revived = inner.registry.lock().revive(&resource, until, now);
        revived.map_err(|full| full.to_string())?;
    }
    Ok(outstanding.len())
}

/// C8: nothing is cached until the feed delivers again, and then in a new epoch.
async fn lose(inner: &Inner) {
    {
        let mut state = inner.state.lock();
        state.feed = false;
        state.watermark = None;
        state.losses += 1;
    }
    inner.registry.lock().forget();
    if let Some(role) = inner.cell() {
        *role.retained.lock() = Retained::default();
    }
    inner.live.lose();
    let mut attempt = 0;
    while let Err(error) = inner.begin_epoch().await {
        attempt += 1;
        warn!(%error, "no new epoch yet");
        inner.pause(attempt).await;
    }
}

async fn sweep(inner: &Inner, swept: Moment) -> Moment {
    let now = inner.clock.now();
    if now.since(swept) < SWEEP_MS {
        return swept;
    }
    let retiring = {
        let mut registry = inner.registry.lock();
        registry.sweep(now);
        registry.retiring()
    };
    inner.retire(retiring).await;
    now
}

/// Hands confirmed purges to the sketch. One that cannot be handed on leaves the long horizon (rule C3).
async fn confirm(inner: &Inner, mut confirmations: mpsc::Receiver<Vec<Confirmed>>) {
    let mut purged: HashSet<(String, u64)> = HashSet::new();
    while let Some(confirmed) = confirmations.recv().await {
        inner.outbox.settled(&confirmed).await;
        let Ok(epoch) = inner.epoch() else { continue };
        let mut keys: BTreeMap<Namespace, Vec<Purged>> = BTreeMap::new();
        for Confirmed { target, position } in confirmed {
            match target {
                Target::Resource(namespace, key) => {
                    let purge = Purged { key, position };
                    keys.entry(namespace).or_default().push(purge);
                }
                Target::Collection(_) => {}
                Target::Database(db, of) => {
                    purged.insert((db, of));
                }
            }
        }
        for (namespace, keys) in keys {
            if let Err(error) = inner.sketch.confirm_purge(epoch, &namespace, &keys).await {
                warn!(%error, "confirmed purges are not made use of");
            }
        }
        purged.retain(|(_, of)| *of == epoch);
        let databases = &inner.settings.databases;
        if !purged.is_empty()
            && databases
                .iter()
                .all(|db| purged.contains(&(db.clone(), epoch)))
        {
            purged.clear();
            whole_again(inner, epoch).await;
        }
    }
}

/// Every database was purged everywhere since the epoch began.
async fn whole_again(inner: &Inner, epoch: u64) {
    if let Err(error) = inner.sketch.confirm_saturation(epoch).await {
        warn!(%error, "the sketch stays saturated for its full time");
    }
    let mut state = inner.state.lock();
    if state.epoch.is_some_and(|current| current.number == epoch) {
        state.suspect_until = None;
    }
}
