//! The sketch behind one port: in process, or in Redis. One suite of tests holds for both.

mod epoch;
mod local;
pub mod port;
mod redis;

pub use self::epoch::Entropy;
pub use self::local::LocalSketch;
pub use self::redis::{RedisSettings, RedisSketch};
