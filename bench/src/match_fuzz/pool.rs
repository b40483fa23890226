//! The records of a small shop, and single edits of them. Pools are small, so that queries and writes meet.

use bson::{Bson, Document, doc};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Different `_id`s. A third of them is there at a time, or two thirds.
pub(super) const IDS: i32 = 60;

/// Records of the other collection, which have the lowest of them.
const OTHERS: i32 = 24;

/// Choices, from a seed.
pub(super) struct Choice(StdRng);

impl Choice {
    pub(super) fn of(seed: u64) -> Choice {
        Choice(StdRng::seed_from_u64(seed))
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    pub(super) fn seed(&mut self) -> u64 {
        self.0.random()
    }
}

/// Fields with one value each, as a rule.
pub(super) const SCALARS: [&str; 5] = ["category", "price", "stock", "name", "rated"];
/// Paths that a filter, an order or a projection may name.
pub(super) const PATHS: [&str; 14] = [
    "category",
    "price",
    "stock",
    "name",
    "rated",
    "tags",
    "size.w",
    "size.h",
    "lines.sku",
    "lines.count",
    "lines.0.count",
    "tags.0",
    "size",
    "note",
];

impl Choice {
    pub(super) fn id(&mut self) -> i32 {
        i32::try_from(self.below(IDS as usize)).unwrap_or(0)
    }

    /// One of the other collection.
    pub(super) fn other(&mut self) -> i32 {
        self.id() % OTHERS
    }

    pub(super) fn record(&mut self, id: i32) -> Document {
        let mut record = doc! { "_id": id };
        for field in SCALARS {
            if self.percent(90) {
                let value = self.value(field);
                record.insert(field, value);
            }
        }
        for field in ["tags", "size", "lines", "note"] {
            if self.percent(60) {
                let value = self.value(field);
                record.insert(field, value);
            }
        }
        record
    }

    /// A value for a path: mostly what belongs there.
    pub(super) fn value(&mut self, path: &str) -> Bson {
        if self.percent(4) {
            return self.odd();
        }
        match path {
            "category" => self.one(&["book", "toy", "food", "tool"]).into(),
            "price" | "size.w" | "size.h" => self.number(),
            "stock" | "lines.count" | "lines.0.count" => self.one(&[0, 1, 2, 3, 5, 8, 13]).into(),
            "name" => self.name().into(),
            "rated" => match self.below(8) {
                0 => Bson::Null,
                1 => Bson::Boolean(true),
                _ => bson::DateTime::from_millis(self.one(&[0, 1_000, 2_000, 3_000, -5])).into(),
            },
            "tags" => {
                let count = self.below(4);
                Bson::Array((0..count).map(|_| self.tag().into()).collect())
            }
            "tags.0" => self.tag().into(),
            "size" => doc! { "w": self.number(), "h": self.number() }.into(),
            "lines" => {
                let count = self.below(4);
                Bson::Array((0..count).map(|_| self.line().into()).collect())
            }
            "lines.sku" => self.one(&["p", "q", "r"]).into(),
            _ => self.one(&["", "x", "y"]).into(),
        }
    }

    pub(super) fn number(&mut self) -> Bson {
        match self.below(8) {
            0 => Bson::Double(self.one(&[0.5, 1.0, 2.5, -0.0, 4.0])),
            1 => Bson::Int64(self.one(&[1, 2, 4, 9_007_199_254_740_993])),
            2 => Bson::Decimal128(self.one(&["1", "2.50", "4E+0"]).parse().expect("a decimal")),
            _ => Bson::Int32(self.one(&[0, 1, 2, 3, 4, 5, 6, 7, 9])),
        }
    }

    pub(super) fn name(&mut self) -> String {
        let ends = ["", "a", "b", "an", "na", "B", "É"];
        format!(
            "{}{}",
            self.one(&["an", "ba", "Ba", "ca", ""]),
            self.one(&ends)
        )
    }

    pub(super) fn tag(&mut self) -> &'static str {
        self.one(&["red", "blue", "new", "sale", "old"])
    }

    pub(super) fn line(&mut self) -> Document {
        match self.below(6) {
            0 => doc! { "sku": self.value("lines.sku") },
            1 => doc! { "count": self.value("lines.count") },
            _ => doc! { "sku": self.value("lines.sku"), "count": self.value("lines.count") },
        }
    }

    /// What belongs nowhere.
    fn odd(&mut self) -> Bson {
        match self.below(10) {
            0 => Bson::Null,
            1 => Bson::Double(f64::NAN),
            2 => Bson::Array(Vec::new()),
            3 => Bson::Array(vec![Bson::Int32(1), Bson::Array(vec![Bson::Int32(2)])]),
            4 => doc! {}.into(),
            5 => doc! { "w": [1, 2], "sku": "p" }.into(),
            6 => Bson::MinKey,
            7 => Bson::Array(vec![Bson::Null, "red".into(), Bson::Int32(3)]),
            8 => Bson::Boolean(false),
            _ => Bson::String("1".to_owned()),
        }
    }

    /// An update of one field, or of one array.
    pub(super) fn update(&mut self) -> Document {
        match self.below(20) {
            0..10 => {
                let path = self.one(&PATHS);
                doc! { "$set": { path: self.value(path) } }
            }
            10 => doc! { "$unset": { self.one(&PATHS): "" } },
            11 => doc! { "$inc": { "stock": self.one(&[-1, 1, 2]) } },
            12 => doc! { "$inc": { "price": self.one(&[-1, 1]) } },
            13 => doc! { "$push": { "tags": self.tag() } },
            14 => doc! { "$addToSet": { "tags": self.tag() } },
            15 => doc! { "$pull": { "tags": self.tag() } },
            16 => doc! { "$pop": { self.one(&["tags", "lines"]): self.one(&[-1, 1]) } },
            17 => doc! { "$push": { "lines": self.line() } },
            18 => doc! { "$pull": { "lines": { "sku": self.value("lines.sku") } } },
            _ => doc! { "$inc": { "lines.$[].count": 1 } },
        }
    }
}
