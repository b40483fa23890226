//! Functions of strings.

use bson::RawBson;

use super::expression::is_nullish;
use super::{Failure, Value, number};

/// `$concat`: null where one is.
pub(super) fn concat(values: &[Value]) -> Result<Value, Failure> {
    let mut whole = String::new();
    for value in values {
        match value {
            Some(RawBson::String(text)) => whole.push_str(text),
            value if is_nullish(value) => return Ok(Some(RawBson::Null)),
            _ => return Err(Failure::invalid("$concat needs strings")),
        }
    }
    Ok(Some(RawBson::String(whole)))
}

/// `$toUpper`, `$toLower`: only ASCII letters, as the server has it.
pub(super) fn changed(value: &Value, change: fn(&str) -> String) -> Result<Value, Failure> {
    Ok(Some(RawBson::String(change(&as_text(value)?))))
}

/// `$strLenCP`.
pub(super) fn length(value: &Value) -> Result<Value, Failure> {
    let Some(RawBson::String(text)) = value else {
        return Err(Failure::invalid("$strLenCP needs a string"));
    };
    let count = i32::try_from(text.chars().count()).unwrap_or(i32::MAX);
    Ok(Some(RawBson::Int32(count)))
}

/// `$substrCP`.
pub(super) fn part(value: &Value, from: &Value, count: &Value) -> Result<Value, Failure> {
    let text = as_text(value)?;
    let natural = |value: &Value| number::to_i32(value).and_then(|n| usize::try_from(n).ok());
    match (natural(from), natural(count)) {
        (Some(from), Some(count)) => {
            let part: String = text.chars().skip(from).take(count).collect();
            Ok(Some(RawBson::String(part)))
        }
        _ => Err(Failure::invalid(
            "$substrCP needs a place and a length, integers from 0",
        )),
    }
}

/// A value as a string. How the server prints other types than these is its own.
fn as_text(value: &Value) -> Result<String, Failure> {
    match value {
        Some(RawBson::String(text)) => Ok(text.clone()),
        Some(RawBson::Int32(n)) => Ok(n.to_string()),
        Some(RawBson::Int64(n)) => Ok(n.to_string()),
        value if is_nullish(value) => Ok(String::new()),
        Some(
            RawBson::Double(_)
            | RawBson::Decimal128(_)
            | RawBson::DateTime(_)
            | RawBson::Timestamp(_)
            | RawBson::Symbol(_)
            | RawBson::JavaScriptCode(_),
        ) => Err(Failure::undecided("a string made of another type")),
        _ => Err(Failure::invalid("a string is needed")),
    }
}
