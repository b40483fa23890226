//! From a write to its effects: ingest, registry, matcher, sketch, purge.
//!
//! The gateway holds one [`Pipeline`]. A read begins with [`Pipeline::begin`] and ends with
//! [`Pipeline::settle`]; a change comes in through an [`ingest::port::Source`], is matched against what
//! is active, and leaves its effects in the sketch, the gateway's tier and the shared caches, in this
//! order (`docs/consistency.md`, rules C1–C8).

mod connection;
pub mod effect;
pub mod ingest;
pub mod live;
pub mod matcher;
pub mod partition;
mod pipeline;
pub mod purge;
pub mod registry;
pub mod sketch;
mod telemetry;

pub use connection::{RedisServer, RedisUrlError};
pub use matcher::{End, LOOK_AHEAD, Shape, View, Watch, Window};
pub use pipeline::{
    Answer, Connect, NotCached, Parts, Pipeline, Revive, Settings, Status, Ticket, Tier,
};
pub use registry::{Explained, Images, Join, Resource, Watched};
