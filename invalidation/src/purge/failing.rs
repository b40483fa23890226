//! Says when a node begins to fail and when that is over, and nothing in between: it is asked many times a second.

use freshet_core::time::Moment;
use tracing::{debug, info, warn};

use super::port::PurgeError;

/// Since when a node makes no purge, and after how many requests.
#[derive(Debug, Default)]
pub(super) struct Failing(Option<(Moment, u64)>);

impl Failing {
    pub(super) fn tell(&mut self, node: &str, purged: &Result<(), PurgeError>, now: Moment) {
        match (purged, &mut self.0) {
            (Ok(()), None) => {}
            (Ok(()), Some((since, requests))) => {
                let for_ms = now.since(*since);
                info!(node, requests, for_ms, "purges are made again");
                self.0 = None;
            }
            (Err(error), None) => {
                warn!(node, %error, "a purge failed; trying until it is made");
                self.0 = Some((now, 1));
            }
            (Err(error), Some((_, requests))) => {
                debug!(node, %error, "a purge failed");
                *requests += 1;
            }
        }
    }
}
