//! The HTTP edge of Freshet: routes, the read and write paths, the gateway's own tier, configuration.

pub mod clock;
pub mod config;
