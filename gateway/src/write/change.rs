//! What a write changes, read from method, media type and body; and what it makes of a record's current state.

use bson::oid::ObjectId;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use freshet_core::update::{self, Update, UpdateError};
use freshet_core::value::ejson;
use freshet_core::value::id::RecordId;
use http::{HeaderMap, Method};

use super::body::Media;
use crate::error::{Kind, Problem};
use crate::store::Write;

/// A change to one record.
#[derive(Clone, Debug)]
pub enum Change {
    /// This is its state now.
    Put(RawDocumentBuf),
    /// RFC 7396.
    MergePatch(RawDocumentBuf),
    /// MongoDB's operators: as they came, and understood.
    Update(RawDocumentBuf, Box<Update>),
    /// It goes.
    Delete,
}

/// Why a change cannot be made to a record.
#[derive(Clone, Debug)]
pub enum Impossible {
    /// 404.
    Missing,
    /// 422, with detail and pointer.
    Unfit(UpdateError),
}

impl Change {
    /// Reads the change.
    ///
    /// # Errors
    /// 400, 415.
    pub fn parse(
        method: &Method,
        headers: &HeaderMap,
        body: &[u8],
        id: &RecordId,
    ) -> Result<Change, Problem> {
        if *method == Method::DELETE {
            return match body.is_empty() {
                true => Ok(Change::Delete),
                false => Err(Problem::malformed("a DELETE has no body")),
            };
        }
        if *method == Method::PUT {
            Media::of(headers, &[Media::Json])?;
            return with_id(&document(body)?, id).map(Change::Put);
        }
        let media = Media::of(headers, &[Media::MergePatch, Media::Update])?;
        let patch = document(body)?;
        if media == Media::MergePatch {
            return Ok(Change::MergePatch(patch));
        }
        let update = update::parse(&patch)
            .map_err(|error| Problem::malformed(error.detail).at(error.pointer))?;
        for filter in update.filters() {
            Filter::parse(filter)
                .map_err(|error| Problem::malformed(error.detail).at(error.pointer))?;
        }
        Ok(Change::Update(patch, Box::new(update)))
    }

    /// The record's state after the change; `None`: gone.
    ///
    /// # Errors
    /// [`Impossible`].
    pub fn apply(
        &self,
        current: Option<&RawDocument>,
        now_ms: u64,
    ) -> Result<Option<RawDocumentBuf>, Impossible> {
        if let Change::Put(document) = self {
            return Ok(Some(document.clone()));
        }
        let current = current.ok_or(Impossible::Missing)?;
        match self {
            Change::Put(document) => Ok(Some(document.clone())),
            Change::MergePatch(patch) => update::merge_patch(current, patch)
                .map(Some)
                .map_err(Impossible::Unfit),
            Change::Update(_, update) => update
                .apply(current, now_ms, &condition)
                .map(Some)
                .map_err(Impossible::Unfit),
            Change::Delete => Ok(None),
        }
    }

    /// The change as the store carries it out on a record in this state. Operators go to the database as they
    /// came: it is their author.
    ///
    /// # Errors
    /// [`Impossible`].
    pub fn write(
        &self,
        namespace: &Namespace,
        id: &RawBson,
        current: Option<&RawDocument>,
        now_ms: u64,
    ) -> Result<Write, Impossible> {
        let (namespace, id) = (namespace.clone(), id.clone());
        if let (Change::Update(operators, _), Some(_)) = (self, current) {
            let operators = operators.clone();
            return Ok(Write::Update {
                namespace,
                id,
                operators,
            });
        }
        Ok(match self.apply(current, now_ms)? {
            Some(document) => Write::Put {
                namespace,
                id,
                document,
            },
            None => Write::Delete { namespace, id },
        })
    }
}

/// The records of an insert, each with an `_id`.
///
/// # Errors
/// 400 with a pointer, 413 for too many, 415.
pub fn inserted(
    headers: &HeaderMap,
    body: &[u8],
    documents_max: u64,
) -> Result<(Vec<RawDocumentBuf>, bool), Problem> {
    Media::of(headers, &[Media::Json])?;
    let value = ejson::parse_value(body)
        .map_err(|error| Problem::malformed(error.detail).at(error.pointer))?;
    match value.as_raw_bson_ref() {
        RawBsonRef::Document(document) => Ok((vec![identified(document, "")?], false)),
        RawBsonRef::Array(array) => {
            let mut documents = Vec::new();
            for (index, member) in array.into_iter().enumerate() {
                if documents.len() as u64 >= documents_max {
                    return Err(Problem::new(
                        Kind::TooLarge,
                        format!("at most {documents_max} records in one insert"),
                    ));
                }
                let pointer = format!("/{index}");
                match member {
                    Ok(RawBsonRef::Document(document)) => {
                        documents.push(identified(document, &pointer)?)
                    }
                    _ => return Err(Problem::malformed("each record is an object").at(pointer)),
                }
            }
            if documents.is_empty() {
                return Err(Problem::malformed("there is nothing to insert"));
            }
            Ok((documents, true))
        }
        _ => Err(Problem::malformed(
            "a record is an object, several are an array",
        )),
    }
}

/// The record with an `_id` in front: its own, or a new ObjectId.
fn identified(document: &RawDocument, pointer: &str) -> Result<RawDocumentBuf, Problem> {
    match document.get("_id") {
        Ok(None) => Ok(prefixed(RawBson::ObjectId(ObjectId::new()), document)),
        Ok(Some(id)) => {
            RecordId::of(id).map_err(|error| {
                Problem::malformed(error.to_string()).at(format!("{pointer}/_id"))
            })?;
            Ok(prefixed(RawBson::from(id), document))
        }
        Err(_) => Err(Problem::malformed("the record cannot be read").at(pointer)),
    }
}

/// The record under the id that the path names. An `_id` in the body must be that one; its type is kept.
fn with_id(document: &RawDocument, id: &RecordId) -> Result<RawDocumentBuf, Problem> {
    let own = document.get("_id").ok().flatten();
    match own {
        None => Ok(prefixed(RawBson::from(id.as_raw()), document)),
        Some(own) if RecordId::of(own).is_ok_and(|own| own == *id) => {
            Ok(prefixed(RawBson::from(own), document))
        }
        Some(_) => Err(Problem::malformed("the body's _id is not the one in the path").at("/_id")),
    }
}

/// MongoDB keeps `_id` as the first field.
fn prefixed(id: RawBson, document: &RawDocument) -> RawDocumentBuf {
    let mut whole = RawDocumentBuf::new();
    whole.append(bson::cstr!("_id"), id);
    for (name, value) in document.iter().flatten() {
        if name.as_str() != "_id" {
            whole.append(name, value);
        }
    }
    whole
}

/// A condition of `$pull`, decided as the database does or not at all.
pub(crate) fn condition(filter: &RawDocument, element: &RawDocument) -> Result<bool, String> {
    let filter = Filter::parse(filter).map_err(|error| error.detail)?;
    let predicate = Predicate::compile(&filter).map_err(|error| error.to_string())?;
    Ok(predicate.matches(element))
}

fn document(body: &[u8]) -> Result<RawDocumentBuf, Problem> {
    ejson::parse_document(body).map_err(|error| Problem::malformed(error.detail).at(error.pointer))
}
