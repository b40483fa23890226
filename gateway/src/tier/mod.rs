//! The gateway's own cache of finished answers: a byte-bounded tier in front of the database.
//!
//! It never decides how long an answer lives; it only refuses to hand one out that was invalidated or whose
//! lifetime is over. Invalidation is a counter per slot of keys, not a removal: an entry remembers the counter that
//! it was filled under, before its read began, and is served only while the counter stands there. A slow fill that
//! arrives after its invalidation is therefore stale on arrival (C2, C5), whatever the order of the two calls.

mod coalesce;
mod entry;

pub use coalesce::{Coalescer, Leader, Role};
pub use entry::{Answer, Entry};

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use freshet_core::key::Key;
use freshet_core::time::Moment;
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// Slots for invalidation counters, a power of two. Two keys that share one are invalidated together, which
/// costs a needless miss.
const SLOTS: usize = 1 << 16;

/// What an entry weighs beyond its body: its headers and the cache's own bookkeeping, about.
const ENTRY_OVERHEAD_BYTES: u64 = 1024;

/// The tier. Share it behind an `Arc`.
pub struct Tier {
    entries: Cache<Key, Arc<Entry>, ByBytes>,
    slots: Box<[AtomicU64]>,
    everything: AtomicU64,
    entry_bytes_max: usize,
}

/// The state of a key's invalidation counters at the moment a fill began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    slot: u64,
    everything: u64,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<Key, Arc<Entry>> for ByBytes {
    fn weight(&self, key: &Key, entry: &Arc<Entry>) -> u64 {
        key.as_str().len() as u64 + entry.answer.body.len() as u64 + ENTRY_OVERHEAD_BYTES
    }
}

impl Tier {
    /// A tier of `bytes_max`; answers above `entry_bytes_max` are not kept.
    #[must_use]
    pub fn new(bytes_max: u64, entry_bytes_max: usize) -> Tier {
        let items = usize::try_from(bytes_max / 4096).unwrap_or(usize::MAX).max(16);
        Tier {
            entries: Cache::with_weighter(items, bytes_max, ByBytes),
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
            everything: AtomicU64::new(0),
            entry_bytes_max,
        }
    }

    /// The entry under exactly this text, if it may be served now.
    #[must_use]
    pub fn get(&self, key: &str, now: Moment) -> Option<Arc<Entry>> {
        let entry = self.entries.get(key)?;
        let current = self.generation(&entry.base) == entry.generation;
        (current && entry.is_fresh(now)).then_some(entry)
    }

    /// The generation of a base key (a record's key without parameters, a query's key). Taken before the read.
    #[must_use]
    pub fn generation(&self, base: &str) -> Generation {
        Generation {
            slot: self.slot(base).load(Ordering::Acquire),
            everything: self.everything.load(Ordering::Acquire),
        }
    }

    /// Keeps an entry, unless it is too large or was invalidated since its generation was taken.
    pub fn put(&self, key: Key, entry: Arc<Entry>) {
        if entry.answer.body.len() > self.entry_bytes_max || self.entries.capacity() == 0 {
            return;
        }
        if self.generation(&entry.base) == entry.generation {
            self.entries.insert(key, entry);
        }
    }

    /// From now on, no entry of this base key that was filled before is served.
    pub fn invalidate(&self, base: &str) {
        self.slot(base).fetch_add(1, Ordering::AcqRel);
        self.entries.remove(base);
    }

    /// From now on, nothing that was filled before is served (C8).
    pub fn invalidate_all(&self) {
        self.everything.fetch_add(1, Ordering::AcqRel);
        self.entries.clear();
    }

    /// Entries and bytes held.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.entries.weight())
    }

    fn slot(&self, base: &str) -> &AtomicU64 {
        // FNV-1a: well spread over the low bits, and nothing an attacker gains from colliding but misses.
        let hash = base.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        #[allow(clippy::cast_possible_truncation)]
        &self.slots[(hash ^ (hash >> 32)) as usize % SLOTS]
    }
}
