//! Any bytes either are refused, or are a filter whose canonical text is a fixed point, and whose predicate, if it
//! has one, answers about any document without a panic.
#![no_main]

use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use freshet_core::value::ejson::parse_document;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = parse_document(bytes) else {
        return;
    };
    let Ok(filter) = Filter::parse(&document) else {
        return;
    };
    if filter.database_only().is_some() {
        return;
    }
    let text = filter.canonical_text();
    let again = parse_document(text.as_bytes()).expect("canonical text is Extended JSON");
    let again = Filter::parse(&again).expect("a canonical filter is a filter");
    assert_eq!(text, again.canonical_text());
    if let Ok(predicate) = Predicate::compile(&filter) {
        let _ = predicate.matches(&document);
    }
});
