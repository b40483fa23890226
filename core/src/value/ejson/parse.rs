//! Extended JSON to raw BSON, in one pass over the bytes and straight into the document.
//!
//! An object whose first name is that of a type wrapper must be that type, exactly; any other object stays
//! a document, so that query operators pass. Integers become the smallest type that holds them.

use std::borrow::Cow;
use std::ops::Range;

use bson::spec::ElementType;
use bson::{RawBson, RawDocumentBuf};

use super::super::build::{Builder, DOCUMENT_BYTES_MAX};
use super::super::json;
use super::EjsonError;
use super::scan::{Scanner, Spelling};

/// Levels of documents and arrays; the outermost document is the first.
pub const NESTING_MAX: u32 = 100;
/// Names up to which every pair is compared; beyond, they are sorted.
const NAMES_PAIRWISE_MAX: usize = 16;

/// Reads a document.
///
/// # Errors
/// Not JSON, not a document, or against one of the limits and rules of this module.
pub fn parse_document(bytes: &[u8]) -> Result<RawDocumentBuf, EjsonError> {
    let mut parser = Parser::new(bytes)?;
    if parser.scanner.peek() != Some(b'{') {
        return Err(EjsonError::new("expected a JSON object"));
    }
    let kind = parser.value(0)?;
    parser.scanner.expect_end()?;
    if kind != ElementType::EmbeddedDocument {
        return Err(EjsonError::new("expected a document, not a single value"));
    }
    parser.out.into_document().map_err(not_bson)
}

/// Reads a value of any type.
///
/// # Errors
/// As [`parse_document`], but for "not a document".
pub fn parse_value(bytes: &[u8]) -> Result<RawBson, EjsonError> {
    let mut parser = Parser::new(bytes)?;
    let body = parser.out.begin();
    let element = parser.out.name(ElementType::Null, "");
    let kind = parser.value(0)?;
    parser.scanner.expect_end()?;
    parser.out.set_type(element, kind);
    parser.out.end(body);
    let document = parser.out.into_document().map_err(not_bson)?;
    let value = document.iter().next().and_then(Result::ok);
    value
        .map(|(_, value)| value.into())
        .ok_or_else(|| EjsonError::new("expected a value"))
}

/// Cannot happen with what this parser writes; named all the same.
fn not_bson(_: bson::error::Error) -> EjsonError {
    EjsonError::new("the value cannot be written as BSON")
}

pub(super) struct Parser<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) out: Builder,
    /// Where the names of the open documents stand in `out`, innermost last.
    names: Vec<Range<usize>>,
}

impl<'a> Parser<'a> {
    fn new(bytes: &'a [u8]) -> Result<Parser<'a>, EjsonError> {
        Ok(Parser {
            scanner: Scanner::new(bytes)?,
            out: Builder::with_capacity(bytes.len().min(DOCUMENT_BYTES_MAX)),
            names: Vec::new(),
        })
    }

    /// Writes the next value; `depth` is the number of containers around it.
    pub(super) fn value(&mut self, depth: u32) -> Result<ElementType, EjsonError> {
        match self.scanner.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => {
                let text = self.scanner.string()?;
                self.out.put_str(&text);
                Ok(ElementType::String)
            }
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.boolean("true", true),
            Some(b'f') => self.boolean("false", false),
            Some(b'n') => {
                self.scanner.literal("null")?;
                Ok(ElementType::Null)
            }
            _ => Err(self.scanner.error("expected a value")),
        }
    }

    fn boolean(&mut self, word: &str, value: bool) -> Result<ElementType, EjsonError> {
        self.scanner.literal(word)?;
        self.out.put(&[u8::from(value)]);
        Ok(ElementType::Boolean)
    }

    fn number(&mut self) -> Result<ElementType, EjsonError> {
        match self.scanner.number()? {
            Spelling::Integer(text) => self.integer(text),
            Spelling::Real(text) => {
                let n: f64 = text.parse().unwrap_or(f64::INFINITY);
                if n.is_infinite() {
                    return Err(EjsonError::new(
                        "the number is beyond the range of a double",
                    ));
                }
                self.out.put(&n.to_le_bytes());
                Ok(ElementType::Double)
            }
        }
    }

    fn integer(&mut self, text: &str) -> Result<ElementType, EjsonError> {
        if let Ok(n) = text.parse::<i32>() {
            self.out.put(&n.to_le_bytes());
            return Ok(ElementType::Int32);
        }
        if let Ok(n) = text.parse::<i64>() {
            self.out.put(&n.to_le_bytes());
            return Ok(ElementType::Int64);
        }
        // Written exactly as ECMAScript prints a double, it is that double: canonical text has such
        // numbers. Anything else would lose digits that somebody wrote on purpose.
        let n: f64 = text.parse().unwrap_or(f64::INFINITY);
        let mut printed = String::new();
        json::double(&mut printed, n);
        if printed != text {
            return Err(EjsonError::new(
                "the integer does not fit 64 bits: use $numberDecimal or $numberDouble",
            ));
        }
        self.out.put(&n.to_le_bytes());
        Ok(ElementType::Double)
    }

    fn array(&mut self, depth: u32) -> Result<ElementType, EjsonError> {
        let inner = deeper(depth)?;
        self.scanner.expect(b'[')?;
        let body = self.out.begin();
        if !self.scanner.take(b']') {
            let mut index = 0;
            loop {
                let element = self.out.index(ElementType::Null, index);
                let kind = self
                    .value(inner)
                    .and_then(|kind| self.check_size(kind))
                    .map_err(|error| error.within(&index.to_string()))?;
                self.out.set_type(element, kind);
                if !self.scanner.more(b']')? {
                    break;
                }
                index += 1;
            }
        }
        self.out.end(body);
        Ok(ElementType::Array)
    }

    fn object(&mut self, depth: u32) -> Result<ElementType, EjsonError> {
        self.scanner.expect(b'{')?;
        if self.scanner.take(b'}') {
            deeper(depth)?;
            let body = self.out.begin();
            self.out.end(body);
            return Ok(ElementType::EmbeddedDocument);
        }
        let first = self.scanner.string()?;
        if first.starts_with('$')
            && let Some(kind) = self.wrapper(&first, depth)?
        {
            return Ok(kind);
        }
        self.members(first, deeper(depth)?)?;
        Ok(ElementType::EmbeddedDocument)
    }

    /// The members of a document whose first name has been read.
    fn members(&mut self, first: Cow<'a, str>, inner: u32) -> Result<(), EjsonError> {
        let body = self.out.begin();
        let outer_names = self.names.len();
        let mut name = first;
        loop {
            self.member(&name, inner)
                .map_err(|error| error.within(&name))?;
            if !self.scanner.more(b'}')? {
                break;
            }
            name = self.scanner.string()?;
        }
        self.check_names(outer_names)?;
        self.names.truncate(outer_names);
        self.out.end(body);
        Ok(())
    }

    fn member(&mut self, name: &str, inner: u32) -> Result<(), EjsonError> {
        if name.as_bytes().contains(&0) {
            return Err(EjsonError::new("a field name must not hold U+0000"));
        }
        self.scanner.expect(b':')?;
        let at = self.out.len() + 1;
        self.names.push(at..at + name.len());
        let element = self.out.name(ElementType::Null, name);
        let kind = self.value(inner)?;
        self.out.set_type(element, kind);
        self.check_size(kind)?;
        Ok(())
    }

    fn check_size(&self, kind: ElementType) -> Result<ElementType, EjsonError> {
        if self.out.len() > DOCUMENT_BYTES_MAX {
            return Err(EjsonError::new("the document is larger than 16 MiB"));
        }
        Ok(kind)
    }

    /// Refuses a name that the innermost document has twice.
    fn check_names(&mut self, from: usize) -> Result<(), EjsonError> {
        let bytes = self.out.as_bytes();
        let names = &mut self.names[from..];
        let duplicate = if names.len() <= NAMES_PAIRWISE_MAX {
            names.iter().enumerate().find_map(|(i, name)| {
                let earlier = &names[..i];
                let same = |other: &Range<usize>| bytes[other.clone()] == bytes[name.clone()];
                earlier.iter().any(same).then(|| name.clone())
            })
        } else {
            names.sort_unstable_by(|a, b| bytes[a.clone()].cmp(&bytes[b.clone()]));
            names
                .windows(2)
                .find(|pair| bytes[pair[0].clone()] == bytes[pair[1].clone()])
                .map(|pair| pair[1].clone())
        };
        match duplicate {
            None => Ok(()),
            Some(name) => {
                let name = String::from_utf8_lossy(&bytes[name]);
                Err(EjsonError::new("the field occurs twice").within(&name))
            }
        }
    }
}

/// The depth inside one more container.
pub(super) fn deeper(depth: u32) -> Result<u32, EjsonError> {
    if depth >= NESTING_MAX {
        return Err(EjsonError::new(format!(
            "nested deeper than {NESTING_MAX} levels"
        )));
    }
    Ok(depth + 1)
}
