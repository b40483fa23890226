//! The HTTP edge of Freshet: routes, the read and write paths, stores of records, the gateway's own tier,
//! configuration.

pub mod admission;
pub mod app;
pub mod assemble;
pub mod auth;
pub mod cli;
pub mod clock;
pub mod command;
pub mod config;
pub mod edges;
pub mod error;
pub mod handle;
pub mod import;
pub mod live;
pub mod ops;
pub mod preflight;
pub mod read;
pub mod respond;
pub mod route;
pub mod server;
pub mod store;
pub mod stored;
pub mod telemetry;
pub mod tier;
pub mod write;
