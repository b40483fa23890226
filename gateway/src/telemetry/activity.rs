//! What happened lately, for the landing page: a bounded ring of events, each with a number.

use std::collections::VecDeque;

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use parking_lot::Mutex;
use serde::Serialize;

/// Events remembered.
const EVENTS_MAX: usize = 200;

/// What happened.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Event {
    /// An answer was made stale by a write.
    Invalidated {
        /// Its key.
        key: String,
    },
    /// A write was acknowledged.
    Written {
        /// The record's key.
        key: String,
        /// Its position.
        position: u64,
    },
    /// A read went to the database.
    Read {
        /// Its key.
        key: String,
        /// What `Cache-Status` said.
        status: String,
    },
}

#[derive(Clone, Debug, Serialize)]
struct Numbered {
    number: u64,
    at_ms: u64,
    #[serde(flatten)]
    event: Event,
}

/// The ring.
#[derive(Debug, Default)]
pub struct Activity {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    events: VecDeque<Numbered>,
}

impl Activity {
    /// Adds an event.
    pub fn add(&self, event: Event, at_ms: u64) {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        if state.events.len() == EVENTS_MAX {
            state.events.pop_front();
        }
        state.events.push_back(Numbered {
            number,
            at_ms,
            event,
        });
    }

    /// The events from `number` on, and the number to ask for next, as JSON.
    #[must_use]
    pub fn since(&self, number: u64) -> String {
        let state = self.state.lock();
        let events: Vec<&Numbered> = state
            .events
            .iter()
            .filter(|event| event.number >= number)
            .collect();
        serde_json::json!({ "next": state.next, "events": events }).to_string()
    }
}

/// The tier, and the page that shows what it drops.
pub struct Watched {
    /// The tier itself.
    pub tier: std::sync::Arc<crate::tier::Tier>,
    /// The ring.
    pub activity: std::sync::Arc<Activity>,
    /// For the events' times.
    pub clock: std::sync::Arc<dyn freshet_core::time::Clock>,
}

impl freshet_invalidation::Tier for Watched {
    fn drop_keys(&self, keys: &[Key]) {
        for key in keys {
            if self.tier.invalidate(key) {
                let key = key.as_str().to_owned();
                self.activity
                    .add(Event::Invalidated { key }, self.clock.wall_ms());
            }
        }
    }

    fn drop_collection(&self, namespace: &Namespace) {
        self.tier.drop_collection(namespace);
        let key = namespace.path();
        self.activity
            .add(Event::Invalidated { key }, self.clock.wall_ms());
    }

    fn drop_all(&self) {
        self.tier.drop_all();
    }
}
