//! Percent-decoding, strictly: every `%` is followed by two hexadecimal digits, and the result is UTF-8.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::error::Problem;

/// A path segment. An encoded slash is refused: the path it stood in would mean another to some caches.
pub(super) fn decode(segment: &str) -> Result<Cow<'_, str>, Problem> {
    if matches!(segment, "" | "." | "..") {
        return Err(Problem::no_such_path());
    }
    let decoded = text(segment)?;
    if decoded.contains('/') {
        return Err(Problem::no_such_path());
    }
    Ok(decoded)
}

/// Any percent-encoded text.
pub(super) fn text(encoded: &str) -> Result<Cow<'_, str>, Problem> {
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            continue;
        }
        let hex = [bytes.next(), bytes.next()];
        if !hex
            .iter()
            .all(|digit| digit.is_some_and(|d| d.is_ascii_hexdigit()))
        {
            return Err(Problem::malformed(
                "a percent sign is not followed by two hexadecimal digits",
            ));
        }
    }
    percent_decode_str(encoded)
        .decode_utf8()
        .map_err(|_| Problem::malformed("the percent-encoded text is not UTF-8"))
}
