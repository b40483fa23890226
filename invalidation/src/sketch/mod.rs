//! The sketch behind one port: in process, or in Redis.

pub mod port;
