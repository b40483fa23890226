//! What each operator does to the value at its path, or to a path that is not there.

use bson::{DateTime, RawBson, RawBsonRef, RawDocument, Timestamp};

use super::arithmetic::{Operation, combine};
use super::array::{Pull, Push, add_to_set, pop, pull};
use super::edit::{Node, Place};
use super::{Conditions, Reason, UpdateError};
use crate::value::compare::{compare, equal};

/// One operator at one path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    /// `$set`, …
    pub(super) operator: Box<str>,
    /// As written, for error pointers: for `$rename` that of the source.
    pub(super) written: Box<str>,
    pub(super) path: Box<[Box<str>]>,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    Set(RawBson),
    Unset,
    Arithmetic(Operation, RawBson),
    Min(RawBson),
    Max(RawBson),
    /// `true`: a timestamp instead of a date.
    Now(bool),
    Push(Push),
    AddToSet(RawBson),
    Pull(Pull),
    /// `true`: the first element instead of the last.
    Pop(bool),
    /// The source; the step's path is the destination.
    Rename(Box<[Box<str>]>),
}

impl Step {
    pub(super) fn place(&self, error: UpdateError) -> UpdateError {
        error.within(&self.written).within(&self.operator)
    }

    pub(super) fn filter(&self) -> Option<&RawDocument> {
        match &self.action {
            Action::Pull(Pull::Filter(filter) | Pull::Element(filter)) => Some(filter),
            _ => None,
        }
    }

    pub(super) fn apply<'a>(
        &'a self,
        root: &mut Node<'a>,
        now_ms: u64,
        conditions: &Conditions<'_>,
    ) -> Result<(), UpdateError> {
        if let Action::Rename(from) = &self.action {
            return rename(root, from, &self.path);
        }
        match root.find(&self.path) {
            Place::Existing { parent, at } => match &self.action {
                Action::Unset => {
                    parent.remove(at);
                    Ok(())
                }
                action => action.change(parent.child(at), now_ms, conditions),
            },
            Place::Missing { parent, rest } => {
                let missing = rest.len();
                let rest = &self.path[self.path.len() - missing..];
                match self.action.initial(now_ms)? {
                    Some(value) => parent.create(rest, value),
                    None if self.action == Action::Unset => Ok(()),
                    None => parent.check_viable(&rest[0]),
                }
            }
        }
    }
}

impl Action {
    /// Changes a value that is there.
    fn change<'a>(
        &'a self,
        node: &mut Node<'a>,
        now_ms: u64,
        conditions: &Conditions<'_>,
    ) -> Result<(), UpdateError> {
        match self {
            Action::Set(value) => *node = Node::Raw(value.as_raw_bson_ref()),
            Action::Now(timestamp) => *node = Node::Raw(now(*timestamp, now_ms)),
            Action::Arithmetic(operation, operand) => {
                let Node::Raw(value) = node else {
                    return Err(not_a_number());
                };
                let result = combine(*operation, *value, operand.as_raw_bson_ref());
                let result = result.ok_or_else(not_a_number)?;
                // What stays equal stays as it is spelt: 1E+3 is not made 1000.
                if value.element_type() != result.element_type() || !equal(*value, result) {
                    *value = result;
                }
            }
            Action::Min(value) | Action::Max(value) => {
                let order = match node {
                    Node::Raw(current) => compare(value.as_raw_bson_ref(), *current),
                    _ => std::cmp::Ordering::Equal,
                };
                let least = matches!(self, Action::Min(_));
                if if least { order.is_lt() } else { order.is_gt() } {
                    *node = Node::Raw(value.as_raw_bson_ref());
                }
            }
            Action::Push(push) => push.apply(array_items(node)?),
            Action::AddToSet(values) => add_to_set(array_items(node)?, values),
            Action::Pull(pattern) => pull(array_items(node)?, pattern, conditions)?,
            Action::Pop(first) => pop(array_items(node)?, *first),
            // Handled by the caller, which knows the parent.
            Action::Unset | Action::Rename(_) => {}
        }
        Ok(())
    }

    /// The value at a path that is not there; `None` for an operator that creates nothing.
    fn initial(&self, now_ms: u64) -> Result<Option<Node<'_>>, UpdateError> {
        Ok(Some(match self {
            Action::Set(value) | Action::Min(value) | Action::Max(value) => {
                Node::Raw(value.as_raw_bson_ref())
            }
            Action::Arithmetic(Operation::Add, value) => Node::Raw(value.as_raw_bson_ref()),
            Action::Arithmetic(Operation::Multiply, value) => {
                // Zero of the operand's type.
                let zero = combine(
                    Operation::Multiply,
                    RawBsonRef::Int32(0),
                    value.as_raw_bson_ref(),
                );
                Node::Raw(zero.unwrap_or(RawBsonRef::Int32(0)))
            }
            Action::Now(timestamp) => Node::Raw(now(*timestamp, now_ms)),
            Action::Push(push) => {
                let mut items = Vec::new();
                push.apply(&mut items);
                Node::Array(items)
            }
            Action::AddToSet(values) => {
                let mut items = Vec::new();
                add_to_set(&mut items, values);
                Node::Array(items)
            }
            Action::Unset | Action::Pull(_) | Action::Pop(_) | Action::Rename(_) => {
                return Ok(None);
            }
        }))
    }
}

fn not_a_number() -> UpdateError {
    let detail = "the value is not a number, or the result is out of range";
    UpdateError::new(Reason::NotApplicable, detail)
}

fn array_items<'n, 'a>(node: &'n mut Node<'a>) -> Result<&'n mut Vec<Node<'a>>, UpdateError> {
    node.open();
    match node {
        Node::Array(items) => Ok(items),
        _ => Err(UpdateError::new(
            Reason::NotApplicable,
            "the field is not an array",
        )),
    }
}

fn now(timestamp: bool, now_ms: u64) -> RawBsonRef<'static> {
    if timestamp {
        RawBsonRef::Timestamp(Timestamp {
            time: u32::try_from(now_ms / 1000).unwrap_or(u32::MAX),
            increment: 1,
        })
    } else {
        let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
        RawBsonRef::DateTime(DateTime::from_millis(ms))
    }
}

/// Moves a value. Neither path may lead through an array.
fn rename<'a>(
    root: &mut Node<'a>,
    from: &'a [Box<str>],
    to: &'a [Box<str>],
) -> Result<(), UpdateError> {
    match root.find(from) {
        Place::Missing { parent, rest } => return parent.check_viable(&rest[0]),
        Place::Existing { .. } => {}
    }
    if runs_through_array(root, from) || runs_through_array(root, to) {
        return Err(UpdateError::new(
            Reason::NotApplicable,
            "$rename cannot go through an array",
        ));
    }
    // First the destination is checked, so that a refusal leaves nothing half done; it cannot lie within the
    // source, nor the source within it: that would be a conflict.
    if let Place::Missing { parent, rest } = root.find(to) {
        parent.check_viable(&rest[0])?;
    }
    let Place::Existing { parent, at } = root.find(from) else {
        return Ok(());
    };
    let value = parent.remove(at);
    match root.find(to) {
        Place::Existing { parent, at } => *parent.child(at) = value,
        Place::Missing { parent, rest } => {
            let rest = &to[to.len() - rest.len()..];
            parent.create(rest, value)?;
        }
    }
    Ok(())
}

/// Whether one of the values above the path's end is an array.
fn runs_through_array(root: &mut Node<'_>, path: &[Box<str>]) -> bool {
    (1..path.len()).any(|len| match root.find(&path[..len]) {
        Place::Existing { parent, at } => matches!(
            parent.child(at),
            Node::Array(_) | Node::Raw(RawBsonRef::Array(_))
        ),
        Place::Missing { .. } => false,
    })
}
