//! Sessions kept for the next request.
//!
//! The driver makes a session for every operation and spawns two tasks to clean up after it. A read through
//! the gateway is one round trip, so that shows: a session that ended well is used again. One that saw an
//! error, or whose request was dropped half-way, is not: what the server holds for it is unknown.

use std::sync::Arc;

use freshet_core::time::{Clock, Moment};
use mongodb::{Client, ClientSession};
use parking_lot::Mutex;

use super::super::port::StoreError;
use super::error::translate;

/// A server forgets a session after 30 minutes without use; well before that, it is let go.
const IDLE_MS_MAX: u64 = 10 * 60 * 1000;

/// Idle sessions, the one used last on top.
pub(super) struct Sessions {
    client: Client,
    clock: Arc<dyn Clock>,
    idle: Mutex<Vec<(ClientSession, Moment)>>,
    idle_max: usize,
}

impl Sessions {
    pub(super) fn new(client: Client, clock: Arc<dyn Clock>, idle_max: u32) -> Sessions {
        Sessions {
            client,
            clock,
            idle: Mutex::new(Vec::new()),
            idle_max: idle_max as usize,
        }
    }

    /// A causally consistent session, used by nobody else.
    pub(super) async fn take(&self) -> Result<ClientSession, StoreError> {
        if let Some(session) = self.take_idle() {
            return Ok(session);
        }
        self.client
            .start_session()
            .causal_consistency(true)
            .await
            .map_err(translate)
    }

    /// Gives back a session whose last operation succeeded and that has no transaction open.
    pub(super) fn give_back(&self, session: ClientSession) {
        let now = self.clock.now();
        let mut idle = self.idle.lock();
        if idle.len() < self.idle_max {
            idle.push((session, now));
        }
    }

    fn take_idle(&self) -> Option<ClientSession> {
        let now = self.clock.now();
        let (session, expired) = {
            let mut idle = self.idle.lock();
            match idle.pop() {
                Some((session, used)) if now.since(used) < IDLE_MS_MAX => {
                    (Some(session), Vec::new())
                }
                // Everything below was used even longer ago.
                Some(_) => (None, std::mem::take(&mut *idle)),
                None => (None, Vec::new()),
            }
        };
        drop(expired);
        session
    }
}
