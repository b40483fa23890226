//! A file as a sequence of documents with their line numbers: NDJSON, or one JSON array whose members may span lines.
//! The first character that is not white space tells which. Memory holds one document at a time.

use std::io::{BufRead, ErrorKind, Read};

use bson::oid::ObjectId;
use bson::{RawDocument, RawDocumentBuf};
use freshet_core::value::ejson;

/// The largest text of one document: Extended JSON of MongoDB's 16 MiB, generously.
const DOCUMENT_BYTES_MAX: usize = 64 << 20;

/// A document of the file.
#[derive(Clone, Debug)]
pub struct Document {
    /// The line it begins on, from 1.
    pub line: u64,
    /// It, with an `_id`.
    pub document: RawDocumentBuf,
}

/// Why there is no document here.
#[derive(Debug)]
pub enum FileError {
    /// The file cannot be read on.
    Read(std::io::Error),
    /// This one is not a document.
    Bad {
        /// The line it begins on.
        line: u64,
        /// What is wrong.
        reason: String,
    },
}

/// The documents of a file.
pub struct Documents<R> {
    input: R,
    line: u64,
    bytes: u64,
    form: Option<Form>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Lines,
    Array,
    Ended,
}

impl<R: BufRead> Documents<R> {
    /// Reads from the beginning of `input`.
    pub fn new(input: R) -> Documents<R> {
        Documents {
            input,
            line: 1,
            bytes: 0,
            form: None,
        }
    }

    /// The bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Passes over white space, and says what comes then.
    fn peek(&mut self) -> std::io::Result<Option<u8>> {
        loop {
            let buffer = match self.input.fill_buf() {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            let Some(&byte) = buffer.first() else {
                return Ok(None);
            };
            if !byte.is_ascii_whitespace() {
                return Ok(Some(byte));
            }
            self.pass(byte);
        }
    }

    fn pass(&mut self, byte: u8) {
        self.input.consume(1);
        self.bytes += 1;
        self.line += u64::from(byte == b'\n');
    }

    fn advance(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let Some(first) = self.peek()? else {
            return Ok(None);
        };
        let form = *self.form.get_or_insert(match first {
            b'[' => Form::Array,
            _ => Form::Lines,
        });
        match form {
            Form::Ended => Ok(None),
            Form::Lines => self.line_text().map(Some),
            Form::Array => {
                // `[` before the first member, `,` before the others, `]` at the end.
                self.pass(first);
                if first == b']' {
                    self.form = Some(Form::Ended);
                    return Ok(None);
                }
                match self.peek()? {
                    Some(b']') if first == b'[' => {
                        self.form = Some(Form::Ended);
                        Ok(None)
                    }
                    Some(_) => self.member_text().map(Some),
                    None => Ok(Some(Vec::new())),
                }
            }
        }
    }

    fn line_text(&mut self) -> std::io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let limit = DOCUMENT_BYTES_MAX as u64;
        let read = (&mut self.input).take(limit).read_until(b'\n', &mut text)?;
        self.bytes += read as u64;
        Ok(text)
    }

    /// A member of the array: up to the comma or bracket at its own depth, which is left in place.
    fn member_text(&mut self) -> std::io::Result<Vec<u8>> {
        let (mut text, mut depth, mut string, mut escaped) = (Vec::new(), 0_usize, false, false);
        while text.len() < DOCUMENT_BYTES_MAX {
            let Some(&byte) = self.input.fill_buf()?.first() else {
                break;
            };
            if !string && depth == 0 && matches!(byte, b',' | b']') {
                break;
            }
            self.pass(byte);
            text.push(byte);
            match byte {
                _ if escaped => escaped = false,
                b'\\' if string => escaped = true,
                b'"' => string = !string,
                b'{' | b'[' if !string => depth += 1,
                b'}' | b']' if !string => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        Ok(text)
    }
}

impl<R: BufRead> Iterator for Documents<R> {
    type Item = Result<Document, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = match self.advance() {
            Ok(text) => text?,
            Err(error) => {
                self.form = Some(Form::Ended);
                return Some(Err(FileError::Read(error)));
            }
        };
        // A line's own end has not been counted yet; a member's lines have.
        let inside = text.iter().filter(|byte| **byte == b'\n').count() as u64;
        let line = match self.form {
            Some(Form::Lines) => self.line,
            _ => self.line.saturating_sub(inside),
        };
        if self.form == Some(Form::Lines) {
            self.line += inside;
        }
        if text.is_empty() {
            self.form = Some(Form::Ended);
        }
        Some(match ejson::parse_document(&text) {
            Ok(document) => Ok(Document {
                line,
                document: identified(document),
            }),
            Err(error) => Err(FileError::Bad {
                line,
                reason: match error.pointer.is_empty() {
                    true => error.detail,
                    false => format!("{} at {}", error.detail, error.pointer),
                },
            }),
        })
    }
}

fn identified(document: RawDocumentBuf) -> RawDocumentBuf {
    if matches!(document.get("_id"), Ok(Some(_))) {
        return document;
    }
    let mut whole = RawDocumentBuf::new();
    whole.append(bson::cstr!("_id"), ObjectId::new());
    let rest: &RawDocument = &document;
    for (name, value) in rest.iter().flatten() {
        whole.append(name, value);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Line numbers, negative for bad ones.
    fn lines(text: &str) -> Vec<i64> {
        Documents::new(text.as_bytes())
            .map(|item| match item {
                Ok(document) => i64::try_from(document.line).expect("small"),
                Err(FileError::Bad { line, .. }) => -i64::try_from(line).expect("small"),
                Err(FileError::Read(error)) => panic!("{error}"),
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
}
