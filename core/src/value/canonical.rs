//! The canonical text of a value: what keys, cursors and id segments are made of
//! (`docs/canonical-form.md`, *Canonical text of a value*). Reading it back is `ejson::parse_value`.
//!
//! Operators compare numbers by value, so one number has one text whatever its BSON type. (Decimals outside
//! the safe integers are left apart: two of them may be equal and have two texts.)

use bson::{RawBsonRef, RawRegexRef};

use super::decimal::Decimal;
use super::ejson::{Style, walk};
use super::json::{self, Sink};
use super::number::{SAFE_INTEGER_MAX, double_to_i64_exact};

/// Appends the canonical text.
pub fn write(value: RawBsonRef<'_>, out: &mut String) {
    walk(value, &Canonical, out);
}

/// The canonical text.
#[must_use]
pub fn text(value: RawBsonRef<'_>) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

struct Canonical;

impl Style for Canonical {
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>) {
        number(out, value);
    }

    fn regex(&self, out: &mut impl Sink, regex: RawRegexRef<'_>) {
        use super::ejson::put_regex;
        let options = regex.options.as_str();
        if options.chars().is_sorted() {
            return put_regex(out, regex.pattern.as_str(), options);
        }
        let mut sorted: Vec<char> = options.chars().collect();
        sorted.sort_unstable();
        put_regex(out, regex.pattern.as_str(), &String::from_iter(sorted));
    }
}

/// One number, as the table of the document has it.
pub(crate) fn number(out: &mut impl Sink, value: RawBsonRef<'_>) {
    match value {
        RawBsonRef::Int32(n) => json::integer(out, n.into()),
        RawBsonRef::Int64(n) => integer(out, n),
        RawBsonRef::Double(n) => double(out, n),
        RawBsonRef::Decimal128(n) => decimal(out, n),
        _ => {}
    }
}

fn integer(out: &mut impl Sink, n: i64) {
    if n.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs() {
        json::integer(out, n);
    } else {
        super::ejson::put_wrapped_integer(out, "$numberLong", n);
    }
}

fn double(out: &mut impl Sink, n: f64) {
    if let Some(word) = super::ejson::non_finite(n) {
        not_finite(out, word);
    } else if let Some(n) = double_to_i64_exact(n) {
        integer(out, n);
    } else {
        json::double(out, n);
    }
}

fn decimal(out: &mut impl Sink, n: bson::Decimal128) {
    let decoded = Decimal::from(n);
    match decoded {
        Decimal::Nan => return not_finite(out, "NaN"),
        Decimal::Infinite(true) => return not_finite(out, "-Infinity"),
        Decimal::Infinite(false) => return not_finite(out, "Infinity"),
        Decimal::Finite(_) => {}
    }
    match decoded.to_i64_exact() {
        Some(n) if n.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs() => json::integer(out, n),
        _ => super::ejson::put_decimal(out, n),
    }
}

fn not_finite(out: &mut impl Sink, word: &str) {
    out.put("{\"$numberDouble\":\"");
    out.put(word);
    out.put("\"}");
}
