//! Raw BSON to Extended JSON. Field order is kept, nothing is normalised; a document of any depth is
//! written in a loop, not by recursion.

use bson::raw::RawIter;
use bson::{RawBinaryRef, RawBsonRef, RawDocument, RawRegexRef};

use super::super::build::{array_as_document, db_pointer_parts};
use super::super::json::{self, Sink};
use super::super::number::{SAFE_INTEGER_MAX, StackText};
use super::{base64, date};

/// The two forms of Extended JSON v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Plain JSON numbers and readable dates where they lose nothing.
    Relaxed,
    /// Every type spelt out.
    Canonical,
}

/// Appends the document.
pub fn write_document(document: &RawDocument, mode: Mode, out: &mut Vec<u8>) {
    write_value(RawBsonRef::Document(document), mode, out);
}

/// Appends the value.
pub fn write_value(value: RawBsonRef<'_>, mode: Mode, out: &mut Vec<u8>) {
    match mode {
        Mode::Relaxed => walk(value, &Relaxed, out),
        Mode::Canonical => walk(value, &Canonical, out),
    }
}

/// How the types that have more than one spelling are written.
pub(crate) trait Style {
    /// One of the four number types.
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>);
    /// Milliseconds since 1970.
    fn date(&self, out: &mut impl Sink, ms: i64) {
        canonical_date(out, ms);
    }
    /// A symbol.
    fn symbol(&self, out: &mut impl Sink, text: &str) {
        out.put("{\"$symbol\":");
        json::quote(out, text);
        out.put("}");
    }
    /// A regular expression.
    fn regex(&self, out: &mut impl Sink, regex: RawRegexRef<'_>) {
        put_regex(out, regex.pattern.as_str(), regex.options.as_str());
    }
}

struct Relaxed;

impl Style for Relaxed {
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Int32(n) => json::integer(out, n.into()),
            RawBsonRef::Int64(n) if n.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs() => {
                json::integer(out, n);
            }
            RawBsonRef::Double(n) if n.is_finite() => put_double(out, n),
            other => Canonical.number(out, other),
        }
    }

    fn date(&self, out: &mut impl Sink, ms: i64) {
        out.put("{\"$date\":");
        if !date::write(out, ms) {
            put_wrapped_integer(out, "$numberLong", ms);
        }
        out.put("}");
    }
}

struct Canonical;

impl Style for Canonical {
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Int32(n) => put_wrapped_integer(out, "$numberInt", n.into()),
            RawBsonRef::Int64(n) => put_wrapped_integer(out, "$numberLong", n),
            RawBsonRef::Double(n) => {
                out.put("{\"$numberDouble\":\"");
                match non_finite(n) {
                    Some(word) => out.put(word),
                    None => put_double(out, n),
                }
                out.put("\"}");
            }
            RawBsonRef::Decimal128(n) => put_decimal(out, n),
            _ => {}
        }
    }
}

/// The word for a double that JSON has no number for.
pub(crate) fn non_finite(n: f64) -> Option<&'static str> {
    if n.is_nan() {
        Some("NaN")
    } else if n.is_infinite() {
        Some(if n < 0.0 { "-Infinity" } else { "Infinity" })
    } else {
        None
    }
}

/// A finite double that reads back as a double: `1.0`, not `1`.
fn put_double(out: &mut impl Sink, n: f64) {
    json::double(out, n);
    // ECMAScript prints an exponent from 1e21 on.
    if n.fract() == 0.0 && n.abs() < 1e21 {
        out.put(".0");
    }
}

pub(crate) fn put_wrapped_integer(out: &mut impl Sink, wrapper: &str, n: i64) {
    out.put("{\"");
    out.put(wrapper);
    out.put("\":\"");
    json::integer(out, n);
    out.put("\"}");
}

pub(crate) fn put_decimal(out: &mut impl Sink, n: bson::Decimal128) {
    out.put("{\"$numberDecimal\":\"");
    out.put(&n.to_string());
    out.put("\"}");
}

fn canonical_date(out: &mut impl Sink, ms: i64) {
    out.put("{\"$date\":");
    put_wrapped_integer(out, "$numberLong", ms);
    out.put("}");
}

pub(crate) fn put_regex(out: &mut impl Sink, pattern: &str, options: &str) {
    out.put("{\"$regularExpression\":{\"pattern\":");
    json::quote(out, pattern);
    out.put(",\"options\":");
    json::quote(out, options);
    out.put("}}");
}

/// A container that is being written.
struct Open<'a> {
    elements: RawIter<'a>,
    array: bool,
    first: bool,
    /// What follows its closing bracket.
    tail: &'static str,
}

impl<'a> Open<'a> {
    fn document(document: &'a RawDocument, tail: &'static str) -> Open<'a> {
        Open {
            elements: document.iter_elements(),
            array: false,
            first: true,
            tail,
        }
    }
}

/// Writes a value in a style.
pub(crate) fn walk(value: RawBsonRef<'_>, style: &impl Style, out: &mut impl Sink) {
    let mut stack = Vec::new();
    stack.extend(begin(value, style, out));
    while let Some(open) = stack.last_mut() {
        // Bytes that are not BSON end a container: the text stays well-formed.
        let next = open.elements.next().and_then(Result::ok);
        let Some((element, value)) = next.and_then(|e| e.value().ok().map(|v| (e, v))) else {
            out.put(if open.array { "]" } else { "}" });
            out.put(open.tail);
            stack.pop();
            continue;
        };
        if !std::mem::take(&mut open.first) {
            out.put(",");
        }
        if !open.array {
            json::quote(out, element.key().as_str());
            out.put(":");
        }
        stack.extend(begin(value, style, out));
    }
}

/// Writes a scalar whole, of a container its opening; then the container is left to be written.
fn begin<'a>(value: RawBsonRef<'a>, style: &impl Style, out: &mut impl Sink) -> Option<Open<'a>> {
    match value {
        RawBsonRef::Document(document) => {
            out.put("{");
            return Some(Open::document(document, ""));
        }
        RawBsonRef::Array(array) => {
            out.put("[");
            return Some(Open {
                array: true,
                ..Open::document(array_as_document(array), "")
            });
        }
        RawBsonRef::JavaScriptCodeWithScope(code) => {
            out.put("{\"$code\":");
            json::quote(out, code.code);
            out.put(",\"$scope\":{");
            return Some(Open::document(code.scope, "}"));
        }
        RawBsonRef::String(text) => json::quote(out, text),
        RawBsonRef::Boolean(true) => out.put("true"),
        RawBsonRef::Boolean(false) => out.put("false"),
        RawBsonRef::Null => out.put("null"),
        RawBsonRef::Int32(_)
        | RawBsonRef::Int64(_)
        | RawBsonRef::Double(_)
        | RawBsonRef::Decimal128(_) => style.number(out, value),
        RawBsonRef::DateTime(date) => style.date(out, date.timestamp_millis()),
        RawBsonRef::RegularExpression(regex) => style.regex(out, regex),
        RawBsonRef::Symbol(text) => style.symbol(out, text),
        other => put_rare(other, out),
    }
    None
}

/// The scalars that have one spelling.
fn put_rare(value: RawBsonRef<'_>, out: &mut impl Sink) {
    match value {
        RawBsonRef::ObjectId(id) => put_object_id(out, id.bytes()),
        RawBsonRef::Binary(binary) => put_binary(out, binary),
        RawBsonRef::Timestamp(t) => {
            out.put("{\"$timestamp\":{\"t\":");
            json::integer(out, t.time.into());
            out.put(",\"i\":");
            json::integer(out, t.increment.into());
            out.put("}}");
        }
        RawBsonRef::JavaScriptCode(text) => {
            out.put("{\"$code\":");
            json::quote(out, text);
            out.put("}");
        }
        RawBsonRef::DbPointer(pointer) => {
            let (namespace, id) = db_pointer_parts(pointer);
            out.put("{\"$dbPointer\":{\"$ref\":");
            json::quote(out, &namespace);
            out.put(",\"$id\":");
            put_object_id(out, id.bytes());
            out.put("}}");
        }
        RawBsonRef::MinKey => out.put("{\"$minKey\":1}"),
        RawBsonRef::MaxKey => out.put("{\"$maxKey\":1}"),
        // Undefined: what is left.
        _ => out.put("{\"$undefined\":true}"),
    }
}

fn put_object_id(out: &mut impl Sink, id: [u8; 12]) {
    out.put("{\"$oid\":\"");
    put_hex(out, &id);
    out.put("\"}");
}

fn put_hex(out: &mut impl Sink, bytes: &[u8]) {
    use std::fmt::Write as _;
    let mut text = StackText::<24>::new();
    for byte in bytes {
        // Twelve bytes at most.
        let _ = write!(text, "{byte:02x}");
    }
    out.put(text.as_str());
}

fn put_binary(out: &mut impl Sink, binary: RawBinaryRef<'_>) {
    out.put("{\"$binary\":{\"base64\":\"");
    base64::encode(binary.bytes, |piece| out.put(piece));
    out.put("\",\"subType\":\"");
    put_hex(out, &[binary.subtype.into()]);
    out.put("\"}}");
}
