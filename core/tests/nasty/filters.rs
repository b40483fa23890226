//! Filters.

use bson::{RawBson, RawDocumentBuf};

use super::values::string;
use super::{Nasty, array, document};

const PATHS: [&str; 30] = [
    "a", "a", "a", "b", "b", "c", "a.b", "a.b", "b.a", "a.a", "a.c", "a.0", "a.1", "b.0", "a.0.b",
    "a.b.0", "a.0.0", "a.b.c", "a.1.0", "b.0.a", "a.0.0.b", "a.b.b.b", "_id", "a.", "", ".a",
    "a..b", "a.00", "d", "a.0.1.0",
];

const TYPES: [&str; 23] = [
    "number",
    "array",
    "object",
    "string",
    "null",
    "int",
    "long",
    "double",
    "decimal",
    "bool",
    "date",
    "binData",
    "objectId",
    "regex",
    "undefined",
    "symbol",
    "javascript",
    "javascriptWithScope",
    "timestamp",
    "minKey",
    "maxKey",
    "dbPointer",
    "array",
];

impl Nasty {
    /// A filter that the server takes.
    pub fn filter(&mut self) -> RawDocumentBuf {
        self.conjunction(3)
    }

    fn conjunction(&mut self, depth: usize) -> RawDocumentBuf {
        let mut names: Vec<&str> = Vec::new();
        let mut fields = Vec::new();
        let count = self.one(&[0, 1, 1, 1, 1, 1, 1, 2, 2, 3]);
        for _ in 0..count {
            let name = if depth > 0 && self.percent(25) {
                self.one(&["$and", "$or", "$or", "$nor"])
            } else {
                self.one(&PATHS[..])
            };
            if names.contains(&name) {
                continue;
            }
            names.push(name);
            let value = if name.starts_with('$') {
                self.members(depth - 1)
            } else {
                self.on_path(depth)
            };
            fields.push((name, value));
        }
        document(fields)
    }

    fn members(&mut self, depth: usize) -> RawBson {
        let count = 1 + self.below(3);
        array((0..count).map(|_| RawBson::Document(self.conjunction(depth))))
    }

    fn on_path(&mut self, depth: usize) -> RawBson {
        match self.below(10) {
            0..3 => self.literal(),
            _ => self.operators(depth),
        }
    }

    /// An operand that does not look like an operator object.
    fn literal(&mut self) -> RawBson {
        self.operand()
    }

    fn operators(&mut self, depth: usize) -> RawBson {
        let mut fields: Vec<(&str, RawBson)> = Vec::new();
        for _ in 0..self.one(&[1, 1, 1, 1, 2, 2, 3]) {
            for field in self.operator(depth) {
                if !fields.iter().any(|(name, _)| *name == field.0) {
                    fields.push(field);
                }
            }
        }
        RawBson::Document(document(fields))
    }

    fn operator(&mut self, depth: usize) -> Vec<(&'static str, RawBson)> {
        let name = self.one(&[
            "$eq",
            "$ne",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$gt",
            "$gte",
            "$lt",
            "$lte",
            "$in",
            "$in",
            "$nin",
            "$exists",
            "$type",
            "$type",
            "$regex",
            "$mod",
            "$all",
            "$all",
            "$elemMatch",
            "$elemMatch",
            "$elemMatch",
            "$size",
            "$not",
            "$not",
            "bits",
        ]);
        let operand = match name {
            "$eq" => self.literal(),
            "$ne" | "$gt" | "$gte" | "$lt" | "$lte" => self.not_regex(),
            "$in" | "$nin" => {
                let count = self.below(5);
                array((0..count).map(|_| self.literal()))
            }
            "$exists" => RawBson::Boolean(self.percent(60)),
            "$type" if self.percent(40) => {
                let count = 1 + self.below(3);
                array((0..count).map(|_| string(self.one(&TYPES[..]))))
            }
            "$type" => string(self.one(&TYPES[..])),
            "$regex" => return self.regex_fields(),
            "$mod" => {
                let divisor = self.one(&[1, 2, 3, -2, 5]);
                array([
                    RawBson::Int32(divisor),
                    RawBson::Int32(self.one(&[0, 1, -1])),
                ])
            }
            "$all" => self.all(depth),
            "$elemMatch" => self.elem_match(depth),
            "$size" => RawBson::Int32(self.one(&[0, 1, 2, 3])),
            "$not" if depth > 0 => match self.percent(15) {
                true => self.pattern(),
                false => self.operators(depth - 1),
            },
            "$not" => self.pattern(),
            _ => return vec![self.bit_test()],
        };
        vec![(name, operand)]
    }

    fn not_regex(&mut self) -> RawBson {
        loop {
            let operand = self.literal();
            if !matches!(operand, RawBson::RegularExpression(_)) {
                return operand;
            }
        }
    }

    fn regex_fields(&mut self) -> Vec<(&'static str, RawBson)> {
        match self.pattern() {
            RawBson::RegularExpression(regex) if self.percent(50) => vec![
                ("$regex", string(regex.pattern.as_str())),
                ("$options", string(regex.options.as_str())),
            ],
            regex => vec![("$regex", regex)],
        }
    }

    fn all(&mut self, depth: usize) -> RawBson {
        let count = self.below(3);
        if depth > 0 && self.percent(30) {
            return array((0..count).map(|_| {
                let inner = self.elem_match(depth);
                RawBson::Document(document([("$elemMatch", inner)]))
            }));
        }
        array((0..count).map(|_| self.literal()))
    }

    fn elem_match(&mut self, depth: usize) -> RawBson {
        match depth {
            0 => RawBson::Document(document([("$exists", RawBson::Boolean(true))])),
            _ if self.percent(50) => self.operators(depth - 1),
            _ => RawBson::Document(self.conjunction(depth - 1)),
        }
    }

    fn bit_test(&mut self) -> (&'static str, RawBson) {
        let name = self.one(&[
            "$bitsAllSet",
            "$bitsAllClear",
            "$bitsAnySet",
            "$bitsAnyClear",
        ]);
        let mask = match self.below(3) {
            0 => RawBson::Int64(self.one(&[0, 1, 5, 128, i64::MAX])),
            1 => super::values::binary(
                bson::spec::BinarySubtype::Generic,
                &self.one(&[[1, 0], [5, 128], [0, 0]]),
            ),
            _ => {
                let count = self.below(3);
                array((0..count).map(|_| RawBson::Int32(self.one(&[0, 2, 7, 62, 63, 64, 200]))))
            }
        };
        (name, mask)
    }
}
