//! The ledger: purges that are ordered and not confirmed, kept where they outlive the process. A process that comes
//! back takes them up, instead of purging whole databases for fear of what it had not purged yet (rules C5, C8).
//!
//! An order is in the ledger before the change feed's token that lies beyond its change is kept: what was ordered and
//! not noted is ordered again when the change comes a second time.

mod entry;
mod file;
mod open;
mod redis;

use async_trait::async_trait;

use super::outbox::Confirmed;
use super::queue::Order;

pub use file::FileLedger;
pub use redis::{RedisLedger, RedisLedgerSettings};

/// A ledger, of one process.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// What an earlier life of this process left.
    ///
    /// # Errors
    /// Nothing is known of it then.
    async fn take_up(&self) -> Result<Vec<Order>, LedgerError>;

    /// Notes orders. Returns when they are kept. An order of a collection or a database takes the place of those within it.
    ///
    /// # Errors
    /// They may or may not be noted; noting them again does no harm.
    async fn note(&self, orders: &[Order]) -> Result<(), LedgerError>;

    /// These are confirmed, up to their positions; and with a collection or a database, all within it.
    ///
    /// # Errors
    /// They stay, and are purged once more by a later life.
    async fn confirm(&self, confirmed: &[Confirmed]) -> Result<(), LedgerError>;
}

/// Why nothing was noted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ledger of purges is unavailable: {0}")]
pub struct LedgerError(pub String);

impl LedgerError {
    fn of(why: impl std::fmt::Display) -> LedgerError {
        LedgerError(why.to_string())
    }
}
