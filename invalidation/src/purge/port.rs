//! The purge port: one shared cache that drops what is tagged with a surrogate key.

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;

/// The most keys in one purge, unless the cache says otherwise (Fastly's limit; Varnish's header limit is far above).
pub const PURGE_KEYS_MAX: usize = 256;

/// One node that purges for itself, or one CDN that spreads a purge to its nodes.
#[async_trait]
pub trait Purger: Send + Sync {
    /// For logs and metrics.
    fn name(&self) -> &str;

    /// The most keys in one purge.
    fn keys_max(&self) -> usize {
        PURGE_KEYS_MAX
    }

    /// How long orders wait for others to go with them, milliseconds: the fewer requests a cache allows, the longer.
    fn coalesce_ms(&self) -> u64 {
        2
    }

    /// How long a purge takes as a rule, milliseconds.
    fn purge_ms(&self) -> u64 {
        250
    }

    /// Drops everything tagged with any of `keys` (at most [`Purger::keys_max`]), hard: no grace. Returns
    /// only when the node has done it.
    ///
    /// # Errors
    /// Nothing may be assumed then; the caller repeats.
    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError>;
}

/// Why a purge is not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PurgeError {
    /// No connection, or no answer in time.
    #[error("the cache cannot be reached: {0}")]
    Unreachable(String),
    /// An answer other than "done".
    #[error("the cache answered {0}")]
    Refused(u16),
    /// 429 or 503: later, and when, if it said so.
    #[error("the cache answered {status}, to ask again later")]
    Busy {
        /// The status.
        status: u16,
        /// `Retry-After`, milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// A success by its status, but not by what it says.
    #[error("the cache does not confirm the purge: {0}")]
    Unconfirmed(&'static str),
}
