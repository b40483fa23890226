//! Where records live: the port that the gateway reads and writes through, and its two adapters.
//!
//! Nothing outside this module knows which database answers. Both adapters pass one conformance suite
//! (`tests/store_conformance.rs`), and a read's position means the same in both: a lower bound that was
//! committed before the read began (rule C1).

mod check;
mod documents;
mod embedded;
mod mongo;
mod port;
mod refusal;
mod transaction;

pub use check::DOCUMENT_BYTES_MAX;
pub use embedded::{EmbeddedOptions, EmbeddedStore};
pub use mongo::{MongoOptions, MongoStore};
pub use port::{
    Answer, Counted, Decide, DecideRecord, Decision, Documents, Find, Found, Got, Images, Modified,
    OwnedFind, Read, Refused, Store, StoreError, Transacted, Write, Written,
};
