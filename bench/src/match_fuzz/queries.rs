//! Random queries over the shop's records: every operator that is matched, orders through arrays and dotted paths,
//! pages, projections, counts.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::case::{Asked, What};
use super::pool::{Choice, IDS, PATHS};

/// What one filter and order is asked as.
const PAGES_PER_FAMILY: usize = 6;

impl Choice {
    /// Queries with one filter: pages of one order, and a count.
    pub(super) fn family(&mut self) -> Vec<Asked> {
        let filter = self.filter(2);
        let filter = RawDocumentBuf::try_from(&filter).expect("a document");
        let sort = self.sort();
        let mut family: Vec<Asked> = (0..PAGES_PER_FAMILY)
            .map(|_| Asked {
                filter: filter.clone(),
                what: self.page(&sort),
            })
            .collect();
        if self.percent(50) {
            family.push(Asked {
                filter,
                what: What::Count,
            });
        }
        family
    }

    pub(super) fn page(&mut self, sort: &str) -> What {
        What::Page {
            sort: sort.to_owned(),
            skip: match self.below(4) {
                0 => self.one(&[1, 1, 2, 2, 3, 5, 10]),
                _ => 0,
            },
            limit: self.one(&[1, 2, 3, 5, 8, 10, 20, 100]),
            fields: self.fields(),
            ids: self.percent(20),
        }
    }

    fn sort(&mut self) -> String {
        let of = [
            "",
            "",
            "",
            "-_id",
            "price",
            "-price",
            "stock",
            "-stock,name",
            "category,-price",
            "name",
            "-name",
            "rated",
            "-rated,stock",
            "tags",
            "-tags",
            "size.w",
            "-size.h,price",
            "lines.count",
            "-lines.sku",
            "lines.sku,-lines.count",
            "lines.0.count",
            "tags.0",
            "size",
            "category,stock,price",
            "-lines.count,category",
            "note,-_id",
        ];
        self.one(&of).to_owned()
    }

    fn fields(&mut self) -> String {
        let of = [
            "",
            "",
            "",
            "category",
            "price,stock",
            "name",
            "-_id,name",
            "size.w",
            "lines.sku",
            "tags",
            "-tags",
            "-lines",
            "-size.h",
            "-_id",
            "-price,-stock",
            "note",
            "-note,-rated",
            "-lines.count",
            "lines.count,category",
            "_id",
        ];
        self.one(&of).to_owned()
    }

    pub(super) fn filter(&mut self, depth: usize) -> Document {
        let mut filter = Document::new();
        for _ in 0..self.one(&[0, 1, 1, 1, 1, 1, 2, 2, 3]) {
            match self.below(if depth > 0 { 12 } else { 9 }) {
                9 => drop(filter.insert("$or", self.clauses(depth))),
                10 => drop(filter.insert("$nor", self.clauses(depth))),
                11 => drop(filter.insert("$and", self.clauses(depth))),
                0 if self.percent(30) => drop(filter.insert("_id", self.on_id())),
                _ => {
                    let path = self.one(&PATHS);
                    let value = self.on_path(path, depth);
                    filter.insert(path, value);
                }
            }
        }
        filter
    }

    fn clauses(&mut self, depth: usize) -> Bson {
        let count = 1 + self.below(3);
        let clause = |choice: &mut Choice| loop {
            let clause = choice.filter(depth - 1);
            if !clause.is_empty() {
                return Bson::from(clause);
            }
        };
        Bson::Array((0..count).map(|_| clause(self)).collect())
    }

    fn on_id(&mut self) -> Bson {
        match self.below(4) {
            0 => Bson::from(self.id()),
            1 => doc! { "$in": [self.id(), self.id(), self.id()] }.into(),
            2 => doc! { "$gt": self.id() }.into(),
            _ => doc! { "$lt": f64::from(self.id()), "$gte": f64::from(IDS) / 4.0 }.into(),
        }
    }

    fn on_path(&mut self, path: &str, depth: usize) -> Bson {
        if self.percent(25) {
            return self.value(path);
        }
        let mut operators = self.operator(path, depth);
        if self.percent(20) {
            operators.extend(self.operator(path, depth));
        }
        operators.into()
    }

    fn values(&mut self, path: &str) -> Bson {
        let count = self.below(4);
        Bson::Array((0..count).map(|_| self.value(path)).collect())
    }

    fn operator(&mut self, path: &str, depth: usize) -> Document {
        let array = matches!(path, "tags" | "lines");
        match self.below(24) {
            0 => doc! { "$eq": self.value(path) },
            1 => doc! { "$ne": self.value(path) },
            2..5 => doc! { self.one(&["$gt", "$gte"]): self.value(path) },
            5..8 => doc! { self.one(&["$lt", "$lte"]): self.value(path) },
            8 => doc! { "$gte": self.value(path), "$lt": self.value(path) },
            9..12 => doc! { "$in": self.values(path) },
            12 => doc! { "$nin": self.values(path) },
            13 => doc! { "$exists": self.percent(60) },
            14 => {
                doc! { "$type": self.one(&["number", "string", "array", "null", "object", "int", "double"]) }
            }
            15 | 16 if path == "name" || path == "category" => self.pattern(),
            15 if path == "stock" => doc! { "$mod": [self.one(&[2, 3]), self.one(&[0, 1])] },
            16 if path == "stock" => {
                doc! { self.one(&["$bitsAllSet", "$bitsAnySet", "$bitsAllClear", "$bitsAnyClear"]): self.one(&[1, 2, 5]) }
            }
            17 | 18 if array => doc! { "$all": self.values(&format!("{path}.0")) },
            19 if array => doc! { "$size": self.one(&[0, 1, 2, 3]) },
            20 | 21 if path == "lines" => doc! { "$elemMatch": self.line_filter() },
            20 | 21 if path == "tags" => {
                doc! { "$elemMatch": { "$gt": self.tag(), "$lt": self.tag() } }
            }
            17 if path == "lines.count" => doc! { "$elemMatch": { "$gt": 1 } },
            22 | 23 if depth > 0 => doc! { "$not": self.operator(path, depth - 1) },
            _ => doc! { self.one(&["$gt", "$lt"]): self.value(path) },
        }
    }

    fn line_filter(&mut self) -> Document {
        match self.below(3) {
            0 => doc! { "sku": self.value("lines.sku") },
            1 => doc! { "count": { "$gte": self.value("lines.count") } },
            _ => {
                doc! { "sku": self.value("lines.sku"), "count": { "$lt": self.value("lines.count") } }
            }
        }
    }

    fn pattern(&mut self) -> Document {
        let pattern = self.one(&[
            "^a", "^ba", "^b", "n", "a$", "^[ab]n", "É", "^(an|ba)", "o+",
        ]);
        match self.percent(30) {
            true => doc! { "$regex": pattern, "$options": "i" },
            false => doc! { "$regex": pattern },
        }
    }
}
