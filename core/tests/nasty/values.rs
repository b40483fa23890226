//! Values and documents.

use bson::oid::ObjectId;
use bson::raw::CString;
use bson::spec::BinarySubtype;
use bson::{
    Binary, DateTime, Decimal128, RawBson, RawDocumentBuf, RawJavaScriptCodeWithScope, Regex,
    Timestamp,
};

use super::{Nasty, array, document};

/// 2^53 + 1: the first integer that a double cannot hold.
const BEYOND_DOUBLE: i64 = 9_007_199_254_740_993;

pub fn decimal(text: &str) -> RawBson {
    RawBson::Decimal128(text.parse::<Decimal128>().unwrap())
}

pub fn string(text: &str) -> RawBson {
    RawBson::String(text.to_owned())
}

pub fn regex(pattern: &str, options: &str) -> RawBson {
    RawBson::RegularExpression(Regex {
        pattern: CString::try_from(pattern).unwrap(),
        options: CString::try_from(options).unwrap(),
    })
}

pub fn binary(subtype: BinarySubtype, bytes: &[u8]) -> RawBson {
    RawBson::Binary(Binary {
        subtype,
        bytes: bytes.to_vec(),
    })
}

impl Nasty {
    /// A value without values in it, of any type that a filter may hold.
    pub fn scalar(&mut self) -> RawBson {
        match self.below(100) {
            0..12 => RawBson::Null,
            12..48 => self.number(),
            48..66 => self.text(),
            66..70 => RawBson::Boolean(self.percent(50)),
            70..75 => RawBson::DateTime(DateTime::from_millis(self.one(&[
                0,
                1,
                -1,
                1_600_000_000_000,
            ]))),
            75..79 => RawBson::ObjectId(
                self.one(&[ObjectId::from_bytes([0; 12]), ObjectId::from_bytes([7; 12])]),
            ),
            79..84 => self.bytes(),
            84..87 => RawBson::Timestamp(self.one(&[
                Timestamp {
                    time: 1,
                    increment: 0,
                },
                Timestamp {
                    time: 0,
                    increment: 9,
                },
            ])),
            87..92 => self.pattern(),
            92..94 => RawBson::MinKey,
            94..96 => RawBson::MaxKey,
            96..98 => array([]),
            _ => RawBson::Document(document([])),
        }
    }

    pub fn number(&mut self) -> RawBson {
        match self.below(12) {
            0..3 => RawBson::Int32(self.one(&[0, 1, 2, 3, 5, -1, -5, i32::MAX, i32::MIN])),
            3..5 => RawBson::Int64(self.one(&[
                0,
                1,
                2,
                5,
                -1,
                BEYOND_DOUBLE,
                BEYOND_DOUBLE - 1,
                i64::MAX,
                i64::MIN,
            ])),
            5..9 => RawBson::Double(self.one(&[
                0.0,
                -0.0,
                1.0,
                1.5,
                2.0,
                5.0,
                -1.5,
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                9_007_199_254_740_992.0,
                9.3e18,
                0.1,
                1e300,
                5e-324,
            ])),
            _ => decimal(self.one(&[
                "0",
                "-0",
                "0E+3",
                "1",
                "1.0",
                "1.5",
                "5",
                "-1",
                "NaN",
                "Infinity",
                "-Infinity",
                "0.1",
                "9007199254740993",
                "1E+3",
                "9223372036854775807",
                "9223372036854775808",
                "1E-6176",
                "2.50",
            ])),
        }
    }

    pub fn text(&mut self) -> RawBson {
        string(self.one(&[
            "",
            "a",
            "ab",
            "abc",
            "ABC",
            "b",
            "a\nb",
            "a\n",
            "é",
            "É",
            "z",
            "1",
            "0",
            "a b",
            "k",
            "\u{212a}",
            "\u{10ffff}",
            "\u{e000}",
            "a.b",
            "ſ",
            "aab",
            "x1_y",
        ]))
    }

    fn bytes(&mut self) -> RawBson {
        let subtype = self.one(&[
            BinarySubtype::Generic,
            BinarySubtype::Generic,
            BinarySubtype::Uuid,
        ]);
        match subtype {
            BinarySubtype::Generic => {
                let bytes = self.one(&[&[][..], &[1], &[5], &[0, 1], &[255, 0, 128], &[5, 0]]);
                binary(subtype, bytes)
            }
            _ => binary(subtype, &[3; 16]),
        }
    }

    pub fn pattern(&mut self) -> RawBson {
        let source = self.one(&[
            "a",
            "^a",
            "b$",
            "^ab?c*$",
            "^[a-c]+$",
            r"\d",
            r"^\w+$",
            "a|b",
            "a.b",
            "(ab)+",
            "^$",
            r"\bab",
            "[^a]",
            "É",
            "^a.*c",
            "K",
            r"a\nb",
            "(?i)ab",
            ".",
            "a{2}",
            r"[\w ]",
            "",
            r"^\s?a",
            "x[0-9]_",
            "a\\.b",
            "^(a|ab)(c|bcd)?$",
        ]);
        let options = self.one(&["", "", "", "i", "s", "m", "im", "x"]);
        regex(source, options)
    }

    /// A value that only stored documents have.
    fn deprecated(&mut self) -> RawBson {
        match self.below(6) {
            0..2 => RawBson::Undefined,
            // As an `_id` it loses its sign where the server answers from the index.
            4 => decimal("-NaN"),
            2 => RawBson::Symbol("a".to_owned()),
            3 => RawBson::JavaScriptCode("a".to_owned()),
            _ => RawBson::JavaScriptCodeWithScope(RawJavaScriptCodeWithScope {
                code: "a".to_owned(),
                scope: document([("a", RawBson::Int32(1))]),
            }),
        }
    }

    /// Any value that a filter may hold.
    pub fn operand(&mut self) -> RawBson {
        self.value(2, false)
    }

    fn value(&mut self, depth: usize, stored: bool) -> RawBson {
        if stored && self.percent(5) {
            return self.deprecated();
        }
        match self.below(100) {
            0..25 if depth > 0 => {
                let count = self.below(4);
                array((0..count).map(|_| self.value(depth - 1, stored)))
            }
            25..50 if depth > 0 => RawBson::Document(self.fields(depth - 1, stored)),
            _ => self.scalar(),
        }
    }

    fn fields(&mut self, depth: usize, stored: bool) -> RawDocumentBuf {
        let mut names: Vec<&str> = Vec::new();
        for _ in 0..self.below(4) {
            let name = self.one(&["a", "b", "b", "c", "0", "1", "", "b.c"]);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let fields: Vec<_> = names
            .into_iter()
            .map(|name| (name, self.value(depth, stored)))
            .collect();
        document(fields)
    }

    /// A stored document with this `_id`.
    pub fn stored(&mut self, id: i32) -> RawDocumentBuf {
        let mut fields = vec![("_id", RawBson::Int32(id))];
        for name in ["a", "b", "c"] {
            if self.percent(70) {
                fields.push((name, self.value(3, true)));
            }
        }
        if self.percent(50) {
            let last = fields.len() - 1;
            fields.swap(1.min(last), 2.min(last));
        }
        document(fields)
    }
}
