//! Random pipelines over the shop's records, half of them with joins: on the collection of others, which has records of
//! the same kind, or on the records themselves.

use bson::{Bson, Document, RawDocumentBuf, doc};

use super::case::{Asked, Of, What};
use super::pool::{Choice, PATHS};
use super::record::{Plan, Planned};

/// Records of the other collection at the beginning.
const OTHERS: usize = 14;
const WRITES_OF_OTHERS: usize = 40;
/// Pipelines per history, each with and without a join.
const PIPELINES: usize = 5;
/// Of so many one is cached.
const TRIES: usize = 100;

/// What joins take: another collection, and pipelines.
pub(super) fn with_joins(choice: &mut Choice, plan: &mut Plan, asked: &mut Vec<Asked>) {
    for _ in 0..OTHERS {
        let id = choice.other();
        let has_it = |one: &Document| one.get_i32("_id").is_ok_and(|known| known == id);
        if !plan.others.iter().any(has_it) {
            plan.others.push(choice.record(id));
        }
    }
    for _ in 0..WRITES_OF_OTHERS {
        let id = choice.other();
        let write = match choice.below(100) {
            0..66 => Planned::Update(id, choice.update()),
            66..84 => Planned::Insert(choice.record(id)),
            84..92 => Planned::Replace(choice.record(id)),
            _ => Planned::Delete(id),
        };
        let at = choice.below(plan.writes.len() + 1);
        plan.writes.insert(at, (Of::Others, write));
    }
    for _ in 0..PIPELINES {
        asked.extend(choice.pipeline(false));
        asked.extend(choice.pipeline(true));
    }
}

/// Stages as they are kept.
pub(super) fn raw(stages: &[Document]) -> Vec<RawDocumentBuf> {
    let raw = stages.iter().map(RawDocumentBuf::try_from);
    raw.collect::<Result<_, _>>().unwrap_or_default()
}

/// A pipeline in the making.
struct Draft {
    stages: Vec<Document>,
    /// What the documents may have at its end.
    paths: Vec<String>,
}

impl Choice {
    /// One that is cached.
    fn pipeline(&mut self, joins: bool) -> Option<Asked> {
        let drafts = (0..TRIES).map(|_| {
            let filter = match self.percent(35) {
                true => Document::new(),
                false => self.filter(1),
            };
            Asked {
                filter: RawDocumentBuf::try_from(&filter).unwrap_or_default(),
                what: What::Aggregate {
                    stages: raw(&self.draft(joins)),
                },
            }
        });
        let mut cached = drafts.filter(|asked| asked.resource().is_some());
        cached.next()
    }

    fn draft(&mut self, joins: bool) -> Vec<Document> {
        let mut draft = Draft {
            stages: Vec::new(),
            paths: PATHS.iter().map(|path| (*path).to_owned()).collect(),
        };
        draft.paths.push("_id".to_owned());
        for _ in 0..self.one(&[0, 0, 1, 1, 2]) {
            self.middle(&mut draft);
        }
        if joins {
            self.join(&mut draft);
            for _ in 0..self.one(&[0, 0, 1, 1, 2]) {
                self.middle(&mut draft);
            }
            if self.percent(15) {
                self.join(&mut draft);
            }
        }
        if !joins || self.percent(50) {
            self.end(&mut draft, true);
        }
        draft.stages
    }

    fn known(&mut self, draft: &Draft) -> String {
        draft.paths[self.below(draft.paths.len())].clone()
    }

    /// One that documents go through.
    fn middle(&mut self, draft: &mut Draft) {
        if self.percent(15) {
            return self.cut(draft);
        }
        let stage = match self.below(10) {
            0 | 1 => {
                let filter = self.filter_after(draft);
                doc! { "$match": filter }
            }
            2 | 3 => {
                let stage = self.shown(draft);
                doc! { "$project": stage }
            }
            4 => doc! { "$unset": self.known(draft) },
            5 | 6 => {
                let name = self.one(&["x", "y", "price", "size.w", "lines.x", "category"]);
                let value = self.expression(draft, 2);
                draft.paths.push(name.to_owned());
                doc! { "$set": { name: value } }
            }
            _ => self.unwind(draft),
        };
        draft.stages.push(stage);
    }

    fn filter_after(&mut self, draft: &Draft) -> Document {
        if self.percent(50) {
            return self.filter(1);
        }
        let path = self.known(draft);
        let value = self.value(&path);
        match self.below(4) {
            0 => doc! { path: { "$exists": self.percent(70) } },
            1 => doc! { path: { "$lte": value } },
            _ => doc! { path: { "$gte": value } },
        }
    }

    fn shown(&mut self, draft: &mut Draft) -> Document {
        let mut stage = Document::new();
        let hides = self.percent(25);
        for _ in 0..=self.below(4) {
            let path = self.known(draft);
            match (hides, path.as_str()) {
                (_, "_id") => {}
                (true, _) => drop(stage.insert(path, 0)),
                (false, _) if self.percent(70) => drop(stage.insert(path, 1)),
                (false, _) => {
                    let value = self.expression(draft, 2);
                    let name = self.one(&["x", "y", "stock", "size.w", "lines.x"]);
                    stage.insert(name, value);
                    draft.paths.push(name.to_owned());
                }
            }
        }
        if self.percent(15) {
            stage.insert("_id", 0);
        }
        stage
    }

    fn unwind(&mut self, draft: &mut Draft) -> Document {
        let known = self.known(draft);
        let path = self.one(&["tags", "lines", "lines", &known]);
        if self.percent(50) {
            return doc! { "$unwind": format!("${path}") };
        }
        let mut stage =
            doc! { "path": format!("${path}"), "preserveNullAndEmptyArrays": self.percent(70) };
        if self.percent(40) {
            let at = self.one(&["at", "size.at", "stock"]);
            stage.insert("includeArrayIndex", at);
            draft.paths.push(at.to_owned());
        }
        doc! { "$unwind": stage }
    }

    fn join(&mut self, draft: &mut Draft) {
        let local = match self.percent(10) {
            true => "nowhere".to_owned(),
            false => self.known(draft),
        };
        let foreign = match (self.below(10), local.as_str()) {
            (0..5, _) => local.clone(),
            (5..8, "_id") => "stock".to_owned(),
            (5..8, "stock" | "lines.count" | "price") => "_id".to_owned(),
            _ => self.one(&PATHS).to_owned(),
        };
        let target = self.one(&["found", "found", "found", "size.found", "tags", "category"]);
        draft.stages.push(doc! { "$lookup": {
            "from": self.one(&["others", "others", "others", "records"]),
            "localField": local,
            "foreignField": foreign,
            "as": target,
        } });
        if self.percent(30) {
            let stage = match self.percent(70) {
                true => doc! { "$unwind": format!("${target}") },
                false => {
                    doc! { "$unwind": { "path": format!("${target}"), "preserveNullAndEmptyArrays": true } }
                }
            };
            draft.stages.push(stage);
        }
        let within = ["stock", "category", "_id", "lines.sku", "tags", "price"];
        let within = within.map(|path| format!("{target}.{path}"));
        draft.paths.push(target.to_owned());
        draft.paths.extend(within);
    }

    /// What the answer comes to. `facets`: it may have branches.
    fn end(&mut self, draft: &mut Draft, facets: bool) {
        match self.below(if facets { 14 } else { 12 }) {
            0..5 => self.group(draft),
            5 => draft
                .stages
                .push(doc! { "$count": self.one(&["n", "stock"]) }),
            6 => {
                let path = self.known(draft);
                let stage = doc! { "$sortByCount": format!("${path}") };
                draft.stages.push(stage);
            }
            7 | 8 => {
                self.cut(draft);
                // What it was sorted by does not show any more.
                if self.percent(50) {
                    let stage = self.shown(draft);
                    draft.stages.push(doc! { "$project": stage });
                }
            }
            9 | 10 => {
                let stage = self.shown(draft);
                draft.stages.push(doc! { "$project": stage });
            }
            11 => {}
            _ => {
                let mut facet = Document::new();
                for name in ["one", "two"] {
                    let mut branch = Draft {
                        stages: Vec::new(),
                        paths: draft.paths.clone(),
                    };
                    if self.percent(40) {
                        self.middle(&mut branch);
                    }
                    if self.percent(15) {
                        self.join(&mut branch);
                    }
                    self.end(&mut branch, false);
                    facet.insert(name, branch.stages);
                }
                draft.stages.push(doc! { "$facet": facet });
            }
        }
    }

    /// A part of an order.
    fn cut(&mut self, draft: &mut Draft) {
        if self.percent(70) {
            let mut sort = Document::new();
            for _ in 0..self.one(&[1, 1, 2]) {
                sort.insert(self.known(draft), self.one(&[1, -1]));
            }
            draft.stages.push(doc! { "$sort": sort });
        }
        if self.percent(30) {
            draft.stages.push(doc! { "$skip": self.one(&[0, 1, 2, 5]) });
        }
        if self.percent(70) {
            draft
                .stages
                .push(doc! { "$limit": self.one(&[1, 2, 3, 5, 10, 50]) });
        }
    }

    fn group(&mut self, draft: &mut Draft) {
        let id = match self.below(8) {
            0..3 => Bson::Null,
            3 => self.expression(draft, 2),
            4 => {
                doc! { "a": format!("${}", self.known(draft)), "b": format!("${}", self.known(draft)) }
                    .into()
            }
            _ => format!("${}", self.known(draft)).into(),
        };
        let mut stage = doc! { "_id": id };
        let names = ["n", "m", "all"];
        let count = self.below(4);
        // A single group that is kept up to date has some of them only.
        let accumulators = match self.percent(50) {
            true => ["$sum", "$avg", "$min", "$max"].as_slice(),
            false => &[
                "$sum",
                "$avg",
                "$min",
                "$max",
                "$push",
                "$addToSet",
                "$first",
                "$last",
            ],
        };
        for name in &names[..count] {
            let accumulator = match self.percent(15) {
                true => doc! { "$count": {} },
                false => {
                    let operand = match self.percent(60) {
                        true => format!("${}", self.known(draft)).into(),
                        false => self.expression(draft, 1),
                    };
                    doc! { self.one(accumulators): operand }
                }
            };
            stage.insert(*name, accumulator);
        }
        draft.stages.push(doc! { "$group": stage });
        draft.paths = vec!["_id".to_owned(), "_id.a".to_owned(), "category".to_owned()];
        draft
            .paths
            .extend(names.iter().map(|name| (*name).to_owned()));
        if self.percent(40) {
            self.cut(draft);
        }
    }

    fn expression(&mut self, draft: &Draft, depth: usize) -> Bson {
        let path: Bson = format!("${}", self.known(draft)).into();
        if depth == 0 {
            return path;
        }
        let number =
            |path: &Bson| -> Bson { doc! { "$cond": [{ "$isNumber": [path] }, path, 0] }.into() };
        let inner = self.expression(draft, depth - 1);
        match self.below(16) {
            0 => doc! { "$cond": [{ "$gt": [path, self.one(&[0, 1, 3])] }, inner, "low"] }.into(),
            1 => doc! { "$ifNull": [path, inner] }.into(),
            2 => doc! { "$cond": [{ "$isArray": [&path] }, { "$size": path }, inner] }.into(),
            3 => doc! { "$add": [number(&path), self.one(&[1, 2])] }.into(),
            4 => doc! { "$multiply": [number(&path), number(&"$stock".into())] }.into(),
            5 => doc! { "a": path, "b": inner }.into(),
            6 => vec![path, inner].into(),
            7 => "$$ROOT".into(),
            8 => doc! { "$type": path }.into(),
            9 => doc! { self.one(&["$eq", "$lt", "$gte", "$cmp"]): [path, inner] }.into(),
            10 => doc! { "$arrayElemAt": [{ "$cond": [{ "$isArray": [&path] }, path, []] }, self.one(&[0, -1])] }.into(),
            11 => doc! { "$switch": { "branches": [{ "case": path, "then": inner }], "default": "$$REMOVE" } }.into(),
            12 => doc! { "$toUpper": "$name" }.into(),
            13 => doc! { "$literal": self.one(&[1, 2]) }.into(),
            14 => doc! { "$and": [path, { "$not": [inner] }] }.into(),
            _ => path,
        }
    }
}
