//! The pure domain of Freshet: what a value, a query and a change are, which queries a change
//! touches, how long an answer may live and which headers say so.
//!
//! Nothing here does I/O, reads a clock or draws random numbers: time and randomness are arguments.

pub mod aggregate;
pub mod change;
pub mod consistency;
pub mod freshness;
pub mod key;
pub mod name;
pub mod notification;
pub mod predicate;
pub mod query;
pub mod sketch;
pub mod time;
pub mod ttl;
pub mod update;
pub mod value;
