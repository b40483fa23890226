//! Where changes come from.

pub mod mongo;
pub mod port;
