//! A document that is being changed: raw BSON, opened level by level only where a path goes.

use std::borrow::Cow;

use bson::spec::ElementType;
use bson::{RawBsonRef, RawDocument};

use super::{Reason, UpdateError};
use crate::value::Builder;

/// Elements that one update may add to an array to reach an index (the server's limit).
pub(super) const PADDING_MAX: usize = 1_500_000;

/// A value.
pub(super) enum Node<'a> {
    /// As it was, or as it was given.
    Raw(RawBsonRef<'a>),
    Document(Vec<(Cow<'a, str>, Node<'a>)>),
    Array(Vec<Node<'a>>),
}

/// Where a path ends.
pub(super) enum Place<'n, 'a> {
    /// The child of `parent` at this position.
    Existing { parent: &'n mut Node<'a>, at: usize },
    /// `parent` is the last node of the path that there is; `rest` (not empty) is what is missing.
    Missing {
        parent: &'n mut Node<'a>,
        rest: &'n [Box<str>],
    },
}

impl<'a> Node<'a> {
    /// Opens a document or array; other values stay.
    pub(super) fn open(&mut self) {
        match self {
            Node::Raw(RawBsonRef::Document(document)) => {
                let fields = fields(document).map(|(name, value)| (name.into(), Node::Raw(value)));
                *self = Node::Document(fields.collect());
            }
            Node::Raw(RawBsonRef::Array(array)) => {
                *self = Node::Array(crate::value::path::elements(array).map(Node::Raw).collect());
            }
            _ => {}
        }
    }

    /// The position of the child with this name, or index, in an opened node.
    fn position(&self, name: &str) -> Option<usize> {
        match self {
            Node::Document(fields) => fields.iter().position(|(field, _)| field == name),
            Node::Array(items) => array_index(name).filter(|at| *at < items.len()),
            Node::Raw(_) => None,
        }
    }

    /// The child at a position that [`Node::find`] gave.
    pub(super) fn child(&mut self, at: usize) -> &mut Node<'a> {
        match self {
            Node::Document(fields) => &mut fields[at].1,
            Node::Array(items) => &mut items[at],
            // A raw value has no positions.
            Node::Raw(_) => self,
        }
    }

    /// Follows a path, which is not empty.
    pub(super) fn find<'n>(&'n mut self, path: &'n [Box<str>]) -> Place<'n, 'a> {
        let mut parent = self;
        for (level, name) in path.iter().enumerate() {
            parent.open();
            let Some(at) = parent.position(name) else {
                return Place::Missing {
                    parent,
                    rest: &path[level..],
                };
            };
            if level + 1 == path.len() {
                return Place::Existing { parent, at };
            }
            parent = parent.child(at);
        }
        Place::Missing { parent, rest: path }
    }

    /// Takes the child out: a field is removed, an array's element becomes null.
    pub(super) fn remove(&mut self, at: usize) -> Node<'a> {
        match self {
            Node::Document(fields) => fields.remove(at).1,
            Node::Array(items) => std::mem::replace(&mut items[at], Node::Raw(RawBsonRef::Null)),
            Node::Raw(_) => Node::Raw(RawBsonRef::Null),
        }
    }

    /// Whether the path could go on below this opened node with a new child of that name.
    pub(super) fn check_viable(&self, name: &str) -> Result<(), UpdateError> {
        match self {
            Node::Document(_) => Ok(()),
            Node::Array(_) if array_index(name).is_some() => Ok(()),
            _ => Err(UpdateError::new(
                Reason::NotApplicable,
                "a value on the path is neither a document nor an array with such an element",
            )),
        }
    }

    /// Creates what is missing of a path, with `value` at its end.
    pub(super) fn create(
        &mut self,
        rest: &'a [Box<str>],
        value: Node<'a>,
    ) -> Result<(), UpdateError> {
        let Some((first, deeper)) = rest.split_first() else {
            return Ok(());
        };
        self.check_viable(first)?;
        let value = deeper.iter().rev().fold(value, |value, name| {
            Node::Document(vec![(Cow::Borrowed(name.as_ref()), value)])
        });
        match self {
            Node::Document(fields) => fields.push((Cow::Borrowed(first.as_ref()), value)),
            Node::Array(items) => {
                let at = array_index(first).unwrap_or(items.len());
                if at - items.len() > PADDING_MAX {
                    return Err(UpdateError::new(
                        Reason::NotApplicable,
                        "the index is too far beyond the end of the array",
                    ));
                }
                items.resize_with(at, || Node::Raw(RawBsonRef::Null));
                items.push(value);
            }
            Node::Raw(_) => {}
        }
        Ok(())
    }

    fn kind(&self) -> ElementType {
        match self {
            Node::Raw(value) => value.element_type(),
            Node::Document(_) => ElementType::EmbeddedDocument,
            Node::Array(_) => ElementType::Array,
        }
    }

    /// Writes the value. Recursion goes as deep as the longest path of the update.
    pub(super) fn write(&self, out: &mut Builder) {
        match self {
            Node::Raw(value) => out.put_value(*value),
            Node::Document(fields) => {
                let body = out.begin();
                for (name, value) in fields {
                    out.name(value.kind(), name);
                    value.write(out);
                }
                out.end(body);
            }
            Node::Array(items) => {
                let body = out.begin();
                for (at, value) in items.iter().enumerate() {
                    out.index(value.kind(), at);
                    value.write(out);
                }
                out.end(body);
            }
        }
    }
}

/// A document's fields. Bytes that are not BSON end it.
pub(super) fn fields(document: &RawDocument) -> impl Iterator<Item = (&str, RawBsonRef<'_>)> {
    document
        .iter()
        .map_while(Result::ok)
        .map(|(name, value)| (name.as_str(), value))
}

/// The index that a path component is.
pub(super) fn array_index(name: &str) -> Option<usize> {
    let plain = name == "0" || !name.starts_with('0');
    (plain && name.bytes().all(|b| b.is_ascii_digit()))
        .then(|| name.parse().ok())
        .flatten()
}
