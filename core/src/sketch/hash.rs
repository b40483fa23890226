//! Where a key sits in the bits: SipHash-2-4 under the epoch's salt, then k positions from its two
//! halves by enhanced double hashing. Every step is exact in JavaScript numbers, so the SDK computes
//! the same positions (`docs/protocol.md`, "The sketch").

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

/// The two halves of a key's hash. Independent of m, so a filter can grow without knowing its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Halves {
    /// The low 32 bits.
    pub a: u32,
    /// The high 32 bits, lowest bit set.
    pub b: u32,
}

impl Halves {
    /// Hashes the key's UTF-8 bytes under `salt`.
    #[must_use]
    pub fn of(key: &str, salt: &[u8; 16]) -> Halves {
        let mut hasher = SipHasher24::new_with_key(salt);
        hasher.write(key.as_bytes());
        let hash = hasher.finish();
        #[allow(clippy::cast_possible_truncation)]
        Halves {
            a: hash as u32,
            b: (hash >> 32) as u32 | 1,
        }
    }

    /// The positions `(a + i·b + (i³ − i)/6) mod m` for i in 0..k, without wrap-around.
    pub fn positions(self, m: u32, k: u8) -> impl Iterator<Item = u32> {
        let m = u64::from(m.max(1));
        (0..u64::from(k)).map(move |i| {
            let sum = u64::from(self.a) + i * u64::from(self.b) + (i * i * i - i) / 6;
            #[allow(clippy::cast_possible_truncation)] // below m, which is a u32
            {
                (sum % m) as u32
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siphash_reference_vector() {
        // SipHash-2-4 paper, appendix A: key 00..0f, message 00..0e.
        let salt: [u8; 16] = std::array::from_fn(|i| i as u8);
        let message: String = (0u8..15).map(char::from).collect();
        let halves = Halves::of(&message, &salt);
        assert_eq!(halves.a, 0x49be_45e5);
        assert_eq!(halves.b, 0xa129_ca61 | 1);
    }

    #[test]
    fn positions_follow_the_formula_without_wrapping() {
        let halves = Halves {
            a: u32::MAX,
            b: u32::MAX,
        };
        let m = 116_800u64;
        let expected: Vec<u32> = [0u64, 1, 2, 3]
            .map(|i| {
                let cube = if i == 0 { 0 } else { (i * i * i - i) / 6 };
                ((0xffff_ffffu64 + i * 0xffff_ffff + cube) % m) as u32
            })
            .to_vec();
        let got: Vec<u32> = halves.positions(116_800, 4).collect();
        assert_eq!(got, expected);
    }
}
