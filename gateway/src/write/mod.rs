//! Writes: what is to change, under which condition, and the path from the request to the acknowledgement.

pub mod body;
pub mod change;
pub mod idempotency;
pub mod path;
pub mod plan;
pub mod precondition;
