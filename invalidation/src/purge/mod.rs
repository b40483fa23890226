//! Dropping what shared caches hold, by surrogate key.

pub mod port;
