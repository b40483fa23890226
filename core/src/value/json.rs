//! The pieces of JSON text: strings as ECMAScript's `JSON.stringify` quotes them (ECMA-262 §25.5.2.3) and
//! doubles as its `Number::toString` prints them (§6.1.6.1.20), so that both languages give equal bytes.

use std::fmt::Write as _;

use super::number::StackText;

/// Where text goes.
pub(crate) trait Sink {
    /// Appends.
    fn put(&mut self, text: &str);
}

impl Sink for String {
    fn put(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// A quoted string.
pub(crate) fn quote(out: &mut impl Sink, text: &str) {
    out.put("\"");
    let mut clean = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= b' ' && byte != b'"' && byte != b'\\' {
            continue;
        }
        // What is escaped is ASCII, so `at` is a character boundary.
        out.put(&text[clean..at]);
        clean = at + 1;
        match byte {
            b'"' => out.put("\\\""),
            b'\\' => out.put("\\\\"),
            0x08 => out.put("\\b"),
            0x0c => out.put("\\f"),
            b'\n' => out.put("\\n"),
            b'\r' => out.put("\\r"),
            b'\t' => out.put("\\t"),
            control => {
                let mut escape = StackText::<6>::new();
                let _ = write!(escape, "\\u{control:04x}");
                out.put(escape.as_str());
            }
        }
    }
    out.put(&text[clean..]);
    out.put("\"");
}

/// An integer.
pub(crate) fn integer(out: &mut impl Sink, n: i64) {
    let mut text = StackText::<20>::new();
    let _ = write!(text, "{n}");
    out.put(text.as_str());
}

/// A finite double as ECMAScript prints it, but for the sign of −0, which is kept.
pub(crate) fn double(out: &mut impl Sink, n: f64) {
    // Rust's `{:e}` gives the shortest digits that read back as the same double, as ECMAScript's do;
    // only their layout differs.
    let mut text = StackText::<32>::new();
    let _ = write!(text, "{n:e}");
    let (sign, rest) = match text.as_str().strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text.as_str()),
    };
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (first, others) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    out.put(sign);
    match exponent {
        0..=20 => positional(out, first, others, exponent.unsigned_abs() as usize),
        -6..=-1 => {
            out.put("0.");
            zeros(out, exponent.unsigned_abs() as usize - 1);
            out.put(first);
            out.put(others);
        }
        _ => {
            out.put(first);
            if !others.is_empty() {
                out.put(".");
                out.put(others);
            }
            out.put(if exponent < 0 { "e-" } else { "e+" });
            integer(out, exponent.unsigned_abs().into());
        }
    }
}

/// Digits with the point `shift` places to the right of the first.
fn positional(out: &mut impl Sink, first: &str, others: &str, shift: usize) {
    out.put(first);
    if others.len() <= shift {
        out.put(others);
        zeros(out, shift - others.len());
    } else {
        out.put(&others[..shift]);
        out.put(".");
        out.put(&others[shift..]);
    }
}

fn zeros(out: &mut impl Sink, count: usize) {
    for _ in 0..count {
        out.put("0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(n: f64) -> String {
        let mut out = String::new();
        double(&mut out, n);
        out
    }

    #[test]
    fn doubles_print_as_ecmascript_prints_them() {
        for (n, text) in [
            (0.0, "0"),
            (0.5, "0.5"),
            (-1.5, "-1.5"),
            (1e300, "1e+300"),
            (1.5e-7, "1.5e-7"),
            (0.000_001, "0.000001"),
            (1.234e-6, "0.000001234"),
            (123.456, "123.456"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
            (123_456_789_012_345_680_000.0, "123456789012345680000"),
        ] {
            assert_eq!(printed(n), text);
        }
    }

    #[test]
    fn strings_are_quoted_as_json_stringify_quotes_them() {
        let mut out = String::new();
        quote(
            &mut out,
            "a\"\\\u{8}\u{c}\n\r\t\u{1}\u{1f}\u{7f}é\u{2028}😀/",
        );
        assert_eq!(
            out,
            "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\u{7f}é\u{2028}😀/\""
        );
    }
}
