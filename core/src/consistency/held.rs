//! A sketch and when its request was sent: what it lists, and how old it is (C6). An age only ever errs upwards: no
//! clock of another machine enters, and the way to here counts as age.

use bytes::Bytes;

use crate::sketch::wire::{self, HEADER_BYTES, Header, INVALIDATION_UNBOUNDED_MS, WireError};
use crate::time::{Moment, Position};

/// A sketch that a client holds.
#[derive(Clone, Debug)]
pub struct Held {
    header: Header,
    bits: Bytes,
    sent: Moment,
}

impl Held {
    /// Reads the bytes that a request brought which was sent at `sent`.
    ///
    /// # Errors
    /// They are not exactly a sketch (I14). One without bits or hash functions would list nothing, and is none.
    pub fn read(bytes: &Bytes, sent: Moment) -> Result<Held, WireError> {
        let (header, _) = wire::decode(bytes)?;
        if !header.saturated && (header.k == 0 || header.m == 0) {
            return Err(WireError::Unknown);
        }
        Ok(Held {
            header,
            bits: bytes.slice(HEADER_BYTES..),
            sent,
        })
    }

    /// Whether a stale copy of `key` may exist. May err towards yes, never towards no.
    #[must_use]
    pub fn lists(&self, key: &str) -> bool {
        wire::contains(&self.header, &self.bits, key)
    }

    /// Whether the server lost its state and calls everything stale (C8).
    #[must_use]
    pub fn saturated(&self) -> bool {
        self.header.saturated
    }

    /// Every write at or before it is in the sketch.
    #[must_use]
    pub fn watermark(&self) -> Position {
        self.header.watermark
    }

    /// How old the watermark is at most.
    #[must_use]
    pub fn age_ms(&self, now: Moment) -> u64 {
        now.since(self.sent)
            .saturating_add(self.header.age_ms.into())
    }

    /// Δ′ = Δ − Δ_inv (C9): how old a sketch may be under which the edge is asked. `None`: no age will do.
    #[must_use]
    pub fn edge_bound_ms(&self, delta_ms: u64) -> Option<u64> {
        if self.header.invalidation_ms == INVALIDATION_UNBOUNDED_MS {
            return None;
        }
        let bound = delta_ms.checked_sub(self.header.invalidation_ms.into())?;
        (bound > 0).then_some(bound)
    }

    /// Whether it proves less than `other`: it was taken earlier.
    #[must_use]
    pub fn is_older_than(&self, other: &Held) -> bool {
        self.taken() < other.taken()
    }

    /// Whether both are the answer to one request.
    pub(super) fn is(&self, other: &Held) -> bool {
        (self.sent, self.header) == (other.sent, other.header)
    }

    /// The earliest moment at which the watermark can have been true; may lie before the clock's start.
    fn taken(&self) -> i128 {
        i128::from(self.sent.0) - i128::from(self.header.age_ms)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sketch::Epoch;
    use crate::sketch::hash::Halves;

    /// What a sketch of these tests states.
    #[derive(Default)]
    pub(in crate::consistency) struct Stated<'a> {
        pub(in crate::consistency) keys: &'a [&'a str],
        pub(in crate::consistency) saturated: bool,
        pub(in crate::consistency) age_ms: u32,
        pub(in crate::consistency) invalidation_ms: u32,
        pub(in crate::consistency) watermark: u64,
    }

    impl Stated<'_> {
        pub(in crate::consistency) fn sent(&self, sent: u64) -> Held {
            let header = Header {
                k: 4,
                saturated: self.saturated,
                m: 8_000,
                age_ms: self.age_ms,
                epoch: Epoch {
                    number: 1,
                    salt: [3; 16],
                },
                watermark: Position(self.watermark),
                invalidation_ms: self.invalidation_ms,
            };
            let mut bits = vec![0; 1_000];
            for key in self.keys {
                for at in Halves::of(key, &header.epoch.salt).positions(header.m, header.k) {
                    bits[at as usize / 8] |= 1 << (at % 8);
                }
            }
            Held::read(&wire::encode(&header, &bits), Moment(sent)).expect("own bytes")
        }
    }

    #[test]
    fn c6_a_sketch_is_as_old_as_it_says_plus_the_time_since_it_was_asked_for() {
        let held = Stated {
            age_ms: 300,
            ..Stated::default()
        }
        .sent(100);
        assert_eq!(held.age_ms(Moment(100)), 300);
        assert_eq!(held.age_ms(Moment(1_100)), 1_300);
        assert!(
            held.is_older_than(&Stated::default().sent(0)),
            "it was taken before the clock began"
        );
    }

    #[test]
    fn c9_the_edge_is_as_late_as_the_sketch_says() {
        let bound = |invalidation_ms| {
            let stated = Stated {
                invalidation_ms,
                ..Stated::default()
            };
            stated.sent(0).edge_bound_ms(5_000)
        };
        assert_eq!(bound(2_000), Some(3_000));
        assert_eq!(bound(5_000), None);
        assert_eq!(bound(6_000), None);
        assert_eq!(bound(INVALIDATION_UNBOUNDED_MS), None);
    }

    #[test]
    fn i14_what_is_no_sketch_is_an_error_and_never_an_empty_one() {
        let read = |bytes: Bytes| Held::read(&bytes, Moment(0));
        let mut header = Stated::default().sent(0).header;
        header.k = 0;
        assert!(read(wire::encode(&header, &[0; 1_000])).is_err());
        header.k = 4;
        assert!(read(wire::encode(&header, &[0; 999])).is_err());
        assert!(read(Bytes::from_static(b"{}")).is_err());
        assert!(read(wire::encode(&header, &[0; 1_000])).is_ok());
    }

    #[test]
    fn i7_a_saturated_sketch_lists_every_key() {
        let some = Stated {
            keys: &["/v1/db/c/1"],
            ..Stated::default()
        }
        .sent(0);
        assert!(some.lists("/v1/db/c/1") && !some.lists("/v1/db/c/2"));
        let all = Stated {
            saturated: true,
            ..Stated::default()
        };
        assert!(all.sent(0).lists("/v1/db/c/2"));
    }
}
