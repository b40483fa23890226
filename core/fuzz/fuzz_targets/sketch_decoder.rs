//! The sketch decoder never panics, and what it accepts it encodes to the same bytes again.
#![no_main]

use freshet_core::sketch::wire;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok((header, bits)) = wire::decode(bytes) else {
        return;
    };
    let again = wire::encode(&header, bits);
    // All but the four reserved bytes.
    assert_eq!(again[..36], bytes[..36]);
    assert_eq!(again[40..], bytes[40..]);
    let _ = wire::contains(&header, bits, "/v1/d/c/1");
});
