//! Expressions over one document (the server's `Expression::evaluate`, classic engine).

use bson::{RawArray, RawArrayBuf, RawBson, RawBsonRef, RawDocument};

use super::super::write::document;
use super::super::{Expression, Function};
use super::{Failure, Value, call, number};
use crate::value::path::{elements, field};

/// The value of an expression over a document.
pub(in crate::aggregate) fn evaluate(
    expression: &Expression,
    root: &RawDocument,
) -> Result<Value, Failure> {
    match expression {
        Expression::Value(value) => Ok(Some(value.clone())),
        Expression::Path(path) => {
            let names: Vec<&str> = path.split('.').collect();
            Ok(at_path(root, &names))
        }
        Expression::Root => Ok(Some(RawBson::Document(root.to_owned()))),
        Expression::Remove => Ok(None),
        Expression::Document(fields) => {
            let mut present = Vec::with_capacity(fields.len());
            for (name, field) in fields {
                if let Some(value) = evaluate(field, root)? {
                    present.push((&**name, value));
                }
            }
            Ok(Some(document(present).into()))
        }
        Expression::Array(members) => {
            let mut array = RawArrayBuf::new();
            for member in members {
                array.push(evaluate(member, root)?.unwrap_or(RawBson::Null));
            }
            Ok(Some(RawBson::Array(array)))
        }
        Expression::Call(function, arguments) => called(*function, arguments, root),
        Expression::Switch {
            branches,
            otherwise,
        } => {
            for (condition, then) in branches {
                if truth(&evaluate(condition, root)?) {
                    return evaluate(then, root);
                }
            }
            match otherwise {
                Some(otherwise) => evaluate(otherwise, root),
                None => Err(Failure::invalid("no branch of $switch holds")),
            }
        }
    }
}

/// Evaluates what is constant in an expression, as the server does before it looks at any document: what fails
/// then fails even where it would never be reached.
pub(super) fn check_constants(expression: &Expression) -> Result<(), Failure> {
    let mut checked = Ok(());
    expression.visit(&mut |inner| {
        let calls = matches!(inner, Expression::Call(..) | Expression::Switch { .. });
        if checked.is_ok() && calls && inner.is_constant() {
            checked = evaluate(inner, crate::value::empty()).map(drop);
        }
    });
    checked
}

/// Those whose arguments are not all evaluated first.
fn called(
    function: Function,
    arguments: &[Expression],
    root: &RawDocument,
) -> Result<Value, Failure> {
    let truth_of = |argument: &Expression| evaluate(argument, root).map(|value| truth(&value));
    match (function, arguments) {
        (Function::Cond, [condition, then, otherwise]) => match truth_of(condition)? {
            true => evaluate(then, root),
            false => evaluate(otherwise, root),
        },
        (Function::And | Function::Or, arguments) => {
            let stops = function == Function::Or;
            // The server looks at constants first: where one decides, nothing else is evaluated.
            let (mut varying, mut constants) = (Vec::new(), Vec::new());
            number::flatten(function, arguments, &mut varying, &mut constants);
            for argument in constants.into_iter().chain(varying) {
                if truth_of(argument)? == stops {
                    return Ok(Some(RawBson::Boolean(stops)));
                }
            }
            Ok(Some(RawBson::Boolean(!stops)))
        }
        (Function::IfNull, arguments) => {
            let mut value = None;
            for argument in arguments {
                value = evaluate(argument, root)?;
                if !is_nullish(&value) {
                    break;
                }
            }
            Ok(value)
        }
        (Function::Concat, arguments) => {
            let mut values = Vec::with_capacity(arguments.len());
            for argument in arguments {
                values.push(evaluate(argument, root)?);
                if values.last().is_some_and(is_nullish) {
                    break;
                }
            }
            call::call(function, &values)
        }
        (Function::Add | Function::Multiply, arguments) => {
            number::series(function, arguments, root)
        }
        _ => {
            let values = arguments
                .iter()
                .map(|argument| evaluate(argument, root))
                .collect::<Result<Vec<Value>, Failure>>()?;
            call::call(function, &values)
        }
    }
}

/// What is at a path: of an array, the values of its documents.
fn at_path(document: &RawDocument, names: &[&str]) -> Value {
    let (first, rest) = names.split_first()?;
    let value = field(document, first)?;
    if rest.is_empty() {
        return Some(value.into());
    }
    match value {
        RawBsonRef::Document(inner) => at_path(inner, rest),
        RawBsonRef::Array(array) => Some(RawBson::Array(within(array, rest))),
        _ => None,
    }
}

fn within(array: &RawArray, names: &[&str]) -> RawArrayBuf {
    let mut found = RawArrayBuf::new();
    for element in elements(array) {
        if let RawBsonRef::Document(inner) = element
            && let Some(value) = at_path(inner, names)
        {
            found.push(value);
        }
    }
    found
}

/// What MongoDB takes for true: everything but false, null, nothing and zero.
pub(super) fn truth(value: &Value) -> bool {
    match value {
        None | Some(RawBson::Null | RawBson::Undefined | RawBson::Boolean(false)) => false,
        Some(RawBson::Int32(n)) => *n != 0,
        Some(RawBson::Int64(n)) => *n != 0,
        Some(RawBson::Double(n)) => *n != 0.0,
        Some(decimal @ RawBson::Decimal128(_)) => !number::is_zero(decimal.as_raw_bson_ref()),
        Some(_) => true,
    }
}

/// Null, undefined, or nothing.
pub(super) fn is_nullish(value: &Value) -> bool {
    matches!(value, None | Some(RawBson::Null | RawBson::Undefined))
}
