//! The HTTP edge of Freshet: routes, the read and write paths, stores of records, the gateway's own tier,
//! configuration.

pub mod clock;
pub mod config;
pub mod error;
pub mod store;
