//! Dropping what shared caches hold, by surrogate key: twice, until confirmed (rule C5). One port, an adapter for each
//! kind of cache (`docs/edges.md`).

mod akamai;
mod api;
mod backoff;
mod cloudflare;
mod delay;
mod edgegrid;
mod failing;
mod fastly;
mod lane;
pub mod ledger;
mod outbox;
pub mod port;
mod queue;
mod varnish;
mod webhook;

pub use akamai::{Akamai, AkamaiSettings};
pub use api::EdgeError;
pub use cloudflare::{Cloudflare, CloudflareSettings};
pub use fastly::{Fastly, FastlySettings};
pub use outbox::{Confirmed, EdgeStatus, Outbox, OutboxSettings};
pub use queue::{Order, QueueLimits, Target};
pub use varnish::{Varnish, VarnishSettings};
pub use webhook::{Webhook, WebhookAuth, WebhookSettings};
