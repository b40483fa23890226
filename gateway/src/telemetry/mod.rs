//! What the gateway says about itself: metrics, logs, lately's events.

pub mod activity;
pub mod log;
pub mod metrics;
