//! The purge port: one shared cache that drops what is tagged with a surrogate key.

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;

/// The most keys in one purge (Fastly's limit; Varnish's header limit is far above).
pub const PURGE_KEYS_MAX: usize = 256;

/// One node that purges for itself, or one CDN that spreads a purge to its nodes.
#[async_trait]
pub trait Purger: Send + Sync {
    /// For logs and metrics.
    fn name(&self) -> &str;

    /// Drops everything tagged with any of `keys` (at most [`PURGE_KEYS_MAX`]), hard: no grace. Returns
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
}
