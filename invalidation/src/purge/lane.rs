//! What the queue knows of a node as a whole: how long orders wait there for company, whether it works, and whether it
//! asked to be left alone (429 and 503 with `Retry-After`, RFC 9110 §10.2.3).

use freshet_core::time::Moment;

use super::backoff::Backoff;
use super::queue::Outcome;

#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    /// Orders wait so long for others to go with them, milliseconds.
    pub(super) coalesce_ms: u64,
    /// Nothing is sent before.
    pub(super) quiet_until: Moment,
    /// Since when every request has failed.
    pub(super) failing_since: Option<Moment>,
    refusals: u32,
}

/// The longest that a node's own word is taken for how long to leave it alone, milliseconds: what is not purged
/// meanwhile is stale.
const QUIET_MS_MAX: u64 = 30_000;

impl Lane {
    pub(super) fn new(coalesce_ms: u64) -> Lane {
        Lane {
            coalesce_ms,
            quiet_until: Moment(0),
            failing_since: None,
            refusals: 0,
        }
    }

    /// A request ended.
    pub(super) fn note(&mut self, outcome: Outcome, backoff: &mut Backoff, now: Moment) {
        match outcome {
            Outcome::Purged => {
                self.failing_since = None;
                self.refusals = 0;
                return;
            }
            Outcome::Failed => {}
            Outcome::Busy(asked_ms) => {
                self.refusals += 1;
                let least = backoff.delay_ms(self.refusals);
                let quiet = asked_ms.unwrap_or(0).min(QUIET_MS_MAX).max(least);
                self.quiet_until = now.after_ms(quiet);
            }
        }
        self.failing_since.get_or_insert(now);
    }
}
