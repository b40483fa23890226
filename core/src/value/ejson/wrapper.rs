//! The type wrappers of Extended JSON v2: `{"$oid": …}` and its relatives. Strict: the inner value has the
//! type the specification gives it, and nothing stands beside it.

use std::borrow::Cow;

use bson::spec::{BinarySubtype, ElementType};
use bson::{Decimal128, RawBinaryRef};

use super::parse::{Parser, deeper};
use super::scan::{Spelling, number_len};
use super::{EjsonError, base64, date};

type Parsed<T> = Result<T, EjsonError>;

/// Bytes of a `$numberDecimal` text at most: 34 digits, sign, point, exponent, and zeros to spare.
const DECIMAL_TEXT_BYTES_MAX: usize = 128;

impl<'a> Parser<'a> {
    /// Writes the value of the wrapper `name`, whose colon is next; `None` when it is no wrapper's name and
    /// nothing was read.
    pub(super) fn wrapper(&mut self, name: &str, depth: u32) -> Parsed<Option<ElementType>> {
        let kind = match name {
            "$code" | "$scope" => return self.code(name, depth).map(Some),
            "$oid" => ElementType::ObjectId,
            "$symbol" => ElementType::Symbol,
            "$numberInt" => ElementType::Int32,
            "$numberLong" => ElementType::Int64,
            "$numberDouble" => ElementType::Double,
            "$numberDecimal" => ElementType::Decimal128,
            "$date" => ElementType::DateTime,
            "$binary" | "$uuid" => ElementType::Binary,
            "$regularExpression" => ElementType::RegularExpression,
            "$timestamp" => ElementType::Timestamp,
            "$dbPointer" => ElementType::DbPointer,
            "$minKey" => ElementType::MinKey,
            "$maxKey" => ElementType::MaxKey,
            "$undefined" => ElementType::Undefined,
            _ => return Ok(None),
        };
        self.scanner.expect(b':')?;
        self.inner(name).map_err(|error| error.within(name))?;
        if !self.scanner.take(b'}') {
            return Err(EjsonError::new(format!(
                "{name} must be the object's only field"
            )));
        }
        Ok(Some(kind))
    }

    fn inner(&mut self, name: &str) -> Parsed<()> {
        match name {
            "$oid" => self.object_id(),
            "$symbol" => {
                let text = self.text()?;
                self.out.put_str(&text);
                Ok(())
            }
            "$numberInt" => {
                let n: i32 = self.integer_text()?;
                self.out.put(&n.to_le_bytes());
                Ok(())
            }
            "$numberLong" => {
                let n: i64 = self.integer_text()?;
                self.out.put(&n.to_le_bytes());
                Ok(())
            }
            "$numberDouble" => self.double_text(),
            "$numberDecimal" => self.decimal_text(),
            "$date" => self.date(),
            "$binary" => self.binary(),
            "$uuid" => self.uuid(),
            "$regularExpression" => self.regular_expression(),
            "$timestamp" => self.timestamp(),
            "$dbPointer" => self.db_pointer(),
            "$undefined" if self.scanner.peek() == Some(b't') => self.scanner.literal("true"),
            "$undefined" => Err(EjsonError::new("expected true")),
            _ => self.one(),
        }
    }

    fn text(&mut self) -> Parsed<Cow<'a, str>> {
        if self.scanner.peek() != Some(b'"') {
            return Err(EjsonError::new("expected a string"));
        }
        self.scanner.string()
    }

    fn one(&mut self) -> Parsed<()> {
        if self.unsigned(1)? == 1 {
            return Ok(());
        }
        Err(EjsonError::new("expected 1"))
    }

    fn unsigned(&mut self, max: u32) -> Parsed<u32> {
        let wrong = || EjsonError::new(format!("expected an integer from 0 to {max}"));
        if !matches!(self.scanner.peek(), Some(b'-' | b'0'..=b'9')) {
            return Err(wrong());
        }
        match self.scanner.number()? {
            Spelling::Integer(text) => text.parse().ok().filter(|n| *n <= max).ok_or_else(wrong),
            Spelling::Real(_) => Err(wrong()),
        }
    }

    /// The members of an inner object: each of `names` once, in any order.
    fn fields(
        &mut self,
        names: [&str; 2],
        mut read: impl FnMut(&mut Parser<'a>, usize) -> Parsed<()>,
    ) -> Parsed<()> {
        if !self.scanner.take(b'{') {
            return Err(EjsonError::new("expected an object"));
        }
        let mut seen = [false; 2];
        let wrong = || EjsonError::new(format!("expected exactly {} and {}", names[0], names[1]));
        if self.scanner.take(b'}') {
            return Err(wrong());
        }
        loop {
            let name = self.scanner.string()?;
            let field = names.iter().position(|n| *n == name).ok_or_else(wrong)?;
            if std::mem::replace(&mut seen[field], true) {
                return Err(EjsonError::new("the field occurs twice").within(names[field]));
            }
            self.scanner.expect(b':')?;
            read(self, field).map_err(|error| error.within(names[field]))?;
            if !self.scanner.more(b'}')? {
                break;
            }
        }
        if seen == [true, true] {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    /// An object with this one member.
    fn only<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Parser<'a>) -> Parsed<T>,
    ) -> Parsed<T> {
        let wrong = || EjsonError::new(format!("expected exactly {name}"));
        if !self.scanner.take(b'{') || self.scanner.peek() != Some(b'"') {
            return Err(wrong());
        }
        if self.scanner.string()? != name {
            return Err(wrong());
        }
        self.scanner.expect(b':')?;
        let value = read(self).map_err(|error| error.within(name))?;
        if self.scanner.take(b'}') {
            Ok(value)
        } else {
            Err(wrong())
        }
    }

    fn object_id(&mut self) -> Parsed<()> {
        let text = self.text()?;
        let id = hex_bytes::<12>(&text)
            .ok_or_else(|| EjsonError::new("expected 24 hexadecimal digits"))?;
        self.out.put(&id);
        Ok(())
    }

    fn integer_text<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        let text = self.text()?;
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        plain
            .then(|| text.parse().ok())
            .flatten()
            .ok_or_else(|| EjsonError::new("expected a string with an integer within the range"))
    }

    fn double_text(&mut self) -> Parsed<()> {
        let text = self.text()?;
        let n: Option<f64> = match text.as_ref() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            // Finite text must not become infinite.
            number if number_len(number.as_bytes()).is_some_and(|(len, _)| len == number.len()) => {
                number.parse().ok().filter(|n: &f64| n.is_finite())
            }
            _ => None,
        };
        let n = n.ok_or_else(|| EjsonError::new("expected a string with a double"))?;
        self.out.put(&n.to_le_bytes());
        Ok(())
    }

    fn decimal_text(&mut self) -> Parsed<()> {
        let text = self.text()?;
        let n: Option<Decimal128> = (text.len() <= DECIMAL_TEXT_BYTES_MAX)
            .then(|| text.parse().ok())
            .flatten();
        let n = n.ok_or_else(|| {
            EjsonError::new("expected a string with a decimal of at most 34 digits")
        })?;
        self.out.put(&n.bytes());
        Ok(())
    }

    fn date(&mut self) -> Parsed<()> {
        let ms = match self.scanner.peek() {
            Some(b'"') => date::parse(&self.scanner.string()?),
            Some(b'{') => Some(self.only("$numberLong", Parser::integer_text::<i64>)?),
            _ => None,
        };
        let ms = ms.ok_or_else(|| {
            EjsonError::new("expected an ISO 8601 date with milliseconds at most, or $numberLong")
        })?;
        self.out.put(&ms.to_le_bytes());
        Ok(())
    }

    fn binary(&mut self) -> Parsed<()> {
        let (mut bytes, mut subtype) = (Vec::new(), 0);
        self.fields(["base64", "subType"], |parser, field| {
            let text = parser.text()?;
            if field == 0 {
                bytes = base64::decode(&text)
                    .ok_or_else(|| EjsonError::new("expected base 64 with padding"))?;
            } else {
                let hex =
                    matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_hexdigit());
                subtype = hex
                    .then(|| u8::from_str_radix(&text, 16).ok())
                    .flatten()
                    .ok_or_else(|| EjsonError::new("expected one or two hexadecimal digits"))?;
            }
            Ok(())
        })?;
        self.out.put_binary(RawBinaryRef {
            subtype: BinarySubtype::from(subtype),
            bytes: &bytes,
        });
        Ok(())
    }

    fn uuid(&mut self) -> Parsed<()> {
        let text = self.text()?;
        let dashed =
            text.len() == 36 && [8, 13, 18, 23].iter().all(|i| text.as_bytes()[*i] == b'-');
        let bytes = dashed
            .then(|| hex_bytes::<16>(&text.replace('-', "")))
            .flatten()
            .ok_or_else(|| EjsonError::new("expected a UUID"))?;
        self.out.put_binary(RawBinaryRef {
            subtype: BinarySubtype::Uuid,
            bytes: &bytes,
        });
        Ok(())
    }

    fn regular_expression(&mut self) -> Parsed<()> {
        let (mut pattern, mut options) = (Cow::Borrowed(""), Cow::Borrowed(""));
        self.fields(["pattern", "options"], |parser, field| {
            let text = parser.text()?;
            if text.as_bytes().contains(&0) {
                return Err(EjsonError::new("a regular expression must not hold U+0000"));
            }
            *(if field == 0 {
                &mut pattern
            } else {
                &mut options
            }) = text;
            Ok(())
        })?;
        // BSON stores options in alphabetical order.
        let mut sorted: Vec<char> = options.chars().collect();
        sorted.sort_unstable();
        self.out.put_cstr(&pattern);
        self.out.put_cstr(&String::from_iter(sorted));
        Ok(())
    }

    fn timestamp(&mut self) -> Parsed<()> {
        let mut parts = [0; 2];
        self.fields(["t", "i"], |parser, field| {
            parts[field] = parser.unsigned(u32::MAX)?;
            Ok(())
        })?;
        // The increment is the lower half.
        self.out.put(&parts[1].to_le_bytes());
        self.out.put(&parts[0].to_le_bytes());
        Ok(())
    }

    fn db_pointer(&mut self) -> Parsed<()> {
        let (mut namespace, mut id) = (Cow::Borrowed(""), Vec::new());
        self.fields(["$ref", "$id"], |parser, field| {
            if field == 0 {
                namespace = parser.text()?;
                return Ok(());
            }
            let from = parser.out.len();
            parser.only("$oid", Parser::object_id)?;
            id = parser.out.split_off(from);
            Ok(())
        })?;
        self.out.put_str(&namespace);
        self.out.put(&id);
        Ok(())
    }

    /// `$code`, with or without `$scope`, in either order.
    fn code(&mut self, first: &str, depth: u32) -> Parsed<ElementType> {
        let (mut code, mut scope) = (None, None);
        let mut name = Cow::Borrowed(first);
        loop {
            self.scanner.expect(b':')?;
            match name.as_ref() {
                "$code" if code.is_none() => {
                    code = Some(self.text().map_err(|error| error.within("$code"))?);
                }
                "$scope" if scope.is_none() => {
                    let bytes = self.scope(depth);
                    scope = Some(bytes.map_err(|error| error.within("$scope"))?);
                }
                _ => return Err(EjsonError::new("only $code and $scope may stand here")),
            }
            if !self.scanner.more(b'}')? {
                break;
            }
            name = Cow::Owned(self.scanner.string()?.into_owned());
        }
        let code = code.ok_or_else(|| EjsonError::new("$scope needs $code"))?;
        Ok(match scope {
            None => {
                self.out.put_str(&code);
                ElementType::JavaScriptCode
            }
            Some(scope) => {
                self.out.put_code_with_scope(&code, &scope);
                ElementType::JavaScriptCodeWithScope
            }
        })
    }

    fn scope(&mut self, depth: u32) -> Parsed<Vec<u8>> {
        let from = self.out.len();
        // One level more for the value that the scope belongs to.
        if self.value(deeper(depth)?)? != ElementType::EmbeddedDocument {
            return Err(EjsonError::new("expected a document"));
        }
        Ok(self.out.split_off(from))
    }
}

fn hex_bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |b: u8| char::from(b).to_digit(16);
        *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
    }
    Some(bytes)
}
