//! What happened to each cached query since its record was last written, and when.

use std::collections::HashMap;
use std::sync::Arc;

use freshet_core::freshness::{ResourceKind, SurrogateKey};
use freshet_core::key::Key;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::monotonic::Monotonic;

/// A query, by the number of the one record that it shows.
pub(super) type Number = u32;

/// One write's way. Microseconds on the process's clock.
#[derive(Clone, Copy, Debug, Default)]
struct Round {
    written: bool,
    acknowledged: Option<u64>,
    event: Option<u64>,
    reported: Option<u64>,
    purged: Option<u64>,
}

/// Where times go.
pub(super) struct Rounds {
    clock: Arc<Monotonic>,
    rounds: Mutex<Vec<Round>>,
    by_key: HashMap<Key, Number>,
    by_surrogate: HashMap<SurrogateKey, Number>,
    times: Mutex<Times>,
    /// Queries whose copies are stale and purged: they are read again.
    done: mpsc::UnboundedSender<Number>,
}

/// From the acknowledgement on, in microseconds.
pub(super) struct Times {
    pub(super) to_event: Histogram<u64>,
    pub(super) to_sketch: Histogram<u64>,
    pub(super) to_purged: Histogram<u64>,
    /// From the bare event to the sketch.
    pub(super) overhead: Histogram<u64>,
}

impl Times {
    fn new() -> anyhow::Result<Times> {
        Ok(Times {
            to_event: Histogram::new(3)?,
            to_sketch: Histogram::new(3)?,
            to_purged: Histogram::new(3)?,
            overhead: Histogram::new(3)?,
        })
    }
}

impl Rounds {
    pub(super) fn new(
        clock: Arc<Monotonic>,
        keys: &[Key],
        done: mpsc::UnboundedSender<Number>,
    ) -> anyhow::Result<Rounds> {
        let numbered = || (0..).zip(keys);
        let surrogate = |key| SurrogateKey::resource(ResourceKind::Query, key);
        Ok(Rounds {
            clock,
            rounds: Mutex::new(vec![Round::default(); keys.len()]),
            by_key: numbered().map(|(n, key)| (key.clone(), n)).collect(),
            by_surrogate: numbered().map(|(n, key)| (surrogate(key), n)).collect(),
            times: Mutex::new(Times::new()?),
            done,
        })
    }

    /// Begins to measure anew; what was measured so far.
    pub(super) fn take(&self) -> anyhow::Result<Times> {
        Ok(std::mem::replace(&mut *self.times.lock(), Times::new()?))
    }

    pub(super) fn begin(&self, number: Number) {
        self.rounds.lock()[number as usize] = Round {
            written: true,
            ..Round::default()
        };
    }

    pub(super) fn acknowledged(&self, number: Number) {
        self.note(number, |round, now| round.acknowledged = Some(now));
    }

    pub(super) fn event(&self, number: Number) {
        self.note(number, |round, now| round.event = Some(now));
    }

    pub(super) fn reported(&self, key: &Key) {
        if let Some(number) = self.by_key.get(key) {
            self.note(*number, |round, now| {
                round.reported.get_or_insert(now);
            });
        }
    }

    /// A purge that was sent at `sent` is done.
    pub(super) fn purged(&self, surrogate: &SurrogateKey, sent: u64) {
        if let Some(number) = self.by_surrogate.get(surrogate) {
            self.note(*number, |round, now| {
                if round.reported.is_some_and(|reported| reported <= sent) {
                    round.purged.get_or_insert(now);
                }
            });
        }
    }

    /// Now.
    pub(super) fn us(&self) -> u64 {
        self.clock.us()
    }

    /// Writes that are under way, and those of them that the sketch has not heard of.
    pub(super) fn open(&self) -> (usize, usize) {
        let rounds = self.rounds.lock();
        let open = rounds.iter().filter(|round| round.written);
        let unheard = open.clone().filter(|round| round.reported.is_none());
        (open.count(), unheard.count())
    }

    fn note(&self, number: Number, what: impl FnOnce(&mut Round, u64)) {
        let now = self.us();
        let mut rounds = self.rounds.lock();
        let round = &mut rounds[number as usize];
        if !round.written {
            return;
        }
        what(round, now);
        let Round {
            acknowledged: Some(acknowledged),
            event: Some(event),
            reported: Some(reported),
            purged: Some(purged),
            ..
        } = *round
        else {
            return;
        };
        *round = Round::default();
        drop(rounds);
        let mut times = self.times.lock();
        // What is there before the acknowledgement took no time.
        let after = |end: u64| end.saturating_sub(acknowledged).max(1);
        let _ = times.to_event.record(after(event));
        let _ = times.to_sketch.record(after(reported));
        let _ = times.to_purged.record(after(purged));
        let _ = times.overhead.record(reported.saturating_sub(event).max(1));
        // The one who reads again ends last.
        let _ = self.done.send(number);
    }
}
