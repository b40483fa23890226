//! Expressions: the list of functions, and what a text that begins with `$` means.

use bson::{RawBson, RawBsonRef, RawDocument};

use super::super::error::shown;
use super::super::{Expression, Function, PipelineError, PipelineErrorKind};
use super::{MEMBERS_MAX, dollar_path, field_name, only_field};

/// Reads an expression.
pub(super) fn expression(value: RawBsonRef<'_>) -> Result<Expression, PipelineError> {
    match value {
        RawBsonRef::String(text) if text.starts_with("$$") => variable(text),
        RawBsonRef::String(text) if text.starts_with('$') => {
            dollar_path(text).map(Expression::Path)
        }
        RawBsonRef::Array(array) => {
            let mut members = Vec::new();
            for (index, member) in array.into_iter().enumerate() {
                if index == MEMBERS_MAX {
                    return Err(PipelineError::too_many(format!(
                        "an array of expressions has {MEMBERS_MAX} members at most"
                    )));
                }
                members.push(expression(member?).map_err(|error| error.within(index))?);
            }
            Ok(Expression::Array(members))
        }
        RawBsonRef::Document(document) => match operator(document)? {
            Some((name, operand)) => call(name, operand).map_err(|error| error.within(name)),
            None => fields(document),
        },
        value => Ok(Expression::Value(value.into())),
    }
}

/// Name and operand of an operator; `None` for a document of expressions.
pub(super) fn operator(
    document: &RawDocument,
) -> Result<Option<(&str, RawBsonRef<'_>)>, PipelineError> {
    let begins = match document.iter().next() {
        Some(first) => first?.0.as_str().starts_with('$'),
        None => false,
    };
    if !begins {
        return Ok(None);
    }
    match only_field(document)? {
        Some(only) => Ok(Some(only)),
        None => Err(PipelineError::operand(
            "an operator is the only field of its document",
        )),
    }
}

fn variable(text: &str) -> Result<Expression, PipelineError> {
    let (name, rest) = match text.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    match (name, rest) {
        ("$$ROOT" | "$$CURRENT", None) => Ok(Expression::Root),
        ("$$ROOT" | "$$CURRENT", Some(rest)) => super::path(rest).map(Expression::Path),
        ("$$REMOVE", None) => Ok(Expression::Remove),
        _ => Err(PipelineError::new(
            PipelineErrorKind::Expression,
            format!("{} is no variable here", shown(name)),
        )),
    }
}

fn fields(document: &RawDocument) -> Result<Expression, PipelineError> {
    let mut fields: Vec<(Box<str>, Expression)> = Vec::new();
    for field in document {
        let (name, value) = field?;
        let read = field_name(name.as_str()).and_then(|name| {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(PipelineError::path("a field is named twice"));
            }
            Ok((name, expression(value)?))
        });
        fields.push(read.map_err(|error| error.within(name.as_str()))?);
    }
    Ok(Expression::Document(fields))
}

fn call(name: &str, operand: RawBsonRef<'_>) -> Result<Expression, PipelineError> {
    match name {
        "$literal" => return Ok(Expression::Value(RawBson::from(operand))),
        "$switch" => return switch(operand),
        "$cond" if matches!(operand, RawBsonRef::Document(_)) => return conditional(operand),
        _ => {}
    }
    let function = Function::named(name).ok_or_else(|| {
        PipelineError::new(
            PipelineErrorKind::Expression,
            format!("{} is not an expression that is answered here", shown(name)),
        )
    })?;
    if let (Function::Year | Function::Month | Function::DayOfMonth, RawBsonRef::Document(form)) =
        (function, operand)
        && operator(form)?.is_none()
    {
        // Its long form has a time zone, whose rules change.
        return Err(PipelineError::operand(format!(
            "{name} takes a date, in UTC"
        )));
    }
    let arguments = match operand {
        RawBsonRef::Array(_) => match expression(operand)? {
            Expression::Array(members) => members,
            _ => Vec::new(),
        },
        operand => vec![expression(operand)?],
    };
    if function.takes(arguments.len()) {
        Ok(Expression::Call(function, arguments))
    } else {
        Err(PipelineError::operand(format!(
            "{name} does not take {} arguments",
            arguments.len()
        )))
    }
}

/// `{if:…, then:…, else:…}`.
fn conditional(operand: RawBsonRef<'_>) -> Result<Expression, PipelineError> {
    let [condition, then, otherwise] = named(operand, ["if", "then", "else"], "$cond")?;
    match (condition, then, otherwise) {
        (Some(condition), Some(then), Some(otherwise)) => Ok(Expression::Call(
            Function::Cond,
            vec![condition, then, otherwise],
        )),
        _ => Err(PipelineError::operand("$cond needs if, then and else")),
    }
}

fn switch(operand: RawBsonRef<'_>) -> Result<Expression, PipelineError> {
    let wrong = || PipelineError::operand("$switch takes branches, an array, and default");
    let RawBsonRef::Document(document) = operand else {
        return Err(wrong());
    };
    let (mut branches, mut otherwise) = (Vec::new(), None);
    for field in document {
        let (name, value) = field?;
        let name = name.as_str();
        match (name, value) {
            ("branches", RawBsonRef::Array(array)) => {
                for (index, branch) in array.into_iter().enumerate() {
                    let read = one_branch(branch?);
                    branches.push(read.map_err(|error| error.within(index).within(name))?);
                }
            }
            ("default", value) => {
                let read = expression(value).map_err(|error| error.within(name))?;
                otherwise = Some(Box::new(read));
            }
            _ => return Err(wrong().within(shown(name))),
        }
    }
    if branches.is_empty() {
        return Err(PipelineError::operand("$switch needs at least one branch"));
    }
    Ok(Expression::Switch {
        branches,
        otherwise,
    })
}

fn one_branch(branch: RawBsonRef<'_>) -> Result<(Expression, Expression), PipelineError> {
    match named(branch, ["case", "then"], "a branch")? {
        [Some(case), Some(then)] => Ok((case, then)),
        _ => Err(PipelineError::operand("a branch needs case and then")),
    }
}

/// The named arguments of a document that has no others.
fn named<const N: usize>(
    operand: RawBsonRef<'_>,
    names: [&str; N],
    what: &str,
) -> Result<[Option<Expression>; N], PipelineError> {
    let RawBsonRef::Document(document) = operand else {
        return Err(PipelineError::operand(format!("{what} needs a document")));
    };
    let mut found = [const { None }; N];
    for field in document {
        let (name, value) = field?;
        let name = name.as_str();
        let Some(at) = names.iter().position(|known| *known == name) else {
            let detail = format!("{what} takes {}", names.join(", "));
            return Err(PipelineError::operand(detail).within(shown(name)));
        };
        found[at] = Some(expression(value).map_err(|error| error.within(name))?);
    }
    Ok(found)
}
