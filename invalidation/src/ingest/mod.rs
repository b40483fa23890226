//! Where changes come from.

pub mod port;
