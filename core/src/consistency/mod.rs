//! What a client does between a call and an answer, so that the promise of the coherence contract holds (C6–C13): which
//! caches may answer a read, and what of an answer may be shown. `sdk-ts/SPEC.md` is the specification; the SDK is the
//! same in TypeScript, and the names here are its names.
//!
//! For simulated and measured clients in Rust. Not here, though the SDK has them: the store of records that answers
//! embedded or own writes left (C4), reads that join a request on its way (I16), the order of writes (I17), the spelling
//! of keys (`crate::query`), and the clock that counts sleep. Requests are the caller's.

mod decide;
mod held;
mod refresh;
mod session;

pub use decide::{Decision, Mode, Policy, Reason, Target, decide};
pub use held::Held;
pub use refresh::{Refresh, refresh_due};
pub use session::{KNOWN_KEYS_MAX, Known, Session};
