//! Extended JSON v2, straight between JSON bytes and raw BSON: relaxed and canonical, mixed on the way in.
//!
//! Source: the MongoDB Extended JSON (v2) specification, with the one difference of the protocol: in
//! relaxed form a 64-bit integer that JavaScript cannot hold is wrapped as `$numberLong`.

mod base64;
mod date;
mod parse;
mod scan;
mod wrapper;
mod write;

pub use parse::{NESTING_MAX, parse_document, parse_value};
pub use write::{Mode, write_document, write_value};
pub(crate) use write::{Style, non_finite, put_decimal, put_regex, put_wrapped_integer, walk};

/// Why a text is not Extended JSON that can be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct EjsonError {
    /// One short sentence; never repeats the input.
    pub detail: String,
    /// Where (RFC 6901); empty for the whole text.
    pub pointer: String,
}

/// Bytes of one name that a pointer shows at most.
const POINTER_NAME_BYTES_MAX: usize = 128;

impl EjsonError {
    pub(crate) fn new(detail: impl Into<String>) -> EjsonError {
        EjsonError {
            detail: detail.into(),
            pointer: String::new(),
        }
    }

    /// The same error seen from one level up.
    pub(crate) fn within(mut self, name: &str) -> EjsonError {
        self.pointer.insert_str(0, &token(name));
        self
    }
}

/// A reference token (RFC 6901 §3), shortened where it is long.
pub(crate) fn token(name: &str) -> String {
    let mut end = name.len().min(POINTER_NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let more = if end < name.len() { "…" } else { "" };
    format!(
        "/{}{more}",
        name[..end].replace('~', "~0").replace('/', "~1")
    )
}
