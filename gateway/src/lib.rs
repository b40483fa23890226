//! The HTTP edge of Freshet.

pub mod store;
