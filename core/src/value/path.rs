//! Dotted paths over raw documents, with the implicit traversal of arrays that MongoDB's filters have
//! (the server's `ElementPath` and `BSONElementIterator`, before version 9.0).
//!
//! The rules: documents are entered by name. An array in the middle of a path is entered once: each document in
//! it is asked for the rest of the path, and a component that is the element's index also selects that element,
//! whatever its type. An array directly inside an array is entered only by an index. An array at the end
//! is itself a value, and each of its elements is one too; not so if an index selected it.
//!
//! Nothing is allocated. Recursion goes one level per array, hence no deeper than the document. Whoever takes
//! a path from outside refuses it beyond [`INDEXES_MAX`].

use std::ops::ControlFlow;

use bson::{RawArray, RawBsonRef, RawDocument};

/// A path, split once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    text: Box<str>,
    parts: Box<[Part]>,
}

/// One component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Part {
    start: usize,
    end: usize,
    /// The index that the component is, in its one spelling: no sign, no leading zero.
    index: Option<usize>,
}

/// Components that are array indexes, as far as a path read from outside may have them: each can double the
/// ways through a document, as an index and as a name. Twelve keep a walk below 4096 ways.
pub const INDEXES_MAX: usize = 12;

/// Something that a path leads to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Leaf<'a> {
    /// A document (or scalar) along the path has no such field: what `null` and `$exists:false` match.
    /// An array without documents gives nothing, not even this.
    Missing,
    /// The value at the end of the path; an array as a whole.
    Value(RawBsonRef<'a>),
    /// An element of the array at the end of the path, which follows as [`Leaf::Value`].
    Element(RawBsonRef<'a>),
}

/// What is reported of an array at the end of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrayLeaf {
    /// Its elements, then the array: for comparisons.
    Elements,
    /// Only the array: for `$size`, `$elemMatch`, `$all` of `$elemMatch`.
    Whole,
}

impl Path {
    /// The components are what the dots separate; an empty one is a field with an empty name.
    #[must_use]
    pub fn new(text: &str) -> Path {
        let mut start = 0;
        let parts = text
            .split('.')
            .map(|name| {
                let part = Part {
                    start,
                    end: start + name.len(),
                    index: index(name),
                };
                start = part.end + 1;
                part
            })
            .collect();
        Path {
            text: text.into(),
            parts,
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The components' names.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.parts.iter().map(|part| self.name(part))
    }

    /// How many components are array indexes: see [`INDEXES_MAX`].
    #[must_use]
    pub fn indexes(&self) -> usize {
        self.parts
            .iter()
            .filter(|part| part.index.is_some())
            .count()
    }

    /// Calls `visit` with everything the path leads to, until it breaks.
    pub fn visit<'a, B>(
        &self,
        document: &'a RawDocument,
        arrays: ArrayLeaf,
        mut visit: impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let walk = Walk { path: self, arrays };
        walk.document(&self.parts, document, &mut visit)
    }

    /// [`Path::visit`] where the value of the path's first component is at hand (`None`: there is no such field).
    pub fn visit_from<'a, B>(
        &self,
        first: Option<RawBsonRef<'a>>,
        arrays: ArrayLeaf,
        mut visit: impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let walk = Walk { path: self, arrays };
        walk.value(&self.parts[1..], first, &mut visit)
    }

    /// The first component's name.
    #[must_use]
    pub fn root(&self) -> &str {
        self.name(&self.parts[0])
    }

    /// Whether `test` holds for something the path leads to.
    pub fn any<'a>(
        &self,
        document: &'a RawDocument,
        arrays: ArrayLeaf,
        mut test: impl FnMut(Leaf<'a>) -> bool,
    ) -> bool {
        self.visit(document, arrays, |leaf| {
            if test(leaf) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })
        .is_break()
    }

    /// The value at the path when no array stands on the way.
    #[must_use]
    pub fn get<'a>(&self, document: &'a RawDocument) -> Option<RawBsonRef<'a>> {
        let (last, way) = self.parts.split_last()?;
        let mut document = document;
        for part in way {
            document = field(document, self.name(part))?.as_document()?;
        }
        field(document, self.name(last))
    }

    fn name(&self, part: &Part) -> &str {
        &self.text[part.start..part.end]
    }

    /// Name and index of each component, for the sort key's own traversal.
    pub(super) fn components(&self) -> impl Iterator<Item = (&str, Option<usize>)> {
        self.parts.iter().map(|part| (self.name(part), part.index))
    }
}

/// The value of a field; only its own value is decoded.
#[must_use]
pub fn field<'a>(document: &'a RawDocument, name: &str) -> Option<RawBsonRef<'a>> {
    document
        .iter_elements()
        .map_while(Result::ok)
        .find(|element| element.key().as_str() == name)
        .and_then(|element| element.value().ok())
}

/// The values of an array. Bytes that are not BSON end it.
pub fn elements(array: &RawArray) -> impl Iterator<Item = RawBsonRef<'_>> {
    array
        .iter_elements()
        .map_while(|element| element.and_then(|e| e.value()).ok())
}

fn index(name: &str) -> Option<usize> {
    let plain = name == "0" || (!name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit()));
    plain.then(|| name.parse().ok()).flatten()
}

struct Walk<'p> {
    path: &'p Path,
    arrays: ArrayLeaf,
}

impl Walk<'_> {
    /// `parts` is not empty.
    fn document<'a, B>(
        &self,
        parts: &[Part],
        document: &'a RawDocument,
        visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match parts.split_first() {
            Some((part, rest)) => self.value(rest, field(document, self.path.name(part)), visit),
            None => ControlFlow::Continue(()),
        }
    }

    /// A value that was reached, with `parts` still to go.
    fn value<'a, B>(
        &self,
        parts: &[Part],
        value: Option<RawBsonRef<'a>>,
        visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let (mut parts, mut value) = (parts, value);
        loop {
            match (value, parts.split_first()) {
                (Some(RawBsonRef::Array(array)), None) => return self.leaf_array(array, visit),
                (Some(RawBsonRef::Array(array)), Some(_)) => {
                    return self.array(parts, array, visit);
                }
                (Some(value), None) => return visit(Leaf::Value(value)),
                (Some(RawBsonRef::Document(inner)), Some((part, rest))) => {
                    value = field(inner, self.path.name(part));
                    parts = rest;
                }
                _ => return visit(Leaf::Missing),
            }
        }
    }

    fn leaf_array<'a, B>(
        &self,
        array: &'a RawArray,
        visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if self.arrays == ArrayLeaf::Elements {
            for value in elements(array) {
                visit(Leaf::Element(value))?;
            }
        }
        visit(Leaf::Value(RawBsonRef::Array(array)))
    }

    /// An array with `parts` still to go: not empty.
    fn array<'a, B>(
        &self,
        parts: &[Part],
        array: &'a RawArray,
        visit: &mut impl FnMut(Leaf<'a>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        let Some((part, rest)) = parts.split_first() else {
            return ControlFlow::Continue(());
        };
        // The server joins what is left of the path, and takes an empty rest (`a.`) for none.
        if rest.is_empty() && self.path.name(part).is_empty() {
            return self.leaf_array(array, visit);
        }
        for (at, value) in elements(array).enumerate() {
            if let RawBsonRef::Document(document) = value {
                self.document(parts, document, visit)?;
            }
            if part.index != Some(at) {
                continue;
            }
            match value {
                value if rest.is_empty() => visit(Leaf::Value(value))?,
                RawBsonRef::Document(document) => self.document(rest, document, visit)?,
                RawBsonRef::Array(inner) => self.array(rest, inner, visit)?,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::ejson::{Mode, parse_document, write_value};
    use super::*;

    /// What the path leads to, one per line: `-` missing, `=` value, `.` element.
    fn leaves(path: &str, document: &str, arrays: ArrayLeaf) -> Vec<String> {
        let document = parse_document(document.as_bytes()).unwrap();
        let mut found = Vec::new();
        let _ = Path::new(path).visit(&document, arrays, |leaf| {
            let (mark, value) = match leaf {
                Leaf::Missing => ("-", None),
                Leaf::Value(value) => ("=", Some(value)),
                Leaf::Element(value) => (".", Some(value)),
            };
            let mut text = mark.as_bytes().to_vec();
            if let Some(value) = value {
                write_value(value, Mode::Relaxed, &mut text);
            }
            found.push(String::from_utf8(text).unwrap());
            ControlFlow::<()>::Continue(())
        });
        found
    }

    #[test]
    fn paths_lead_where_the_server_looks() {
        let cases: [(&str, &str, &[&str]); 24] = [
            ("a", r#"{"a":5}"#, &["=5"]),
            ("a", r#"{}"#, &["-"]),
            ("a", r#"{"a":[5,6]}"#, &[".5", ".6", "=[5,6]"]),
            ("a", r#"{"a":[]}"#, &["=[]"]),
            ("a", r#"{"a":[[5]]}"#, &[".[5]", "=[[5]]"]),
            ("a.b", r#"{"a":{"b":5}}"#, &["=5"]),
            ("a.b", r#"{"a":4}"#, &["-"]),
            ("a.b", r#"{"a":null}"#, &["-"]),
            ("a.b", r#"{"a":[4]}"#, &[]),
            ("a.b", r#"{"a":[]}"#, &[]),
            (
                "a.b",
                r#"{"a":[{"b":5},3,{},{"b":[9,11]},{"b":7}]}"#,
                &["=5", "-", ".9", ".11", "=[9,11]", "=7"],
            ),
            ("a.b", r#"{"a":[[{"b":5}]]}"#, &[]),
            ("a.b.c", r#"{"a":[{"b":[{"c":1},{}]}]}"#, &["=1", "-"]),
            ("a.1", r#"{"a":[5,7,3]}"#, &["=7"]),
            ("a.1", r#"{"a":[5,[2,4],3]}"#, &["=[2,4]"]),
            ("a.1", r#"{"a":[5,{"1":4},3]}"#, &["=4", r#"={"1":4}"#]),
            ("a.1.b", r#"{"a":[5,{"b":4},3]}"#, &["-", "=4"]),
            ("a.1.b", r#"{"a":[5,[{"b":4}],3]}"#, &["=4"]),
            ("a.0.1", r#"{"a":[[5,6]]}"#, &["=6"]),
            ("a.01", r#"{"a":[5,7]}"#, &[]),
            ("a.length", r#"{"a":[1,2,3]}"#, &[]),
            ("s.0", r#"{"s":"abc"}"#, &["-"]),
            ("a.0", r#"{"a":{"0":[1]}}"#, &[".1", "=[1]"]),
            ("a..b", r#"{"a":{"":{"b":1}}}"#, &["=1"]),
        ];
        for (path, document, expected) in cases {
            assert_eq!(
                leaves(path, document, ArrayLeaf::Elements),
                expected,
                "{path} {document}"
            );
        }
        assert_eq!(leaves("a", r#"{"a":[5]}"#, ArrayLeaf::Whole), ["=[5]"]);
        assert_eq!(
            leaves("a.b", r#"{"a":[{"b":[5]}]}"#, ArrayLeaf::Whole),
            ["=[5]"]
        );
    }

    #[test]
    fn a_plain_path_reads_no_array() {
        let document = parse_document(br#"{"a":{"b":[{"c":1}],"d":2}}"#).unwrap();
        assert_eq!(Path::new("a.d").get(&document), Some(RawBsonRef::Int32(2)));
        assert_eq!(Path::new("a.b.c").get(&document), None);
        assert_eq!(Path::new("a.b.0").get(&document), None);
    }
}
