//! What an answer depends on besides the leading filter: the paths of the stored document that it can show, or by
//! which it chooses, counts, orders or computes, or by which the database may refuse it. A safe superset: when none of
//! them changed in a document that matched before and matches after, the answer is the same.
//!
//! Each stage is followed with a picture of the document at that place: which of its fields are stored ones, and of
//! which stored paths the others were computed.

use std::collections::BTreeSet;

use bson::{RawDocument, RawDocumentBuf};

use super::evaluate::shown;
use super::{Expression, Field, Fields, Mode, Pipeline, Reshape, Stage};
use crate::value::path::Path;

/// What of a stored document an answer depends on.
#[derive(Clone, Debug, PartialEq)]
pub struct Dependencies {
    /// `None`: all of it.
    paths: Option<BTreeSet<Box<str>>>,
    /// The paths as a projection.
    shown: Reshape,
}

impl Dependencies {
    fn new(reads: Reads) -> Dependencies {
        let paths = reads.reduced();
        let mut fields = Fields::default();
        for path in paths.iter().flatten() {
            fields.name(path);
        }
        Dependencies {
            paths,
            shown: Reshape {
                mode: Mode::Include,
                fields,
            },
        }
    }

    /// Whether it can depend on anything in the document.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.paths.is_none()
    }

    /// The paths, none within another; `None` where it is the whole document. What is at a path is what a projection
    /// that includes it shows, the arrays on its way included.
    #[must_use]
    pub fn paths(&self) -> Option<&BTreeSet<Box<str>>> {
        self.paths.as_ref()
    }

    /// Whether a document that matches the leading filter before and after a change gives the same answer.
    #[must_use]
    pub fn unchanged(&self, before: &RawDocument, after: &RawDocument) -> bool {
        match &self.paths {
            None => before.as_bytes() == after.as_bytes(),
            Some(_) => self.part(before).as_bytes() == self.part(after).as_bytes(),
        }
    }

    fn part(&self, document: &RawDocument) -> RawDocumentBuf {
        shown(&self.shown, document)
    }
}

impl Pipeline {
    /// What the answer depends on besides [`Pipeline::leading_filter`], in documents of the pipeline's own collection.
    #[must_use]
    pub fn dependencies(&self) -> Dependencies {
        let leading = self.leading().count();
        let mut matches = 0;
        let beyond: Vec<&Stage> = self
            .stages
            .iter()
            .filter(|stage| {
                let is_match = matches!(stage, Stage::Match(_));
                matches += usize::from(is_match);
                !(is_match && matches <= leading)
            })
            .collect();
        Dependencies::new(follow(&beyond, Source::Stored(String::new())))
    }
}

/// Stored paths that are read.
#[derive(Clone, Debug, Default, PartialEq)]
struct Reads {
    whole: bool,
    paths: BTreeSet<String>,
}

impl Reads {
    fn stored(path: &str) -> Reads {
        // An array index means an element to filters and sorts, but a name to a projection.
        let end = Path::new(path);
        let names = end.names();
        let plain: Vec<&str> = names
            .take_while(|name| Path::new(name).indexes() == 0)
            .collect();
        let path = plain.join(".");
        Reads {
            whole: path.is_empty(),
            paths: (!path.is_empty()).then_some(path).into_iter().collect(),
        }
    }

    fn add(&mut self, other: Reads) {
        self.whole |= other.whole;
        self.paths.extend(other.paths);
    }

    /// Without paths that lie within others.
    fn reduced(self) -> Option<BTreeSet<Box<str>>> {
        if self.whole {
            return None;
        }
        let within = |path: &str| {
            let mut above = path;
            while let Some((rest, _)) = above.rsplit_once('.') {
                if self.paths.contains(rest) {
                    return true;
                }
                above = rest;
            }
            false
        };
        let paths = self.paths.iter().filter(|path| !within(path));
        Some(paths.map(|path| path.as_str().into()).collect())
    }
}

/// Where a value in the document at some stage comes from.
#[derive(Clone, Debug)]
enum Source {
    /// It is what is stored at this path; the empty one is the document's own.
    Stored(String),
    /// It was computed of these.
    Computed(Reads),
    /// A document.
    Document {
        fields: Vec<(Box<str>, Source)>,
        /// Where fields come from that are not named; `None`: there are none.
        rest: Option<String>,
        /// What decides whether and how often it is there.
        form: Reads,
    },
}

impl Source {
    fn nothing() -> Source {
        Source::Computed(Reads::default())
    }

    /// A field of it.
    fn child(&self, name: &str) -> Source {
        match self {
            Source::Stored(path) => Source::Stored(joined(path, name)),
            Source::Computed(reads) => Source::Computed(reads.clone()),
            Source::Document { fields, rest, .. } => {
                let named = fields.iter().find(|(known, _)| &**known == name);
                match (named, rest) {
                    (Some((_, source)), _) => source.clone(),
                    (None, Some(rest)) => Source::Stored(joined(rest, name)),
                    (None, None) => Source::nothing(),
                }
            }
        }
    }

    /// What decides all that can be seen in it.
    fn all(&self) -> Reads {
        match self {
            Source::Stored(path) => Reads::stored(path),
            Source::Computed(reads) => reads.clone(),
            Source::Document { fields, rest, form } => {
                let mut reads = form.clone();
                if let Some(rest) = rest {
                    reads.add(Reads::stored(rest));
                }
                for (_, source) in fields {
                    reads.add(source.all());
                }
                reads
            }
        }
    }

    /// What decides the value at a path in it.
    fn at(&self, path: &str) -> Reads {
        let (mut source, mut reads) = (self.clone(), Reads::default());
        for name in path.split('.') {
            if Path::new(name).indexes() > 0 {
                break;
            }
            if let Source::Document { form, .. } = &source {
                reads.add(form.clone());
            }
            source = source.child(name);
        }
        reads.add(source.all());
        reads
    }

    fn read_by(&self, expression: &Expression) -> Reads {
        let Some(paths) = expression.paths() else {
            return self.all();
        };
        let mut reads = Reads::default();
        for path in paths {
            reads.add(self.at(path));
        }
        reads
    }

    /// It with another value at a path.
    fn with(&self, path: &str, value: Reads) -> Source {
        match path.split_once('.') {
            None => {
                let mut value = value;
                value.add(self.child(path).all());
                self.with_child(path, Source::Computed(value))
            }
            Some((name, rest)) => {
                let child = self.child(name);
                let mut set = child.with(rest, value);
                // Whether there was a document or something else decides what is there now.
                if let Source::Document { form, .. } = &mut set {
                    form.add(child.all());
                }
                self.with_child(name, set)
            }
        }
    }

    fn with_child(&self, name: &str, child: Source) -> Source {
        match self {
            Source::Computed(reads) => {
                let mut reads = reads.clone();
                reads.add(child.all());
                Source::Computed(reads)
            }
            Source::Stored(path) => Source::Document {
                fields: vec![(name.into(), child)],
                rest: Some(path.clone()),
                form: Reads::default(),
            },
            Source::Document { fields, rest, form } => {
                let mut fields = fields.clone();
                fields.retain(|(known, _)| &**known != name);
                fields.push((name.into(), child));
                Source::Document {
                    fields,
                    rest: rest.clone(),
                    form: form.clone(),
                }
            }
        }
    }
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

/// What the answer of these stages depends on.
fn follow(stages: &[&Stage], mut document: Source) -> Reads {
    let mut reads = Reads::default();
    for stage in stages {
        match stage {
            Stage::Match(filter) => match filter.paths() {
                None => reads.add(document.all()),
                Some(paths) => paths.iter().for_each(|path| reads.add(document.at(path))),
            },
            Stage::Sort(sort) => {
                for (path, _) in &sort.fields {
                    reads.add(document.at(path));
                }
            }
            Stage::Unwind(unwind) => {
                let array = document.at(&unwind.path);
                if let Some(index) = &unwind.index {
                    document = document.with(index, array.clone());
                }
                reads.add(array);
            }
            Stage::Lookup(join) => {
                // A value that cannot be looked for makes the database refuse, whatever is shown.
                let by = document.at(&join.local);
                reads.add(by.clone());
                document = document.with(&join.target, by);
            }
            Stage::Group(group) => {
                reads.add(document.read_by(&group.id));
                for (_, _, operand) in &group.fields {
                    reads.add(document.read_by(operand));
                }
                // All that they are made of is counted already.
                document = Source::nothing();
            }
            Stage::Count(_) => document = Source::nothing(),
            Stage::Facet(branches) => {
                for (_, stages) in branches {
                    let stages: Vec<&Stage> = stages.iter().collect();
                    reads.add(follow(&stages, document.clone()));
                }
                document = Source::nothing();
            }
            Stage::Reshape(reshape) => {
                reads.add(may_fail(&document, &reshape.fields));
                document = reshaped(&document, &document, &reshape.fields, reshape.mode);
            }
            Stage::Skip(_) | Stage::Limit(_) => {}
        }
    }
    reads.add(document.all());
    reads
}

/// What is computed of more than a path: the database refuses where that fails, whatever is shown of it later.
fn may_fail(document: &Source, fields: &Fields) -> Reads {
    let mut reads = Reads::default();
    for (_, field) in &fields.0 {
        match field {
            Field::Named | Field::Computed(Expression::Path(_) | Expression::Root) => {}
            Field::Computed(computed) => reads.add(document.read_by(computed)),
            Field::Within(within) => reads.add(may_fail(document, within)),
        }
    }
    reads
}

/// `within`, a part of the document `root`, after the stage.
fn reshaped(root: &Source, within: &Source, fields: &Fields, mode: Mode) -> Source {
    let mut shaped = match (mode, within) {
        (Mode::Include, within) => Source::Document {
            fields: Vec::new(),
            rest: None,
            form: match within {
                Source::Document { form, .. } => form.clone(),
                Source::Stored(_) | Source::Computed(_) => Reads::default(),
            },
        },
        (_, within) => within.clone(),
    };
    for (name, field) in &fields.0 {
        let child = match field {
            Field::Named if mode == Mode::Include => within.child(name),
            Field::Named => Source::nothing(),
            Field::Computed(computed) => {
                let mut reads = root.read_by(computed);
                if mode == Mode::Set {
                    // It comes in the place of the one that was there, if there was one.
                    reads.add(within.child(name).all());
                }
                Source::Computed(reads)
            }
            Field::Within(inner) => reshaped(root, &within.child(name), inner, mode),
        };
        shaped = shaped.with_child(name, child);
    }
    if !std::ptr::eq(root, within) {
        // Whether there is an array or no document at all shows in every path through it. What is kept of it tells; what
        // is computed in it does not: that comes once for each element, and makes a document of a number.
        let tells = match mode {
            Mode::Include if !fields.computes() => shaped.all(),
            _ => within.all(),
        };
        if let Source::Document { form, .. } = &mut shaped {
            form.add(tells);
        }
    }
    shaped
}

impl Fields {
    /// Names a path; none of the others lies within it, or it within them.
    fn name(&mut self, path: &str) {
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        let at = self.0.iter().position(|(known, _)| &**known == name);
        let at = at.unwrap_or_else(|| {
            self.0.push((name.into(), Field::Within(Fields::default())));
            self.0.len() - 1
        });
        match (rest, &mut self.0[at].1) {
            (Some(rest), Field::Within(within)) => within.name(rest),
            (_, field) => *field = Field::Named,
        }
    }
}
