//! The sketch's wire bytes: a 56-byte little-endian header, then the flat bits, bit i at
//! `byte[i/8] >> (i%8) & 1` (`docs/protocol.md`, "The sketch"). Encodes and decodes; decides nothing.

use bytes::{BufMut, Bytes, BytesMut};

use super::Epoch;
use super::hash::Halves;
use crate::time::Position;

/// The media type of a sketch.
pub const MEDIA_TYPE: &str = "application/vnd.freshet.sketch";
/// The header's length in bytes.
pub const HEADER_BYTES: usize = 56;
/// Δ_inv when no bound can be given.
pub const INVALIDATION_UNBOUNDED_MS: u32 = u32::MAX;

const MAGIC: &[u8; 4] = b"FEBF";
const VERSION: u8 = 1;
const FLAG_SATURATED: u16 = 1;

/// Everything in a sketch but its bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Hash functions.
    pub k: u8,
    /// Contains every key; no bits follow.
    pub saturated: bool,
    /// Bits.
    pub m: u32,
    /// How old the watermark is at the moment of sending, milliseconds (rule C6).
    pub age_ms: u32,
    /// Epoch number and salt.
    pub epoch: Epoch,
    /// Every write at or before it has its effect in the bits.
    pub watermark: Position,
    /// Δ_inv (rule C9); [`INVALIDATION_UNBOUNDED_MS`] when unbounded.
    pub invalidation_ms: u32,
}

/// Why bytes are not a sketch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// Shorter than the header, or than the m bits it promises; or longer.
    #[error("the sketch has {got} bytes, {expected} expected")]
    Length {
        /// Bytes expected.
        expected: usize,
        /// Bytes got.
        got: usize,
    },
    /// Does not begin with `FEBF`.
    #[error("not a sketch")]
    Magic,
    /// A version or flag of a later protocol.
    #[error("unknown sketch version or flag")]
    Unknown,
}

/// The sketch's bytes. `bits` are ⌈m/8⌉ bytes and are left out when saturated.
#[must_use]
pub fn encode(header: &Header, bits: &[u8]) -> Bytes {
    let body = if header.saturated { &[] } else { bits };
    let mut out = BytesMut::with_capacity(HEADER_BYTES + body.len());
    out.put_slice(MAGIC);
    out.put_u8(VERSION);
    out.put_u8(header.k);
    out.put_u16_le(if header.saturated { FLAG_SATURATED } else { 0 });
    out.put_u32_le(header.m);
    out.put_u32_le(header.age_ms);
    out.put_u64_le(header.epoch.number);
    out.put_u64_le(header.watermark.0);
    out.put_u32_le(header.invalidation_ms);
    out.put_u32_le(0);
    out.put_slice(&header.epoch.salt);
    out.put_slice(body);
    out.freeze()
}

/// The inverse of [`encode`].
///
/// # Errors
/// The first rule of [`WireError`] that the bytes break.
pub fn decode(bytes: &[u8]) -> Result<(Header, &[u8]), WireError> {
    let Some((head, body)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Err(WireError::Length {
            expected: HEADER_BYTES,
            got: bytes.len(),
        });
    };
    if &head[..4] != MAGIC {
        return Err(WireError::Magic);
    }
    let flags = u16::from_le_bytes([head[6], head[7]]);
    if head[4] != VERSION || flags & !FLAG_SATURATED != 0 {
        return Err(WireError::Unknown);
    }
    let saturated = flags & FLAG_SATURATED != 0;
    let mut salt = [0; 16];
    salt.copy_from_slice(&head[40..56]);
    let header = Header {
        k: head[5],
        saturated,
        m: u32_at(head, 8),
        age_ms: u32_at(head, 12),
        epoch: Epoch {
            number: u64_at(head, 16),
            salt,
        },
        watermark: Position(u64_at(head, 24)),
        invalidation_ms: u32_at(head, 32),
    };
    let expected = if saturated {
        0
    } else {
        (header.m as usize).div_ceil(8)
    };
    if body.len() != expected {
        return Err(WireError::Length {
            expected: HEADER_BYTES + expected,
            got: bytes.len(),
        });
    }
    Ok((header, body))
}

/// What a client asks: may a stale copy of `key` exist?
#[must_use]
pub fn contains(header: &Header, bits: &[u8], key: &str) -> bool {
    header.saturated
        || Halves::of(key, &header.epoch.salt)
            .positions(header.m, header.k)
            .all(|at| {
                bits.get(at as usize / 8)
                    .is_none_or(|byte| byte >> (at % 8) & 1 == 1)
            })
}

fn u32_at(head: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| head[at + i]))
}

fn u64_at(head: &[u8; HEADER_BYTES], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| head[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            k: 4,
            saturated: false,
            m: 20,
            age_ms: 0x0102_0304,
            epoch: Epoch {
                number: 0x1122_3344_5566_7788,
                salt: *b"0123456789abcdef",
            },
            watermark: Position::from_timestamp(1_700_000_000, 7),
            invalidation_ms: 2_250,
        }
    }

    #[test]
    fn layout_is_the_protocols_byte_for_byte() {
        let bytes = encode(&header(), &[0xff, 0x01, 0x0f]);
        assert_eq!(bytes.len(), 59);
        assert_eq!(&bytes[..8], b"FEBF\x01\x04\x00\x00");
        assert_eq!(bytes[8..12], 20u32.to_le_bytes());
        assert_eq!(bytes[12..16], [4, 3, 2, 1]);
        assert_eq!(bytes[16..24], 0x1122_3344_5566_7788u64.to_le_bytes());
        assert_eq!(bytes[24..32], (1_700_000_000u64 << 32 | 7).to_le_bytes());
        assert_eq!(bytes[32..36], 2_250u32.to_le_bytes());
        assert_eq!(bytes[36..40], [0; 4]);
        assert_eq!(&bytes[40..56], b"0123456789abcdef");
        assert_eq!(&bytes[56..], [0xff, 0x01, 0x0f]);
        assert_eq!(decode(&bytes), Ok((header(), &[0xff, 0x01, 0x0f][..])));
    }

    #[test]
    fn c8_a_saturated_sketch_has_no_bits_and_contains_everything() {
        let saturated = Header {
            saturated: true,
            ..header()
        };
        let bytes = encode(&saturated, &[1, 2, 3]);
        assert_eq!(bytes.len(), HEADER_BYTES);
        let (back, bits) = decode(&bytes).expect("own bytes");
        assert!(contains(&back, bits, "anything"));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let good = encode(&header(), &[0; 3]);
        assert!(matches!(
            decode(&good[..58]),
            Err(WireError::Length {
                expected: 59,
                got: 58
            })
        ));
        let mut other = good.to_vec();
        other[4] = 2;
        assert_eq!(decode(&other), Err(WireError::Unknown));
        other[0] = b'X';
        assert_eq!(decode(&other), Err(WireError::Magic));
        assert!(decode(b"").is_err());
    }
}
