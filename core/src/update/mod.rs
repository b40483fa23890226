//! Update operators and merge patches, applied to raw BSON.
//!
//! [`parse`] checks an update document; [`Update::apply`] gives the document that MongoDB would make of it,
//! byte for byte, or refuses where MongoDB refuses. Operators are applied in the order of their paths, as the
//! server does (numbers numerically, names by bytes), so that new fields are appended in that order.
//! Positional operators (`$`, `$[]`) are not supported. `_id` never changes. [`merge_patch`] is RFC 7396.

mod action;
mod arithmetic;
mod array;
mod edit;
mod merge;
mod parse;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

pub use merge::merge_patch;
pub use parse::parse;

use crate::value::path::field;
use crate::value::{Builder, DOCUMENT_BYTES_MAX};
use action::Step;
use edit::Node;

/// Why an update was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The update document is not one.
    Malformed,
    /// An operator, or a use of one, that Freshet does not have.
    Unsupported,
    /// Two operators touch one path, or a path and its parent.
    PathConflict,
    /// The document as it is does not allow it: the wrong type, a scalar on the path, a sum out of range.
    NotApplicable,
    /// It would change `_id`.
    Immutable,
    /// The result would exceed 16 MiB.
    TooLarge,
}

/// A refused update.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct UpdateError {
    /// Why.
    pub reason: Reason,
    /// One short sentence; does not repeat the input at length.
    pub detail: String,
    /// The part of the update (RFC 6901).
    pub pointer: String,
}

impl UpdateError {
    pub(crate) fn new(reason: Reason, detail: impl Into<String>) -> UpdateError {
        UpdateError {
            reason,
            detail: detail.into(),
            pointer: String::new(),
        }
    }

    pub(crate) fn within(mut self, name: &str) -> UpdateError {
        self.pointer
            .insert_str(0, &crate::value::ejson::token(name));
        self
    }
}

/// Whether a filter matches a document: how the conditions of `$pull` are decided. An error says why the
/// filter cannot be decided.
pub type Conditions<'c> = dyn Fn(&RawDocument, &RawDocument) -> Result<bool, String> + 'c;

/// A checked update.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// In the order in which they are applied.
    steps: Vec<Step>,
}

impl Update {
    /// The document after the update. `now_ms` is the wall clock, for `$currentDate`.
    ///
    /// # Errors
    /// The document does not allow the update, or the result is too large.
    pub fn apply(
        &self,
        document: &RawDocument,
        now_ms: u64,
        conditions: &Conditions<'_>,
    ) -> Result<RawDocumentBuf, UpdateError> {
        let mut root = Node::Raw(RawBsonRef::Document(document));
        for step in &self.steps {
            step.apply(&mut root, now_ms, conditions)
                .map_err(|error| step.place(error))?;
        }
        let mut out = Builder::with_capacity(document.as_bytes().len() + 64);
        root.write(&mut out);
        finish(out, document)
    }

    /// The filters that the conditions of `$pull` stand for, for a check before anything is applied.
    pub fn filters(&self) -> impl Iterator<Item = &RawDocument> {
        self.steps.iter().filter_map(Step::filter)
    }
}

/// The checks that every result must pass.
fn finish(out: Builder, before: &RawDocument) -> Result<RawDocumentBuf, UpdateError> {
    if out.len() > DOCUMENT_BYTES_MAX {
        return Err(UpdateError::new(
            Reason::TooLarge,
            "the document would be larger than 16 MiB",
        ));
    }
    let after = out
        .into_document()
        .map_err(|_| UpdateError::new(Reason::NotApplicable, "the result is not BSON"))?;
    let same_id = match (field(before, "_id"), field(&after, "_id")) {
        (Some(before), Some(after)) => same_bytes(before, after),
        (before, _) => before.is_none(),
    };
    if same_id {
        return Ok(after);
    }
    Err(UpdateError::new(Reason::Immutable, "_id cannot change"))
}

/// The server minds the type, too: `5` may not become `5.0`.
fn same_bytes(a: RawBsonRef<'_>, b: RawBsonRef<'_>) -> bool {
    let bytes = |value| {
        let mut out = Builder::new();
        out.append("", value);
        out
    };
    bytes(a).as_bytes() == bytes(b).as_bytes()
}
