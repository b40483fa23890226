//! Reads typed settings out of the tree and collects every mistake instead of stopping at the first.
//!
//! Each call declares a setting: name, default and what it does. The same walk therefore also writes the
//! reference that `freshet settings` prints. Flags win over variables, variables over the file; a name that no
//! call asked for is a mistake.

use std::collections::BTreeMap;

use super::node::{Mistake, Node, Place, Value, parse_text};
use super::units::Setting;

/// What surrounds the file: variables and flags by name, what was wrong, what was declared.
#[derive(Debug, Default)]
pub struct Report {
    /// `FRESHET_…` variables, by full name.
    pub variables: BTreeMap<String, String>,
    /// Flags by setting path (`server.listen`).
    pub flags: BTreeMap<String, String>,
    /// Every mistake so far.
    pub mistakes: Vec<Mistake>,
    /// Every setting asked for, in order of declaration.
    pub declared: Vec<Declared>,
}

/// One declared setting, for the reference.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its path: `server.listen`, `access[].read`.
    pub path: String,
    /// The form of its value.
    pub form: &'static str,
    /// Its default as TOML; `None` when it must be given or is off when left out.
    pub default: Option<String>,
    /// What it does.
    pub doc: &'static str,
}

/// One table being read.
pub struct Reader<'a> {
    table: &'a [(String, Place, Node)],
    place: Place,
    path: String,
    asked: Vec<String>,
    report: &'a mut Report,
}

impl<'a> Reader<'a> {
    /// Starts at the top of the tree.
    pub fn top(tree: &'a Node, report: &'a mut Report) -> Reader<'a> {
        Reader::at(tree, String::new(), report)
    }

    fn at(node: &'a Node, path: String, report: &'a mut Report) -> Reader<'a> {
        let table: &[_] = match &node.value {
            Value::Table(table) => table,
            other => {
                let what = format!("`{path}` must be a table, not {}", other.kind());
                report.mistakes.push(Mistake {
                    place: node.place.clone(),
                    what,
                });
                &[]
            }
        };
        Reader {
            table,
            place: node.place.clone(),
            path,
            asked: Vec::new(),
            report,
        }
    }

    /// A setting with a default.
    pub fn get<T: Setting>(&mut self, name: &str, default: T, doc: &'static str) -> T {
        self.declare::<T>(name, Some(default.show()), doc);
        self.read(name).unwrap_or(default)
    }

    /// A setting that is off when left out.
    pub fn optional<T: Setting>(&mut self, name: &str, doc: &'static str) -> Option<T> {
        self.declare::<T>(name, None, doc);
        self.read(name)
    }

    /// A setting that must be given.
    pub fn required<T: Setting>(&mut self, name: &str, doc: &'static str) -> Option<T> {
        self.declare::<T>(name, None, doc);
        if self.find(name).is_none() {
            let what = format!("`{}` is missing: {doc}", self.full(name));
            self.report.mistakes.push(Mistake {
                place: self.place.clone(),
                what,
            });
            return None;
        }
        self.read(name)
    }

    /// A table of settings; an absent one is read as an empty one.
    pub fn table<T>(&mut self, name: &str, read: impl FnOnce(&mut Reader<'_>) -> T) -> T {
        let empty = Node {
            value: Value::Table(Vec::new()),
            place: Place::Absent,
            text: None,
        };
        let node = self.find(name).unwrap_or(empty);
        let mut inner = Reader::at(&node, self.full(name), self.report);
        let value = read(&mut inner);
        inner.finish();
        value
    }

    /// An array of tables. The reading of an empty one is run once, for the reference only.
    pub fn tables<T>(&mut self, name: &str, read: impl Fn(&mut Reader<'_>) -> T) -> Vec<T> {
        let path = format!("{}[]", self.full(name));
        let Some(node) = self.find(name) else {
            let mut scratch = Report::default();
            let empty = Node {
                value: Value::Table(Vec::new()),
                place: Place::Absent,
                text: None,
            };
            read(&mut Reader::at(&empty, path, &mut scratch));
            self.report.declared.append(&mut scratch.declared);
            return Vec::new();
        };
        let Value::Array(items) = &node.value else {
            self.mistake(
                node.place.clone(),
                format!("`{name}` must be an array of tables, written [[{name}]]"),
            );
            return Vec::new();
        };
        items
            .iter()
            .map(|item| {
                let mut inner = Reader::at(item, path.clone(), self.report);
                let value = read(&mut inner);
                inner.finish();
                value
            })
            .collect()
    }

    /// Reports a mistake at the place of `name`, or of the table where it is absent.
    pub fn wrong(&mut self, name: &str, what: impl Into<String>) {
        let place = self
            .find(name)
            .map_or_else(|| self.place.clone(), |node| node.place);
        self.mistake(place, what.into());
    }

    /// Reports that `name` is missing, unless it is there and was reported as something that cannot be read.
    pub fn missing(&mut self, name: &str, what: impl Into<String>) {
        let unread = self.find(name).is_some_and(|node| {
            let mistakes = &self.report.mistakes;
            mistakes.iter().any(|mistake| mistake.place == node.place)
        });
        if !unread {
            self.wrong(name, what);
        }
    }

    /// Every name that was not asked for is a mistake.
    pub fn finish(self) {
        for (name, place, _) in self.table {
            if self.asked.iter().any(|asked| asked == name) {
                continue;
            }
            let near = nearest(name, &self.asked);
            let hint = near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"));
            let what = format!("unknown setting `{}`{hint}", join(&self.path, name));
            self.report.mistakes.push(Mistake {
                place: place.clone(),
                what,
            });
        }
    }

    fn declare<T: Setting>(&mut self, name: &str, default: Option<String>, doc: &'static str) {
        let path = self.full(name);
        if self.report.declared.iter().all(|known| known.path != path) {
            self.report.declared.push(Declared {
                path,
                form: T::FORM,
                default,
                doc,
            });
        }
    }

    fn read<T: Setting>(&mut self, name: &str) -> Option<T> {
        let node = self.find(name)?;
        match T::read(&node) {
            Ok(value) => Some(value),
            Err(what) => {
                let what = format!("`{}`: {what}", self.full(name));
                self.mistake(node.place, what);
                None
            }
        }
    }

    /// Flag, then variable, then file. Members of arrays have no variable of their own.
    fn find(&mut self, name: &str) -> Option<Node> {
        if self.asked.iter().all(|asked| asked != name) {
            self.asked.push(name.to_owned());
        }
        let path = self.full(name);
        if !path.contains('[') {
            if let Some(text) = self.report.flags.get(&path) {
                return Some(parse_text(text, &Place::Flag(format!("--set {path}"))));
            }
            let variable = variable_name(&path);
            if let Some(text) = self.report.variables.get(&variable) {
                return Some(parse_text(text, &Place::Variable(variable)));
            }
        }
        self.table
            .iter()
            .find(|(known, _, _)| known == name)
            .map(|(_, _, node)| node.clone())
    }

    fn mistake(&mut self, place: Place, what: String) {
        self.report.mistakes.push(Mistake { place, what });
    }

    fn full(&self, name: &str) -> String {
        join(&self.path, name)
    }
}

/// The variable of a setting: `server.listen` is `FRESHET_SERVER_LISTEN`.
#[must_use]
pub fn variable_name(path: &str) -> String {
    format!("FRESHET_{}", path.replace('.', "_").to_uppercase())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// The known name that is at most two edits away.
pub(super) fn nearest<'n>(name: &str, known: &'n [String]) -> Option<&'n str> {
    known
        .iter()
        .map(|candidate| (edits(name, candidate), candidate.as_str()))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, candidate)| candidate)
}

fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
