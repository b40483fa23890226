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
use freshet_core::name::Namespace;
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

/// The state of a key's invalidation at the moment a fill began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Generation {
    key: Counter,
    collection: Counter,
    everything: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counter {
    slot: usize,
    value: u64,
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
        let items = usize::try_from(bytes_max / 4096)
            .unwrap_or(usize::MAX)
            .clamp(16, 1 << 20);
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
        (self.is_current(&entry.generation) && entry.is_fresh(now)).then_some(entry)
    }

    /// The generation of a key. Taken before the read begins.
    #[must_use]
    pub fn generation(&self, namespace: &Namespace, key: &Key) -> Generation {
        let count = |slot: usize| Counter {
            slot,
            value: self.slots[slot].load(Ordering::Acquire),
        };
        Generation {
            key: count(slot_of(base(key.as_str()))),
            collection: count(slot_of(&namespace.path())),
            everything: self.everything.load(Ordering::Acquire),
        }
    }

    /// Keeps an entry, unless it is too large or was invalidated since its generation was taken.
    pub fn put(&self, key: Key, entry: Arc<Entry>) {
        if entry.answer.body.len() <= self.entry_bytes_max && self.is_current(&entry.generation) {
            self.entries.insert(key, entry);
        }
    }

    /// From now on, nothing of this key that was filled before is served. A record's key stands for all its
    /// representations. Says whether the key itself was held.
    pub fn invalidate(&self, key: &Key) -> bool {
        self.slots[slot_of(base(key.as_str()))].fetch_add(1, Ordering::AcqRel);
        self.entries.remove(key.as_str()).is_some()
    }

    /// The same for everything of a collection.
    pub fn invalidate_collection(&self, namespace: &Namespace) {
        let path = namespace.path();
        self.slots[slot_of(&path)].fetch_add(1, Ordering::AcqRel);
        let below = format!("{path}/");
        let query = format!("{path}?");
        self.entries.retain(|key, _| {
            let key = key.as_str();
            !(key == path || key.starts_with(&below) || key.starts_with(&query))
        });
    }

    /// The same for everything (C8).
    pub fn invalidate_all(&self) {
        self.everything.fetch_add(1, Ordering::AcqRel);
        self.entries.clear();
    }

    /// Entries and bytes held.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        (self.entries.len(), self.entries.weight())
    }

    fn is_current(&self, generation: &Generation) -> bool {
        let stands =
            |counter: Counter| self.slots[counter.slot].load(Ordering::Acquire) == counter.value;
        stands(generation.key)
            && stands(generation.collection)
            && self.everything.load(Ordering::Acquire) == generation.everything
    }
}

impl freshet_invalidation::Tier for Tier {
    fn drop_keys(&self, keys: &[Key]) {
        for key in keys {
            self.invalidate(key);
        }
    }

    fn drop_collection(&self, namespace: &Namespace) {
        self.invalidate_collection(namespace);
    }

    fn drop_all(&self) {
        self.invalidate_all();
    }
}

/// What a key's invalidation is counted by: a record's path whatever the representation, else the whole key.
fn base(key: &str) -> &str {
    let path = key.split('?').next().unwrap_or(key);
    let mut segments = path.split('/').skip(4);
    match (segments.next(), segments.next()) {
        (Some(id), None) if !id.starts_with('_') => path,
        _ => key,
    }
}

/// FNV-1a: well spread, and all that an attacker gains from colliding keys is misses.
fn slot_of(text: &str) -> usize {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    #[allow(clippy::cast_possible_truncation)]
    let folded = (hash ^ (hash >> 32)) as usize;
    folded % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use freshet_core::freshness::{Edge, Lifetimes, ResourceKind, etag, resource_surrogates};
    use freshet_core::time::{Position, Ttl};

    fn namespace() -> Namespace {
        Namespace::new("db", "c").expect("valid")
    }

    fn entry(generation: Generation, m: u32, s: u32) -> Arc<Entry> {
        let answer = Answer {
            headers: http::HeaderMap::new(),
            body: Bytes::from_static(b"{}"),
            etag: etag(b"{}"),
            position: Position(1),
        };
        let lifetimes = Lifetimes {
            m: Ttl(m),
            s: Ttl(s),
        };
        let key = namespace().record_key("1");
        let keys = resource_surrogates(ResourceKind::Record, &namespace(), &key);
        Arc::new(Entry::new(answer, keys, lifetimes, Moment(0), generation))
    }

    #[test]
    fn c2_a_slow_fill_does_not_outlive_its_invalidation() {
        let tier = Tier::new(1 << 20, 1 << 20);
        let key = Key::from("/v1/db/c?limit=5");
        let before = tier.generation(&namespace(), &key);
        tier.invalidate(&key);
        tier.put(key.clone(), entry(before, 10, 10));
        assert!(tier.get(key.as_str(), Moment(0)).is_none());
        tier.put(
            key.clone(),
            entry(tier.generation(&namespace(), &key), 10, 10),
        );
        assert!(tier.get(key.as_str(), Moment(0)).is_some());
    }

    #[test]
    fn a_record_is_invalidated_in_all_its_representations_and_a_collection_as_a_whole() {
        let tier = Tier::new(1 << 20, 1 << 20);
        let keys = [
            "/v1/db/c/1",
            "/v1/db/c/1?fields=a",
            "/v1/db/c/2",
            "/v1/db/c?limit=1",
            "/v1/db/c/_count",
        ];
        let fill = || {
            for key in keys.map(Key::from) {
                tier.put(
                    key.clone(),
                    entry(tier.generation(&namespace(), &key), 10, 10),
                );
            }
        };
        let held = || keys.map(|key| tier.get(key, Moment(0)).is_some());
        fill();
        tier.invalidate(&Key::from("/v1/db/c/1"));
        assert_eq!(held(), [false, false, true, true, true]);
        fill();
        tier.invalidate_collection(&namespace());
        assert_eq!(held(), [false; 5]);
        fill();
        tier.invalidate_all();
        assert_eq!(held(), [false; 5]);
    }

    #[test]
    fn c3_lifetimes_run_down_from_the_moment_of_issue() {
        let tier = Tier::new(1 << 20, 1 << 20);
        let key = Key::from("/v1/db/c");
        tier.put(
            key.clone(),
            entry(tier.generation(&namespace(), &key), 3, 60),
        );
        let served = |ms| {
            let entry = tier.get("/v1/db/c", Moment(ms))?;
            Some(entry.caching(Moment(ms), &[], true)[0].1.clone())
        };
        assert_eq!(served(0).expect("fresh"), "public, max-age=3, s-maxage=60");
        assert_eq!(served(1).expect("fresh"), "public, max-age=2, s-maxage=59");
        assert_eq!(
            served(2000).expect("fresh"),
            "public, max-age=1, s-maxage=58"
        );
        assert!(served(2001).is_none());
    }

    #[test]
    fn c3_shared_caches_are_given_nothing_while_one_of_them_cannot_be_purged() {
        let lived = |m, s, ms, shares| {
            let generation = Tier::new(1, 1).generation(&namespace(), &Key::from("/v1/db/c"));
            let entry = entry(generation, m, s);
            let fields = entry.caching(Moment(ms), &[Edge::Fastly, Edge::Varnish], shares);
            let text = |(name, value): &(http::HeaderName, http::HeaderValue)| {
                format!("{name}: {}", value.to_str().expect("text"))
            };
            let fields: Vec<String> = fields.iter().map(text).collect();
            (entry.is_fresh(Moment(ms)), fields)
        };
        let (fresh, fields) = lived(3, 60, 1_000, false);
        assert!(fresh);
        assert_eq!(fields[0], "cache-control: public, max-age=2, s-maxage=0");
        assert_eq!(fields[1], "surrogate-control: max-age=0");
        assert_eq!(
            lived(3, 60, 1_000, true).1[1],
            "surrogate-control: max-age=59"
        );
        // What was settled without S lives in the tier as long as M.
        assert!(lived(3, 0, 1_000, true).0 && !lived(3, 0, 3_000, true).0);
        let nobody = vec!["cache-control: private, no-store, max-age=0".to_owned()];
        assert_eq!(lived(0, 60, 1_000, false).1, nobody);
    }
}
