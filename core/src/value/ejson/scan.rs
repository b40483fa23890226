//! The tokens of JSON (RFC 8259), strict: no lone surrogate, no raw control character, no second spelling
//! of a number. Strings without an escape are borrowed from the text.

use std::borrow::Cow;

use super::EjsonError;

/// A place in a JSON text.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

/// A number's spelling: whether it has a fraction or an exponent.
pub(super) enum Spelling<'a> {
    Integer(&'a str),
    Real(&'a str),
}

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Scanner<'a>, EjsonError> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            EjsonError::new(format!("invalid UTF-8 at byte {}", error.valid_up_to()))
        })?;
        Ok(Scanner { text, at: 0 })
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    pub(super) fn error(&self, what: &str) -> EjsonError {
        EjsonError::new(format!("{what} at byte {}", self.at))
    }

    /// The next byte that is not white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        let bytes = self.bytes();
        while let Some(byte) = bytes.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), EjsonError> {
        if self.take(byte) {
            Ok(())
        } else {
            Err(self.error(&format!("expected '{}'", char::from(byte))))
        }
    }

    /// After a member: whether another one follows, or the container ends with `close`.
    pub(super) fn more(&mut self, close: u8) -> Result<bool, EjsonError> {
        if self.take(b',') {
            Ok(true)
        } else if self.take(close) {
            Ok(false)
        } else {
            Err(self.error(&format!("expected ',' or '{}'", char::from(close))))
        }
    }

    pub(super) fn expect_end(&mut self) -> Result<(), EjsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.error("unexpected text after the value")),
        }
    }

    pub(super) fn literal(&mut self, word: &str) -> Result<(), EjsonError> {
        if self.bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(())
        } else {
            Err(self.error("expected a value"))
        }
    }

    pub(super) fn string(&mut self) -> Result<Cow<'a, str>, EjsonError> {
        self.expect(b'"')?;
        let start = self.at;
        self.skip_plain();
        if self.bytes().get(self.at) == Some(&b'"') {
            self.at += 1;
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut owned = String::from(&self.text[start..self.at]);
        loop {
            match self.bytes().get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(owned));
                }
                Some(b'\\') => {
                    self.at += 1;
                    owned.push(self.escape()?);
                }
                Some(_) => return Err(self.error("control character in a string")),
                None => return Err(self.error("unterminated string")),
            }
            let plain = self.at;
            self.skip_plain();
            owned.push_str(&self.text[plain..self.at]);
        }
    }

    /// Up to the next quote, backslash or control character; all ASCII, so a character boundary.
    fn skip_plain(&mut self) {
        let rest = &self.bytes()[self.at..];
        self.at += rest
            .iter()
            .position(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\')
            .unwrap_or(rest.len());
    }

    fn escape(&mut self) -> Result<char, EjsonError> {
        let byte = self.bytes().get(self.at).copied();
        self.at += 1;
        Ok(match byte {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.escaped_unit(),
            _ => {
                self.at -= 1;
                return Err(self.error("invalid escape"));
            }
        })
    }

    fn escaped_unit(&mut self) -> Result<char, EjsonError> {
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        // A surrogate: only the leading one, with its trailing one right behind.
        if first < 0xdc00 && self.bytes()[self.at..].starts_with(b"\\u") {
            self.at += 2;
            let second = self.hex4()?;
            if (0xdc00..0xe000).contains(&second) {
                let scalar = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(scalar).ok_or_else(|| self.error("invalid escape"));
            }
        }
        Err(self.error("lone surrogate"))
    }

    fn hex4(&mut self) -> Result<u32, EjsonError> {
        let digits = self.bytes().get(self.at..self.at + 4);
        let unit = digits.and_then(|digits| {
            digits.iter().try_fold(0, |unit, digit| {
                Some(unit * 16 + char::from(*digit).to_digit(16)?)
            })
        });
        let unit = unit.ok_or_else(|| self.error("invalid escape"))?;
        self.at += 4;
        Ok(unit)
    }

    pub(super) fn number(&mut self) -> Result<Spelling<'a>, EjsonError> {
        let rest = &self.bytes()[self.at..];
        let (len, real) = number_len(rest).ok_or_else(|| self.error("invalid number"))?;
        let text = &self.text[self.at..self.at + len];
        self.at += len;
        Ok(if real {
            Spelling::Real(text)
        } else {
            Spelling::Integer(text)
        })
    }
}

/// Bytes of the number that `text` begins with, and whether it has a fraction or an exponent.
pub(super) fn number_len(text: &[u8]) -> Option<(usize, bool)> {
    let digits = |at: usize| {
        let rest = text.get(at..).unwrap_or_default();
        rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut at = usize::from(text.first() == Some(&b'-'));
    let whole = digits(at);
    if whole == 0 || (whole > 1 && text[at] == b'0') {
        return None;
    }
    at += whole;
    let mut real = false;
    if text.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if fraction == 0 {
            return None;
        }
        at += 1 + fraction;
        real = true;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let exponent = digits(at + 1 + sign);
        if exponent == 0 {
            return None;
        }
        at += 1 + sign + exponent;
        real = true;
    }
    Some((at, real))
}
