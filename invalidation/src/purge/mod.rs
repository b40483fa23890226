//! Dropping what shared caches hold, by surrogate key: twice, until confirmed (rule C5).

mod backoff;
mod delay;
pub mod ledger;
mod outbox;
pub mod port;
mod queue;
mod varnish;

pub use outbox::{Confirmed, Outbox, OutboxSettings};
pub use queue::{Order, QueueLimits, Target};
pub use varnish::{Varnish, VarnishSettings};
