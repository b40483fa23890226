//! Any bytes either are refused, or become BSON that is written as Extended JSON that reads back as the same BSON.
#![no_main]

use freshet_core::value::ejson::{Mode, parse_document, write_document};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = parse_document(bytes) else {
        return;
    };
    let mut text = Vec::new();
    write_document(&document, Mode::Canonical, &mut text);
    let again = parse_document(&text).expect("own output reads back");
    assert_eq!(document.as_bytes(), again.as_bytes());
    text.clear();
    write_document(&document, Mode::Relaxed, &mut text);
    parse_document(&text).expect("own relaxed output reads back");
});
