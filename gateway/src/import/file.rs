//! A file as a sequence of numbered documents: NDJSON, or one JSON array whose members may span lines.
//! The first character that is neither white space nor a byte order mark tells which. Memory holds one document at a
//! time. What is not a document is an item too, so that numbers do not depend on what is wrong: text after the array,
//! an array that is not closed, a text that is too long.

use std::fmt;
use std::io::{BufRead, ErrorKind, Read};

use bson::RawDocumentBuf;
use freshet_core::value::ejson;

/// The largest text of one document: Extended JSON of MongoDB's 16 MiB, generously.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;
/// U+FEFF in UTF-8, which some editors put in front of a text.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Where in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which item of the file it is, from 1; the bad ones count.
    pub number: u64,
    /// The line it begins on, from 1.
    pub line: u64,
    /// It is a member of an array.
    pub member: bool,
    /// A digest of the texts of the file up to and with this one: the same number with another digest is another file.
    pub digest: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.member {
            true => write!(f, "member {} (line {})", self.number, self.line),
            false => write!(f, "line {}", self.line),
        }
    }
}

/// What stands at a place.
#[derive(Clone, Debug)]
pub struct Item {
    /// Where.
    pub place: Place,
    /// The document, or why it is none.
    pub document: Result<RawDocumentBuf, String>,
}

/// The documents of a file.
pub struct Documents<R> {
    input: R,
    line: u64,
    bytes: u64,
    number: u64,
    digest: u64,
    form: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Array,
    /// An array that has ended: nothing may follow.
    Closed,
    Ended,
}

/// A text that should be a document, or why there is none.
type Text = Result<Vec<u8>, &'static str>;

const TOO_LONG: &str = "the text of a document is longer than 64 MiB";

impl<R: BufRead> Documents<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Documents<R> {
        Documents {
            input,
            line: 1,
            bytes: 0,
            number: 0,
            // The offset basis of FNV-1a, 64 bits.
            digest: 0xcbf2_9ce4_8422_2325,
            form: None,
        }
    }

    /// The bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn look(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => return Ok(other?.first().copied()),
            }
        }
    }

    /// Passes over white space, and says what comes then.
    fn peek(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            match self.look()? {
                Some(byte) if byte.is_ascii_whitespace() => self.pass(byte),
                other => return Ok(other),
            }
        }
    }

    fn pass(&mut self, byte: u8) {
        self.input.consume(1);
        self.bytes += 1;
        self.line += u64::from(byte == b'\n');
    }

    /// What the file is; passes over a byte order mark. A part of one is left, and no document begins with it.
    fn recognise(&mut self) -> std::io::Result<Option<Form>> {
        for expected in BYTE_ORDER_MARK {
            match self.look()? {
                Some(byte) if byte == expected => self.pass(byte),
                _ if self.bytes == 0 => break,
                _ => return Ok(None),
            }
        }
        Ok(Some(match self.peek()? {
            None => Form::Ended,
            Some(b'[') => Form::Array,
            Some(_) => Form::Lines,
        }))
    }

    /// The next text with the line it begins on.
    fn advance(&mut self) -> std::io::Result<Option<(u64, Text)>> {
        let opening = self.form.is_none();
        let form = match self.form {
            Some(form) => form,
            None => match self.recognise()? {
                Some(form) => form,
                None => return Ok(Some(self.end("the file is not UTF-8 text"))),
            },
        };
        self.form = Some(form);
        let next = self.peek()?;
        match (form, next) {
            (Form::Ended, _) | (Form::Lines | Form::Closed, None) => Ok(None),
            (Form::Closed, Some(_)) => Ok(Some(self.end("text after the end of the array"))),
            (Form::Lines, Some(_)) => self.line_text().map(Some),
            (Form::Array, None) => Ok(Some(self.end("the array is not closed"))),
            (Form::Array, Some(b']')) => self.close(),
            (Form::Array, Some(delimiter)) => {
                // `[` before the first member, `,` before the others: members end at nothing else.
                self.pass(delimiter);
                match self.peek()? {
                    Some(b']') if opening => self.close(),
                    None => Ok(Some(self.end("the array is not closed"))),
                    Some(_) => self.member_text().map(Some),
                }
            }
        }
    }

    fn end(&mut self, reason: &'static str) -> (u64, Text) {
        self.form = Some(Form::Ended);
        (self.line, Err(reason))
    }

    fn close(&mut self) -> std::io::Result<Option<(u64, Text)>> {
        self.pass(b']');
        self.form = Some(Form::Closed);
        match self.peek()? {
            None => Ok(None),
            Some(_) => Ok(Some(self.end("text after the end of the array"))),
        }
    }

    fn line_text(&mut self) -> std::io::Result<(u64, Text)> {
        let (line, mut text) = (self.line, Vec::new());
        let limit = DOCUMENT_BYTES_MAX as u64;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut text)?;
        self.bytes += read as u64;
        self.line += 1;
        if text.len() == DOCUMENT_BYTES_MAX && text.last() != Some(&b'\n') {
            self.bytes += self.input.skip_until(b'\n')? as u64;
            return Ok((line, Err(TOO_LONG)));
        }
        Ok((line, Ok(text)))
    }

    /// A member of the array: up to the comma or bracket at its own depth, which is left in place.
    fn member_text(&mut self) -> std::io::Result<(u64, Text)> {
        let (line, mut text, mut long) = (self.line, Vec::new(), false);
        let (mut depth, mut string, mut escaped) = (0_usize, false, false);
        while let Some(byte) = self.look()? {
            if !string && depth == 0 && matches!(byte, b',' | b']') {
                break;
            }
            self.pass(byte);
            match text.len() < DOCUMENT_BYTES_MAX {
                true => text.push(byte),
                false => long = true,
            }
            match byte {
                _ if escaped => escaped = false,
                b'\\' if string => escaped = true,
                b'"' => string = !string,
                b'{' | b'[' if !string => depth += 1,
                b'}' | b']' if !string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok((line, if long { Err(TOO_LONG) } else { Ok(text) }))
    }

    /// FNV-1a: told apart are files that were changed, not files that were forged.
    fn digested(&mut self, text: &[u8]) -> u64 {
        for byte in text.trim_ascii_end().iter().chain(b"\n") {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.digest
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = std::io::Result<Item>;

    fn next(&mut self) -> Option<Self::Item> {
        let (line, text) = match self.advance() {
            Ok(found) => found?,
            Err(error) => {
                self.form = Some(Form::Ended);
                return Some(Err(error));
            }
        };
        self.number += 1;
        let place = Place {
            number: self.number,
            line,
            member: self.form != Some(Form::Lines) && text.is_ok(),
            digest: self.digested(text.as_deref().unwrap_or_default()),
        };
        let document = match text {
            Err(reason) => Err(reason.to_owned()),
            Ok(text) => {
                ejson::parse_document(&text).map_err(|error| match error.pointer.is_empty() {
                    true => error.detail,
                    false => format!("{} at {}", error.detail, error.pointer),
                })
            }
        };
        Some(Ok(Item { place, document }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line numbers, negative for bad ones.
    fn lines(text: &str) -> Vec<i64> {
        Documents::new(text.as_bytes())
            .map(|item| {
                let item = item.expect("memory can be read");
                let line = i64::try_from(item.place.line).expect("small");
                match item.document {
                    Ok(_) => line,
                    Err(_) => -line,
                }
            })
            .collect()
    }

    #[test]
    fn lines_of_ndjson() {
        assert_eq!(
            lines("{\"a\":1}\n\n{\"a\":2}\r\nnonsense\n{\"a\":3}"),
            [1, 3, -4, 5]
        );
        assert_eq!(lines(""), [0_i64; 0]);
        assert_eq!(lines("\n\n"), [0_i64; 0]);
    }

    #[test]
    fn members_of_an_array() {
        assert_eq!(lines("[]"), [0_i64; 0]);
        assert_eq!(lines("[{\"a\":1},{\"a\":2}]"), [1, 1]);
        assert_eq!(
            lines("[\n{\"a\":\"],}\\\"{\"},\n{\"b\":\n[1,2]},\n5,\n{\"c\":1}\n]\n"),
            [2, 3, -5, 6]
        );
        assert_eq!(
            lines("[{\"a\":1},"),
            [1, -1],
            "a file that breaks off ends in a bad document"
        );
    }

    #[test]
    fn an_array_ends_with_its_bracket_and_the_file_with_it() {
        assert_eq!(lines("[{\"a\":1}] garbage"), [1, -1]);
        assert_eq!(lines("[{\"a\":1}\n]\n[{\"a\":2}]"), [1, -3]);
        assert_eq!(lines("[{\"a\":1}"), [1, -1]);
        assert_eq!(lines("["), [-1]);
        assert_eq!(lines("[] {}"), [-1]);
        assert_eq!(lines("[{\"a\":1},,\n{\"a\":2}]"), [1, -1, 2]);
        assert_eq!(lines("[{\"a\":1},]"), [1, -1]);
        assert_eq!(lines("[{\"a\":1} {\"a\":2},{\"a\":3}]"), [-1, 1]);
    }

    #[test]
    fn a_byte_order_mark_is_passed_over() {
        assert_eq!(lines("\u{feff}{\"a\":1}\r\n{\"a\":2}"), [1, 2]);
        assert_eq!(lines("\u{feff}[{\"a\":1}]"), [1]);
        assert_eq!(lines("\u{feff}"), [0_i64; 0]);
        assert_eq!(lines("\u{fec0}{\"a\":1}"), [-1]);
    }

    #[test]
    fn a_digest_tells_changed_texts_from_changed_line_ends() {
        let digest = |text: &str| {
            let last = Documents::new(text.as_bytes()).last();
            last.expect("one").expect("read").place.digest
        };
        assert_eq!(
            digest("{\"a\":1}\r\n{\"a\":2}"),
            digest("{\"a\":1}\n\n{\"a\":2}\n")
        );
        assert_ne!(
            digest("{\"a\":1}\n{\"a\":2}"),
            digest("{\"a\":3}\n{\"a\":2}")
        );
    }
}
