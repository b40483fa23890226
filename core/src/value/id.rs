//! Ids of records: the value of `_id`, and the path segment that names it (`docs/canonical-form.md`, *Path*).
//!
//! One id has one segment. MongoDB takes `5`, `5.0` and `NumberLong(5)` for one `_id`, a string and a symbol
//! too, and so does this type: it is compared and hashed by the segment, which spells equal values
//! equally (here Decimals as well, unlike in the canonical text of filters).

use std::fmt;
use std::hash::{Hash, Hasher};

use bson::{Decimal128, RawBson, RawBsonRef};

use super::canonical;
use super::decimal::{Decimal, Finite};
use super::ejson::{EjsonError, Style, parse_value, put_decimal, walk};
use super::json::{self, Sink};
use super::number::SAFE_INTEGER_MAX;
use crate::key::encode_segment;

/// The id of a record.
#[derive(Clone)]
pub struct RecordId {
    value: RawBson,
    /// Canonical and percent-encoded.
    segment: Box<str>,
}

/// Why something is no id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The segment is empty, or `.` or `..`, or begins with `_`: those need the tilde form.
    #[error("this id must be written as '~' and a JSON string")]
    Reserved,
    /// What follows the tilde is not Extended JSON.
    #[error("the id is not Extended JSON: {0}")]
    Ejson(#[from] EjsonError),
    /// Arrays, regular expressions and undefined cannot be an `_id` in MongoDB.
    #[error("an id cannot be an array, a regular expression or undefined")]
    Type,
    /// A document with a field that begins with `$`, which would read as an operator.
    #[error("an id cannot have a field that begins with '$'")]
    Operator,
}

impl RecordId {
    /// Reads a path segment that has been percent-decoded.
    ///
    /// # Errors
    /// See [`IdError`].
    pub fn parse_segment(decoded: &str) -> Result<RecordId, IdError> {
        if let Some(text) = decoded.strip_prefix('~') {
            let value = parse_value(text.as_bytes())?;
            return RecordId::new(value);
        }
        if is_object_id(decoded)
            && let Ok(id) = bson::oid::ObjectId::parse_str(decoded)
        {
            return RecordId::new(RawBson::ObjectId(id));
        }
        if needs_tilde(decoded) {
            return Err(IdError::Reserved);
        }
        RecordId::new(RawBson::String(decoded.to_owned()))
    }

    /// The id with this value.
    ///
    /// # Errors
    /// The value cannot be an `_id`.
    pub fn new(value: RawBson) -> Result<RecordId, IdError> {
        check(value.as_raw_bson_ref())?;
        let segment = encode_segment(&segment(value.as_raw_bson_ref())).into();
        Ok(RecordId { value, segment })
    }

    /// The id of a document.
    ///
    /// # Errors
    /// The value cannot be an `_id`.
    pub fn of(value: RawBsonRef<'_>) -> Result<RecordId, IdError> {
        RecordId::new(value.into())
    }

    /// The canonical segment, percent-encoded.
    #[must_use]
    pub fn segment(&self) -> &str {
        &self.segment
    }

    /// The value, of the type it was given in.
    #[must_use]
    pub fn as_raw(&self) -> RawBsonRef<'_> {
        self.value.as_raw_bson_ref()
    }
}

impl PartialEq for RecordId {
    fn eq(&self, other: &RecordId) -> bool {
        self.segment == other.segment
    }
}

impl Eq for RecordId {}

impl Hash for RecordId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.segment.hash(state);
    }
}

impl fmt::Debug for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordId({})", self.segment)
    }
}

fn check(value: RawBsonRef<'_>) -> Result<(), IdError> {
    match value {
        RawBsonRef::Array(_) | RawBsonRef::RegularExpression(_) | RawBsonRef::Undefined => {
            Err(IdError::Type)
        }
        RawBsonRef::Document(document) => {
            let mut names = document.iter_elements().map_while(Result::ok);
            if names.any(|element| element.key().as_str().starts_with('$')) {
                return Err(IdError::Operator);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

fn is_object_id(text: &str) -> bool {
    text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a string cannot stand in a segment as it is.
fn needs_tilde(text: &str) -> bool {
    matches!(text, "" | "." | "..")
        || text.starts_with(['~', '_'])
        || text.contains('/')
        || is_object_id(text)
}

fn segment(value: RawBsonRef<'_>) -> String {
    match value {
        RawBsonRef::ObjectId(id) => return id.to_hex(),
        RawBsonRef::String(text) | RawBsonRef::Symbol(text) if !needs_tilde(text) => {
            return text.to_owned();
        }
        _ => {}
    }
    let mut text = String::from("~");
    walk(value, &IdStyle, &mut text);
    // A slash occurs only within JSON strings, where it may be escaped.
    if text.contains('/') {
        text = text.replace('/', "\\u002f");
    }
    text
}

/// As the canonical text, but equal values are spelt equally without exception.
struct IdStyle;

impl Style for IdStyle {
    fn number(&self, out: &mut impl Sink, value: RawBsonRef<'_>) {
        match value {
            RawBsonRef::Decimal128(n) => decimal(out, n),
            other => canonical::number(out, other),
        }
    }

    fn symbol(&self, out: &mut impl Sink, text: &str) {
        json::quote(out, text);
    }
}

fn decimal(out: &mut impl Sink, n: Decimal128) {
    let decoded = Decimal::from(n);
    if let Some(n) = decoded.to_i64_exact() {
        if n.unsigned_abs() <= SAFE_INTEGER_MAX.unsigned_abs() {
            return json::integer(out, n);
        }
        return canonical::number(out, RawBsonRef::Int64(n));
    }
    let Decimal::Finite(mut finite) = decoded else {
        return canonical::number(out, RawBsonRef::Decimal128(n));
    };
    while finite.coefficient.is_multiple_of(10) {
        finite.coefficient /= 10;
        finite.exponent += 1;
    }
    match exact_double(finite) {
        Some(double) => canonical::number(out, RawBsonRef::Double(double)),
        None => put_decimal(out, Decimal::Finite(finite).encode()),
    }
}

/// The double of exactly this value, if there is one. The coefficient is not zero.
fn exact_double(finite: Finite) -> Option<f64> {
    // value = odd · 2^x · 5^y: a double has y = 0 once odd takes the fives, and odd within 53 bits.
    let mut odd = finite.coefficient >> finite.coefficient.trailing_zeros();
    let mut fives = finite.exponent;
    while fives < 0 && odd.is_multiple_of(5) {
        odd /= 5;
        fives += 1;
    }
    let fives = u32::try_from(fives).ok().filter(|n| *n <= 22)?;
    let odd = odd.checked_mul(5u128.pow(fives))?;
    if odd >= 1 << 53 {
        return None;
    }
    let sign = if finite.negative { "-" } else { "" };
    let text = format!("{sign}{}e{}", finite.coefficient, finite.exponent);
    text.parse()
        .ok()
        .filter(|n: &f64| n.is_finite() && *n != 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment_of(ejson: &str) -> String {
        RecordId::new(parse_value(ejson.as_bytes()).unwrap())
            .unwrap()
            .segment()
            .to_owned()
    }

    #[test]
    fn a_segment_reads_back_as_the_same_id() {
        for (ejson, segment) in [
            (
                r#"{"$oid":"57e193d7a9cc81b4027498b5"}"#,
                "57e193d7a9cc81b4027498b5",
            ),
            (r#""user 1""#, "user%201"),
            (r#""é""#, "%C3%A9"),
            (
                r#""57e193d7a9cc81b4027498B5""#,
                "~%2257e193d7a9cc81b4027498B5%22",
            ),
            (r#""""#, "~%22%22"),
            (r#"".""#, "~%22.%22"),
            (r#""..""#, "~%22..%22"),
            (r#""...""#, "..."),
            (r#""~x""#, "~%22~x%22"),
            (r#""_count""#, "~%22_count%22"),
            (r#""a/b""#, "~%22a%5Cu002fb%22"),
            ("5", "~5"),
            (
                r#"{"$numberLong":"9007199254740993"}"#,
                "~%7B%22$numberLong%22:%229007199254740993%22%7D",
            ),
            ("1.5", "~1.5"),
            ("null", "~null"),
            (
                r#"{"$binary":{"base64":"//8=","subType":"00"}}"#,
                "~%7B%22$binary%22:%7B%22base64%22:%22%5Cu002f%5Cu002f8=%22,%22subType%22:%2200%22%7D%7D",
            ),
            (
                r#"{"a":1,"b":[{"c":2.0}]}"#,
                "~%7B%22a%22:1,%22b%22:%5B%7B%22c%22:2%7D%5D%7D",
            ),
        ] {
            assert_eq!(segment_of(ejson), segment);
            let decoded = percent_encoding::percent_decode_str(segment)
                .decode_utf8()
                .unwrap();
            let again = RecordId::parse_segment(&decoded).unwrap();
            assert_eq!(again.segment(), segment);
        }
    }

    #[test]
    fn equal_values_are_one_id() {
        for spellings in [
            &[
                "5",
                "5.0",
                r#"{"$numberLong":"5"}"#,
                r#"{"$numberDecimal":"5.00"}"#,
            ][..],
            &[
                "1.5",
                r#"{"$numberDecimal":"1.50"}"#,
                r#"{"$numberDecimal":"15E-1"}"#,
            ],
            &["0.1e-400", "-0.0", r#"{"$numberDecimal":"0E+5"}"#],
            &[
                r#"{"$numberLong":"9007199254740993"}"#,
                r#"{"$numberDecimal":"9007199254740993.0"}"#,
            ],
            &[
                "1e22",
                r#"{"$numberDecimal":"1E+22"}"#,
                r#"{"$numberDecimal":"10000000000000000000000"}"#,
            ],
            &[
                r#"{"$numberDecimal":"0.1"}"#,
                r#"{"$numberDecimal":"0.10"}"#,
            ],
            &[r#""a""#, r#"{"$symbol":"a"}"#],
            &[r#"{"a":1}"#, r#"{"a":{"$numberDecimal":"1"}}"#],
        ] {
            for spelling in spellings {
                assert_eq!(segment_of(spelling), segment_of(spellings[0]), "{spelling}");
            }
        }
        assert_ne!(segment_of("0.1"), segment_of(r#"{"$numberDecimal":"0.1"}"#));
        assert_ne!(segment_of("1"), segment_of(r#""1""#));
    }

    #[test]
    fn what_mongodb_takes_for_no_id_is_refused() {
        for bad in [
            "",
            ".",
            "..",
            "_x",
            "~",
            "~[]",
            "~{\"$undefined\":true}",
            "~{\"$gt\":1}",
            "~{\"a\":1,\"$b\":1}",
            "~{\"$regularExpression\":{\"pattern\":\"\",\"options\":\"\"}}",
            "~5x",
            "a/b",
        ] {
            assert!(RecordId::parse_segment(bad).is_err(), "{bad}");
        }
    }
}
