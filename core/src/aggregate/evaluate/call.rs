//! Functions whose arguments are all evaluated first.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::super::Function;
use super::expression::{is_nullish, truth};
use super::{Failure, Value, date, number, text};
use crate::value::compare::{compare, equal};
use crate::value::number::Number;
use crate::value::path::elements;

/// The value of a function; the number of arguments was checked when it was read.
pub(super) fn call(function: Function, arguments: &[Value]) -> Result<Value, Failure> {
    use Function as F;
    let boolean = |truth: bool| Ok(Some(RawBson::Boolean(truth)));
    match (function, arguments) {
        (F::Not, [value]) => boolean(!truth(value)),
        (F::Eq, [a, b]) => boolean(order(a, b).is_eq()),
        (F::Ne, [a, b]) => boolean(order(a, b).is_ne()),
        (F::Gt, [a, b]) => boolean(order(a, b).is_gt()),
        (F::Gte, [a, b]) => boolean(order(a, b).is_ge()),
        (F::Lt, [a, b]) => boolean(order(a, b).is_lt()),
        (F::Lte, [a, b]) => boolean(order(a, b).is_le()),
        (F::Cmp, [a, b]) => Ok(Some(RawBson::Int32(order(a, b) as i32))),
        (F::Size, [value]) => size(value),
        (F::ArrayElemAt, [array, index]) => element_at(array, index),
        (F::In, [value, array]) => is_in(value, array),
        (F::IsArray, [value]) => boolean(matches!(value, Some(RawBson::Array(_)))),
        (F::IsNumber, [value]) => boolean(
            value
                .as_ref()
                .is_some_and(|value| Number::of(value.as_raw_bson_ref()).is_some()),
        ),
        (F::Type, [value]) => Ok(Some(RawBson::String(type_name(value).into()))),
        (F::Concat, values) => text::concat(values),
        (F::ToUpper, [value]) => text::changed(value, str::to_ascii_uppercase),
        (F::ToLower, [value]) => text::changed(value, str::to_ascii_lowercase),
        (F::StrLenCp, [value]) => text::length(value),
        (F::SubstrCp, [value, from, count]) => text::part(value, from, count),
        (F::Year | F::Month | F::DayOfMonth, [value]) => date::part(function, value),
        (_, values) => number::call(function, values),
    }
}

/// The server's order; nothing comes where undefined does, before null.
fn order(a: &Value, b: &Value) -> Ordering {
    compare(or_undefined(a), or_undefined(b))
}

fn or_undefined(value: &Value) -> RawBsonRef<'_> {
    value
        .as_ref()
        .map_or(RawBsonRef::Undefined, RawBson::as_raw_bson_ref)
}

fn size(value: &Value) -> Result<Value, Failure> {
    let Some(RawBson::Array(array)) = value else {
        return Err(Failure::invalid("$size needs an array"));
    };
    let count = i32::try_from(elements(array).count()).unwrap_or(i32::MAX);
    Ok(Some(RawBson::Int32(count)))
}

fn element_at(array: &Value, index: &Value) -> Result<Value, Failure> {
    if is_nullish(array) || is_nullish(index) {
        return Ok(Some(RawBson::Null));
    }
    let Some(RawBson::Array(array)) = array else {
        return Err(Failure::invalid("$arrayElemAt needs an array"));
    };
    let index = number::to_i32(index)
        .ok_or_else(|| Failure::invalid("$arrayElemAt needs an integer of 32 bits"))?;
    let at = match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => elements(array)
            .count()
            .checked_sub(index.unsigned_abs() as usize),
    };
    Ok(at.and_then(|at| elements(array).nth(at)).map(RawBson::from))
}

fn is_in(value: &Value, array: &Value) -> Result<Value, Failure> {
    let Some(RawBson::Array(array)) = array else {
        return Err(Failure::invalid("$in needs an array"));
    };
    let found = match value {
        Some(value) => elements(array).any(|member| equal(member, value.as_raw_bson_ref())),
        None => elements(array).any(|member| matches!(member, RawBsonRef::Undefined)),
    };
    Ok(Some(RawBson::Boolean(found)))
}

fn type_name(value: &Value) -> &'static str {
    match value {
        None => "missing",
        Some(RawBson::Double(_)) => "double",
        Some(RawBson::String(_)) => "string",
        Some(RawBson::Document(_)) => "object",
        Some(RawBson::Array(_)) => "array",
        Some(RawBson::Binary(_)) => "binData",
        Some(RawBson::Undefined) => "undefined",
        Some(RawBson::ObjectId(_)) => "objectId",
        Some(RawBson::Boolean(_)) => "bool",
        Some(RawBson::DateTime(_)) => "date",
        Some(RawBson::Null) => "null",
        Some(RawBson::RegularExpression(_)) => "regex",
        Some(RawBson::DbPointer(_)) => "dbPointer",
        Some(RawBson::JavaScriptCode(_)) => "javascript",
        Some(RawBson::Symbol(_)) => "symbol",
        Some(RawBson::JavaScriptCodeWithScope(_)) => "javascriptWithScope",
        Some(RawBson::Int32(_)) => "int",
        Some(RawBson::Timestamp(_)) => "timestamp",
        Some(RawBson::Int64(_)) => "long",
        Some(RawBson::Decimal128(_)) => "decimal",
        Some(RawBson::MinKey) => "minKey",
        Some(RawBson::MaxKey) => "maxKey",
    }
}
