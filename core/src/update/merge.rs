//! JSON Merge Patch (RFC 7396 §2) over BSON: null removes, documents are merged, everything else replaces.
//!
//! Fields that stay keep their place; new ones are appended in the patch's order. A value that Extended JSON
//! wraps (a date, an id) is a value, not a document.

use std::collections::HashMap;

use bson::{RawBsonRef, RawDocument, RawDocumentBuf};

use super::edit::fields;
use super::{Reason, UpdateError, finish};
use crate::value::ejson::NESTING_MAX;
use crate::value::path::field;
use crate::value::{Builder, compare};

/// The document after the patch.
///
/// # Errors
/// The patch has a field that begins with `$` at its top (an update of another kind, by mistake), would change
/// `_id`, is nested too deep, or makes the document too large.
pub fn merge_patch(
    target: &RawDocument,
    patch: &RawDocument,
) -> Result<RawDocumentBuf, UpdateError> {
    for (name, value) in fields(patch) {
        if name.starts_with('$') {
            let detail = "a merge patch has no operators";
            return Err(UpdateError::new(Reason::Malformed, detail).within(name));
        }
        let same = || field(target, "_id").is_none_or(|id| compare::equal(id, value));
        if name == "_id" && !same() {
            return Err(UpdateError::new(Reason::Immutable, "_id cannot change").within(name));
        }
    }
    let mut out = Builder::with_capacity(target.as_bytes().len() + patch.as_bytes().len());
    merge(target, patch, 0, &mut out)?;
    finish(out, target)
}

fn merge(
    target: &RawDocument,
    patch: &RawDocument,
    depth: u32,
    out: &mut Builder,
) -> Result<(), UpdateError> {
    if depth > NESTING_MAX {
        let detail = format!("nested deeper than {NESTING_MAX} levels");
        return Err(UpdateError::new(Reason::Malformed, detail));
    }
    let body = out.begin();
    let mut changes: HashMap<&str, RawBsonRef<'_>> = fields(patch).collect();
    for (name, value) in fields(target) {
        match changes.remove(name) {
            // Equal, or it would have been refused: the stored type stays.
            Some(_) if depth == 0 && name == "_id" => out.append(name, value),
            Some(change) => put(name, Some(value), change, depth, out)?,
            None => out.append(name, value),
        }
    }
    for (name, change) in fields(patch) {
        if changes.contains_key(name) {
            put(name, None, change, depth, out)?;
        }
    }
    out.end(body);
    Ok(())
}

fn put<'a>(
    name: &str,
    current: Option<RawBsonRef<'a>>,
    change: RawBsonRef<'a>,
    depth: u32,
    out: &mut Builder,
) -> Result<(), UpdateError> {
    match change {
        RawBsonRef::Null => Ok(()),
        RawBsonRef::Document(patch) => {
            let current = current.and_then(RawBsonRef::as_document);
            out.name(change.element_type(), name);
            let current = current.unwrap_or_else(|| crate::value::empty());
            merge(current, patch, depth + 1, out)
        }
        value => {
            out.append(name, value);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::ejson::{Mode, parse_document, write_document};

    #[test]
    fn the_examples_of_rfc_7396() {
        for (target, patch, result) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
            (
                r#"{"a":{"b":"c"}}"#,
                r#"{"a":{"b":"d","c":null}}"#,
                r#"{"a":{"b":"d"}}"#,
            ),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
            (
                r#"{"a":"foo"}"#,
                r#"{"a":{"bb":{"ccc":null}}}"#,
                r#"{"a":{"bb":{}}}"#,
            ),
            (
                r#"{"d":1}"#,
                r#"{"d":{"$date":"1970-01-01T00:00:00Z"}}"#,
                r#"{"d":{"$date":"1970-01-01T00:00:00Z"}}"#,
            ),
            (
                r#"{"_id":5,"a":1}"#,
                r#"{"_id":5.0,"a":2}"#,
                r#"{"_id":5,"a":2}"#,
            ),
        ] {
            let (target, patch) = (
                parse_document(target.as_bytes()),
                parse_document(patch.as_bytes()),
            );
            let merged = merge_patch(&target.unwrap(), &patch.unwrap()).unwrap();
            let mut text = Vec::new();
            write_document(&merged, Mode::Relaxed, &mut text);
            assert_eq!(String::from_utf8(text).unwrap(), result);
        }
    }

    #[test]
    fn the_id_stays() {
        let target = parse_document(br#"{"_id":5,"a":1}"#).unwrap();
        for patch in [
            r#"{"_id":6}"#,
            r#"{"_id":null}"#,
            r#"{"_id":{}}"#,
            r#"{"$set":{"a":1}}"#,
        ] {
            let patch = parse_document(patch.as_bytes()).unwrap();
            assert!(merge_patch(&target, &patch).is_err());
        }
    }
}
