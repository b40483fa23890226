//! From a filter to what is evaluated. Regular expressions are translated here, once.

use std::sync::Arc;

use bson::RawBson;

use super::bits::Bits;
use super::literal::Literal;
use super::regex::Matcher;
use super::test::{Compared, Comparison, Members, Test};
use super::{Atom, Expr, Reason, Undecidable};
use crate::query::{AllMember, Clause, ElemMatch, Filter, Operator};
use crate::value::path::Path;

/// Compiles a filter.
pub(super) fn filter(
    filter: &Filter,
    paths: &mut dyn FnMut(&str) -> Arc<Path>,
) -> Result<Expr<Atom>, Undecidable> {
    if let Some(operator) = filter.database_only() {
        let reason = Reason::DatabaseOperator(operator);
        return Err(Undecidable { reason });
    }
    let mut all = Vec::with_capacity(filter.clauses().len());
    for clause in filter.clauses() {
        all.push(match clause {
            Clause::Path { path, operator } => {
                let path = paths(path);
                tests(operator)?.map(&mut |test| Atom::new(&path, test))
            }
            Clause::Or(members) => Expr::any(filters(members, paths)?),
            Clause::Nor(members) => Expr::any(filters(members, paths)?).negated(),
        });
    }
    Ok(Expr::all(all))
}

/// A path as it is, for whoever has none in common with others.
pub(super) fn own_path(path: &str) -> Arc<Path> {
    Arc::new(Path::new(path))
}

fn filters(
    members: &[Filter],
    paths: &mut dyn FnMut(&str) -> Arc<Path>,
) -> Result<Vec<Expr<Atom>>, Undecidable> {
    members.iter().map(|member| filter(member, paths)).collect()
}

/// The tests an operator makes of what a path leads to, each for itself.
fn tests(operator: &Operator) -> Result<Expr<Test>, Undecidable> {
    let compare =
        |comparison, value: &RawBson| Expr::Is(Test::Compare(Compared::new(comparison, value)));
    Ok(match operator {
        Operator::Eq(value) => compare(Comparison::Eq, value),
        Operator::Ne(value) => compare(Comparison::Eq, value).negated(),
        Operator::Gt(value) => compare(Comparison::Gt, value),
        Operator::Gte(value) => compare(Comparison::Gte, value),
        Operator::Lt(value) => compare(Comparison::Lt, value),
        Operator::Lte(value) => compare(Comparison::Lte, value),
        Operator::In(values) => Expr::Is(Test::In(Box::new(members(values)?))),
        Operator::Nin(values) => Expr::Not(Test::In(Box::new(members(values)?))),
        Operator::Exists(true) => Expr::Is(Test::Exists),
        Operator::Exists(false) => Expr::Not(Test::Exists),
        Operator::Type(types) => Expr::Is(Test::Type(*types)),
        Operator::Regex(pattern) => Expr::Is(Test::Regex(Box::new(Matcher::new(pattern)?))),
        Operator::Mod { divisor, remainder } => Expr::Is(Test::Mod {
            divisor: *divisor,
            remainder: *remainder,
        }),
        Operator::All(members) if members.is_empty() => Expr::never(),
        Operator::All(members) => all(members.iter().map(all_member))?,
        Operator::ElemMatch(inner) => elem_match(inner)?,
        Operator::Size(size) => Expr::Is(Test::Size(*size)),
        Operator::Bits(test, mask) => Expr::Is(Test::Bits(Box::new(Bits::new(*test, mask)))),
        Operator::Not(inner) => all(inner.iter().map(tests))?.negated(),
    })
}

fn all(
    of: impl Iterator<Item = Result<Expr<Test>, Undecidable>>,
) -> Result<Expr<Test>, Undecidable> {
    Ok(Expr::all(of.collect::<Result<_, _>>()?))
}

fn all_member(member: &AllMember) -> Result<Expr<Test>, Undecidable> {
    match member {
        AllMember::Value(RawBson::RegularExpression(regex)) => {
            Ok(Expr::Is(Test::Regex(Box::new(Matcher::of(regex)?))))
        }
        AllMember::Value(value) => {
            let compared = Compared::new(Comparison::Eq, value);
            Ok(Expr::Is(Test::Compare(compared)))
        }
        AllMember::ElemMatch(inner) => elem_match(inner),
    }
}

fn elem_match(inner: &ElemMatch) -> Result<Expr<Test>, Undecidable> {
    Ok(Expr::Is(match inner {
        ElemMatch::Object(inner) => Test::ElementMatches(Box::new(filter(inner, &mut own_path)?)),
        ElemMatch::Value(inner) => Test::ElementIs(Box::new(all(inner.iter().map(tests))?)),
    }))
}

fn members(members: &[RawBson]) -> Result<Members, Undecidable> {
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for member in members {
        match member {
            RawBson::RegularExpression(regex) => patterns.push(Matcher::of(regex)?),
            value => values.push(value.into()),
        }
    }
    let null = values.contains(&Literal::Null);
    Ok(Members {
        values: values.into(),
        patterns: patterns.into(),
        null,
    })
}
