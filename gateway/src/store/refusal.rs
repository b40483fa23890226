//! Why a store says no: one word per reason, the same for both adapters.

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No database to be reached, or none that takes writes.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// It took longer, or would have looked at more, than is permitted.
    #[error("the database did not answer within its limit: {0}")]
    Timeout(String),
    /// A record with this `_id` exists.
    #[error("a record with this _id exists")]
    DuplicateId,
    /// Another unique index has this value already.
    #[error("a record with this value of a unique field exists")]
    DuplicateValue,
    /// The document or the answer is larger than the database can carry (16 MiB).
    #[error("the document is too large")]
    TooLarge,
    /// The collection's validation refused the document.
    #[error("the collection's validation refused the document")]
    Rejected,
    /// Other writers kept getting in between.
    #[error("other writers kept changing what this write depends on")]
    Conflict,
    /// This store cannot do it.
    #[error("this store cannot do that: {0}")]
    Unsupported(String),
    /// The request makes no sense to the database.
    #[error("{0}")]
    BadRequest(String),
    /// The credentials do not permit it.
    #[error("the database refused the gateway's credentials: {0}")]
    Forbidden(String),
    /// Anything else: a fault here or there.
    #[error("the store failed: {0}")]
    Internal(String),
}
