//! The pass over a whole query document before its meaning is read: what may appear in no place of it
//! (code, deprecated types), how deep it nests, how many nodes it has. Runs over the operands of
//! operators that only the database decides too, so nothing hides inside `$expr`.

use bson::{RawArray, RawBsonRef, RawDocument};

use crate::query::{FILTER_DEPTH_MAX, FILTER_NODES_MAX, FilterError, FilterErrorKind};

/// Checks `document` at every level.
pub(super) fn check(document: &RawDocument) -> Result<(), FilterError> {
    level(document, 1, &mut 0)
}

/// Checks the members of a pipeline: the same rules and limits, for all of them together.
pub(crate) fn check_allowed(array: &RawArray) -> Result<(), FilterError> {
    inner(RawBsonRef::Array(array), 0, &mut 0)
}

fn level(document: &RawDocument, depth: usize, nodes: &mut usize) -> Result<(), FilterError> {
    enter(depth)?;
    for element in document.iter() {
        let (name, value) = element?;
        let name = name.as_str();
        if matches!(name, "$where" | "$function" | "$accumulator") {
            let detail = format!("{name} is not allowed: code is never run");
            return Err(FilterError::new(FilterErrorKind::Forbidden, detail).within(name));
        }
        count(nodes)
            .and_then(|()| inner(value, depth, nodes))
            .map_err(|error| error.within(name))?;
    }
    Ok(())
}

fn inner(value: RawBsonRef<'_>, depth: usize, nodes: &mut usize) -> Result<(), FilterError> {
    match value {
        RawBsonRef::Document(document) => level(document, depth + 1, nodes),
        RawBsonRef::Array(array) => {
            enter(depth + 1)?;
            for (index, member) in array.into_iter().enumerate() {
                let member = member?;
                let counted = match member {
                    RawBsonRef::Document(_) | RawBsonRef::Array(_) => count(nodes),
                    _ => Ok(()),
                };
                counted
                    .and_then(|()| inner(member, depth + 1, nodes))
                    .map_err(|error| error.within(index))?;
            }
            Ok(())
        }
        RawBsonRef::Undefined => Err(refused_type("undefined")),
        RawBsonRef::Symbol(_) => Err(refused_type("a symbol")),
        RawBsonRef::JavaScriptCode(_) | RawBsonRef::JavaScriptCodeWithScope(_) => {
            Err(refused_type("code"))
        }
        RawBsonRef::DbPointer(_) => Err(refused_type("a DBPointer")),
        _ => Ok(()),
    }
}

fn refused_type(what: &str) -> FilterError {
    FilterError::new(
        FilterErrorKind::ValueType,
        format!("a filter or pipeline cannot hold {what}"),
    )
}

fn enter(depth: usize) -> Result<(), FilterError> {
    if depth <= FILTER_DEPTH_MAX {
        return Ok(());
    }
    let detail = format!("a filter or pipeline may nest {FILTER_DEPTH_MAX} levels at most");
    Err(FilterError::new(FilterErrorKind::TooDeep, detail))
}

fn count(nodes: &mut usize) -> Result<(), FilterError> {
    *nodes += 1;
    if *nodes <= FILTER_NODES_MAX {
        return Ok(());
    }
    let detail = format!("a filter or pipeline may have {FILTER_NODES_MAX} nodes at most");
    Err(FilterError::new(FilterErrorKind::TooManyNodes, detail))
}
