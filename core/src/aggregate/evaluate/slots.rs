//! Pipelines whose answer shows how the server holds documents in memory: a field that is taken away keeps its place
//! there, and where a later stage sets it again, that is where it comes back. Here it would come last, so such a
//! pipeline is refused. It is rare, and nobody means it.

use super::super::{Expression, Field, Fields, Function, Mode, Reshape, Stage};
use super::Failure;

/// Refuses a pipeline that sets again what an earlier stage may have taken away.
pub(super) fn check(stages: &[Stage]) -> Result<(), Failure> {
    follow(stages, Vec::new())
}

fn follow(stages: &[Stage], mut gone: Vec<String>) -> Result<(), Failure> {
    for stage in stages {
        match stage {
            Stage::Reshape(reshape) => reshaped(reshape, &mut gone)?,
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
                    follow(stages, gone.clone())?;
                }
                gone.clear();
            }
            // They make new documents.
            Stage::Group(_) | Stage::Count(_) => gone.clear(),
            Stage::Match(_) | Stage::Sort(_) | Stage::Skip(_) | Stage::Limit(_) => {}
        }
    }
    Ok(())
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
