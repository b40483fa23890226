//! Pipelines whose answer shows how the server works inside. They are rare, nobody means them, and they are refused here.
//!
//! A field that is taken away keeps its place in the server's memory, and where a later stage sets it again, that is where
//! it comes back; here it would come last. And a `$match` is moved to before the stage that computes a part of the field it
//! looks at, as if that made no difference, so that it sees what was there before.

use super::super::{Expression, Field, Fields, Function, Mode, Reshape, Stage};
use super::Failure;
use crate::query::Filter;

/// Refuses a pipeline that sets again what an earlier stage may have taken away.
pub(super) fn check(stages: &[Stage]) -> Result<(), Failure> {
    follow(stages, Vec::new(), Vec::new())
}

/// `gone`: paths that may have been taken away; `parts`: dotted paths that were computed.
fn follow(stages: &[Stage], mut gone: Vec<String>, mut parts: Vec<String>) -> Result<(), Failure> {
    for stage in stages {
        match stage {
            Stage::Reshape(reshape) => {
                reshaped(reshape, &mut gone)?;
                computed_parts(&reshape.fields, "", &mut parts);
            }
            Stage::Match(filter) => unmoved(filter, &parts)?,
            Stage::Unwind(unwind) => {
                if let Some(index) = &unwind.index {
                    set(index, &gone)?;
                }
                if unwind.preserve {
                    gone.push(unwind.path.to_string());
                }
            }
            Stage::Lookup(join) => set(&join.target, &gone)?,
            Stage::Facet(branches) => {
                for (_, stages) in branches {
                    follow(stages, gone.clone(), parts.clone())?;
                }
                gone.clear();
                parts.clear();
            }
            // They make new documents.
            Stage::Group(_) | Stage::Count(_) => {
                gone.clear();
                parts.clear();
            }
            Stage::Sort(_) | Stage::Skip(_) | Stage::Limit(_) => {}
        }
    }
    Ok(())
}

fn computed_parts(fields: &Fields, above: &str, parts: &mut Vec<String>) {
    for (name, field) in &fields.0 {
        match (field, above) {
            (Field::Within(inner), "") => computed_parts(inner, name, parts),
            (Field::Within(inner), above) => {
                computed_parts(inner, &format!("{above}.{name}"), parts);
            }
            (Field::Computed(_), "") | (Field::Named, _) => {}
            (Field::Computed(_), above) => parts.push(format!("{above}.{name}")),
        }
    }
}

fn unmoved(filter: &Filter, parts: &[String]) -> Result<(), Failure> {
    let first = |path: &str| path.split('.').next().unwrap_or_default().to_owned();
    let paths = filter.paths().unwrap_or_default();
    let computed = |path: &String| parts.iter().any(|part| first(part) == first(path));
    match paths.iter().any(computed) {
        true => Err(Failure::undecided(
            "a $match on a field of which a part was computed",
        )),
        false => Ok(()),
    }
}

fn reshaped(reshape: &Reshape, gone: &mut Vec<String>) -> Result<(), Failure> {
    if reshape.mode == Mode::Include {
        gone.clear();
    }
    let mut leaving = Vec::new();
    within(&reshape.fields, reshape.mode, "", gone, &mut leaving)?;
    gone.append(&mut leaving);
    Ok(())
}

fn within(
    fields: &Fields,
    mode: Mode,
    above: &str,
    gone: &[String],
    leaving: &mut Vec<String>,
) -> Result<(), Failure> {
    for (name, field) in &fields.0 {
        let path = match above {
            "" => name.to_string(),
            above => format!("{above}.{name}"),
        };
        match field {
            Field::Named if mode == Mode::Exclude => leaving.push(path),
            Field::Named => {}
            Field::Computed(computed) => {
                set(&path, gone)?;
                if may_be_missing(computed) {
                    leaving.push(path);
                }
            }
            Field::Within(inner) => within(inner, mode, &path, gone, leaving)?,
        }
    }
    Ok(())
}

fn set(path: &str, gone: &[String]) -> Result<(), Failure> {
    let again = |gone: &String| {
        path.strip_prefix(&**gone)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    match gone.iter().any(again) {
        true => Err(Failure::undecided(
            "a field that is set again after it was taken away",
        )),
        false => Ok(()),
    }
}

fn may_be_missing(expression: &Expression) -> bool {
    match expression {
        Expression::Path(_) | Expression::Remove => true,
        Expression::Call(Function::ArrayElemAt, _) => true,
        Expression::Call(Function::Cond, arguments) => arguments[1..].iter().any(may_be_missing),
        Expression::Call(Function::IfNull, arguments) => {
            arguments.last().is_some_and(may_be_missing)
        }
        Expression::Switch {
            branches,
            otherwise,
        } => {
            branches.iter().any(|(_, then)| may_be_missing(then))
                || otherwise.as_deref().is_some_and(may_be_missing)
        }
        Expression::Value(_)
        | Expression::Root
        | Expression::Document(_)
        | Expression::Array(_)
        | Expression::Call(..) => false,
    }
}
