//! Stored queries at hand: those asked for lately, read from the database once a minute. A query under a hash never
//! changes; that it was deleted is heard of when its time is up.

use std::sync::Arc;

use freshet_core::time::{Moment, Position};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

use super::{Stored, place};
use crate::error::Problem;
use crate::store::Store;

/// How long a query is believed to be still stored, in milliseconds.
const KNOWN_MS: u64 = 60_000;
/// Memory for queries at hand, about.
const BYTES_MAX: u64 = 16 << 20;
/// Queries at hand, about.
const QUERIES: usize = 4_096;
/// A query that was parsed takes so many times the bytes of its text, about, and so many beyond.
const PARSED_TIMES: u64 = 6;
const OVERHEAD_BYTES: u64 = 512;

/// The queries at hand.
pub struct Shelf {
    known: Cache<String, Known, ByBytes>,
}

#[derive(Clone)]
struct Known {
    stored: Arc<Stored>,
    until: Moment,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<String, Known> for ByBytes {
    fn weight(&self, _: &String, known: &Known) -> u64 {
        known.stored.key.as_str().len() as u64 * PARSED_TIMES + OVERHEAD_BYTES
    }
}

impl Default for Shelf {
    fn default() -> Shelf {
        Shelf {
            known: Cache::with_weighter(QUERIES, BYTES_MAX, ByBytes),
        }
    }
}

impl Shelf {
    /// The query under a hash, if one is stored.
    ///
    /// # Errors
    /// The store's.
    pub async fn find(
        &self,
        store: &dyn Store,
        (db, hash): (&str, &str),
        at_least: Position,
        now: Moment,
    ) -> Result<Option<Arc<Stored>>, Problem> {
        let name = name(db, hash);
        if let Some(known) = self.known.get(&name)
            && now < known.until
        {
            return Ok(Some(known.stored));
        }
        let id = bson::RawBsonRef::String(hash);
        let got = store.get(&place(db)?, id, at_least).await?;
        let stored = got
            .document
            .and_then(|record| Stored::of_record(db, hash, &record))
            .map(Arc::new);
        match &stored {
            Some(stored) => {
                let known = Known {
                    stored: Arc::clone(stored),
                    until: now.after_ms(KNOWN_MS),
                };
                self.known.insert(name, known);
            }
            None => {
                self.known.remove(&name);
            }
        }
        Ok(stored)
    }

    /// It is not stored any more.
    pub fn forget(&self, db: &str, hash: &str) {
        self.known.remove(&name(db, hash));
    }
}

fn name(db: &str, hash: &str) -> String {
    format!("{db}/{hash}")
}
