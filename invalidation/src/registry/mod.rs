//! What is active and how it is matched.

mod watched;

pub use watched::{Images, Matches, Order, Resource, Watched};
