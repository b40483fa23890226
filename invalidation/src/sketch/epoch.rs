//! New epochs: numbers that grow even when everything was forgotten, and salts nobody can foresee.

use freshet_core::key::KeyHash;
use freshet_core::sketch::Epoch;

/// What the shell drew once, at start, from the system's generator.
#[derive(Clone, Copy)]
pub struct Entropy(pub [u8; 32]);

impl Entropy {
    /// An epoch after `last`. The wall clock makes the number differ from those of forgotten lives; it is
    /// a name, not a measure of freshness.
    pub(super) fn epoch_after(&self, last: u64, wall_ms: u64) -> Epoch {
        let number = wall_ms.max(last.saturating_add(1));
        let mut seed = self.0.to_vec();
        seed.extend_from_slice(&number.to_le_bytes());
        Epoch {
            number,
            salt: KeyHash::of(&seed).0,
        }
    }
}
