//! What the pipeline knows of itself: whether changes come in, whether effects get through, how far.

use freshet_core::sketch::Epoch;
use freshet_core::sketch::wire::INVALIDATION_UNBOUNDED_MS;
use freshet_core::time::{Moment, Position};

use crate::ingest::port::Watermark;
use crate::pipeline::NotCached;

/// The state. Small, copied out under a short lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    /// The sketch's epoch; none before it was opened.
    pub(super) epoch: Option<Epoch>,
    /// The sketch took the last operation, and this process's report in this epoch.
    pub(super) sketch: bool,
    /// The change feed delivers.
    pub(super) feed: bool,
    /// What is proved, with its effects in the sketch.
    pub(super) watermark: Option<Watermark>,
    /// Shared caches may hold what an earlier life of the sketch did not purge, at most until then.
    pub(super) suspect_until: Option<Moment>,
    /// How often changes were lost: what was matched before says nothing after.
    pub(super) losses: u64,
    /// When an earlier life's state was taken up, and whether the changes that come may be ones that it had begun with.
    pub(super) taken_up: Option<Moment>,
    pub(super) repeated: bool,
    /// How long purges take, as cells report it.
    pub(super) purge_ms: u32,
    /// The last sketch that was given out was saturated.
    pub(super) saturated: bool,
}

impl State {
    /// How old the watermark is.
    pub(super) fn age_ms(&self, now: Moment) -> Option<u64> {
        self.watermark.map(|watermark| now.since(watermark.as_of))
    }

    /// The epoch to cache under, or why nothing is cached now (rules C7, C16).
    pub(super) fn admits(&self, age_ms_max: u64, now: Moment) -> Result<u64, NotCached> {
        let Some(epoch) = self.epoch.filter(|_| self.sketch) else {
            return Err(NotCached::SketchUnavailable);
        };
        match self.age_ms(now) {
            Some(age) if self.feed && age <= age_ms_max => Ok(epoch.number),
            _ => Err(NotCached::MatcherBehind),
        }
    }

    /// Δ_inv: from the acknowledgement of a write to the confirmation of its purge. The change is seen when
    /// the watermark has passed it; `purge_ms` is counted from there.
    pub(super) fn invalidation_ms(&self, purge_ms: u32, now: Moment) -> u32 {
        if self.suspect_until.is_some_and(|until| now < until) {
            return INVALIDATION_UNBOUNDED_MS;
        }
        let age = self.age_ms(now).and_then(|age| u32::try_from(age).ok());
        age.map_or(INVALIDATION_UNBOUNDED_MS, |age| {
            purge_ms.saturating_add(age)
        })
    }

    pub(super) fn position(&self) -> Position {
        self.watermark.map_or(Position::ZERO, |w| w.position)
    }
}
