//! Bit tests: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`, of numbers in two's complement
//! (the sign goes on for ever) and of binary values (zeros go on for ever), the lowest bit first.

use bson::RawBsonRef;

use crate::query::{BitMask, BitTest};

/// A bit test with its positions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bits {
    test: BitTest,
    positions: Vec<u32>,
}

impl Bits {
    pub(super) fn new(test: BitTest, mask: &BitMask) -> Bits {
        let set_in = |bytes: &[u8]| {
            let bits = bytes.iter().zip(0_u32..);
            bits.flat_map(|(byte, index)| {
                (0..8)
                    .filter(move |bit| byte >> bit & 1 == 1)
                    .map(move |bit| index * 8 + bit)
            })
            .collect()
        };
        let positions = match mask {
            BitMask::Number(number) => set_in(&number.to_le_bytes()),
            BitMask::Binary(binary) => set_in(&binary.bytes),
            BitMask::Positions(positions) => positions.clone(),
        };
        Bits { test, positions }
    }

    /// Whether a value passes.
    pub(super) fn hold(&self, value: RawBsonRef<'_>) -> bool {
        if let RawBsonRef::Binary(binary) = value {
            return self.pass(|position| {
                let byte = binary
                    .bytes
                    .get(position as usize / 8)
                    .copied()
                    .unwrap_or(0);
                byte >> (position % 8) & 1 == 1
            });
        }
        match crate::query::integer(value) {
            Some(number) => self.pass(|position| number >> position.min(63) & 1 == 1),
            None => false,
        }
    }

    fn pass(&self, set: impl Fn(u32) -> bool) -> bool {
        let mut positions = self.positions.iter().copied();
        match self.test {
            BitTest::AllSet => positions.all(set),
            BitTest::AllClear => positions.all(|position| !set(position)),
            BitTest::AnySet => positions.any(set),
            BitTest::AnyClear => positions.any(|position| !set(position)),
        }
    }
}
