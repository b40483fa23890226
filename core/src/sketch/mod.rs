//! The Expiring Bloom Filter: the set of keys of which a stale, still usable copy may exist somewhere
//! (rules C2–C4, C8). Hashing, counting and flat bits, the state machine, the wire bytes. Pure: the
//! moment is an argument, the salt is given.

pub mod counting;
pub mod hash;
pub mod machine;
pub mod recent;
mod space;
pub mod wire;

pub use machine::Limits;

/// One life of the sketch: what was issued in an earlier one is no longer accounted for (rule C8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Only grows.
    pub number: u64,
    /// The hash key of this epoch: crafted collisions die with it.
    pub salt: [u8; 16],
}
