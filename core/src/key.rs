//! Keys: the canonical path and query string that names a cached resource, its hash, and the
//! percent-encoding that makes the spelling unique (RFC 3986 §2.1, §3.3, §3.4; `docs/canonical-form.md`).

use std::fmt;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The name of a cached resource. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The text, UTF-8 (in fact ASCII).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key's hash, for surrogate keys and stored queries.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash::of(self.0.as_bytes())
    }
}

impl From<String> for Key {
    fn from(text: String) -> Key {
        Key(text.into())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Key {
        Key(text.into())
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// BLAKE3 truncated to 128 bits; prints as 32 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(pub [u8; 16]);

impl KeyHash {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> KeyHash {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        KeyHash(short)
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0 {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// What a path segment must encode: everything but RFC 3986 `pchar`.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// What a query value must encode: everything but `pchar`, `/` and `?`, without `&` (separates
/// parameters) and `+` (read as a space).
const QUERY_VALUE: &AsciiSet = &SEGMENT.add(b'&').add(b'+').remove(b'/').remove(b'?');

/// Percent-encodes one path segment.
#[must_use]
pub fn encode_segment(segment: &str) -> String {
    utf8_percent_encode(segment, SEGMENT).to_string()
}

/// Percent-encodes one query value.
#[must_use]
pub fn encode_query_value(value: &str) -> String {
    utf8_percent_encode(value, QUERY_VALUE).to_string()
}
