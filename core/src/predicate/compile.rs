//! From a filter to what is evaluated. Regular expressions are translated here, once.

use bson::RawBson;

use super::bits::Bits;
use super::regex::Matcher;
use super::test::{Comparison, Members, Operand, Test};
use super::{Condition, Node, Reason, Undecidable};
use crate::query::{AllMember, Clause, ElemMatch, Filter, Operator};
use crate::value::path::Path;

/// Compiles a filter.
pub(super) fn filter(filter: &Filter) -> Result<Node, Undecidable> {
    if let Some(operator) = filter.database_only() {
        let reason = Reason::DatabaseOperator(operator);
        return Err(Undecidable { reason });
    }
    let mut nodes = Vec::with_capacity(filter.clauses().len());
    for clause in filter.clauses() {
        nodes.push(match clause {
            Clause::Path { path, operator } => Node::Path(Path::new(path), condition(operator)?),
            Clause::Or(members) => Node::Or(filters(members)?),
            Clause::Nor(members) => Node::Nor(filters(members)?),
        });
    }
    Ok(match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::And(nodes),
    })
}

fn filters(members: &[Filter]) -> Result<Vec<Node>, Undecidable> {
    members.iter().map(filter).collect()
}

fn condition(operator: &Operator) -> Result<Condition, Undecidable> {
    let compare = |comparison, value: &RawBson| {
        Condition::Test(Test::Compare(comparison, Operand::new(value.clone())))
    };
    Ok(match operator {
        Operator::Eq(value) => compare(Comparison::Eq, value),
        Operator::Ne(value) => not(compare(Comparison::Eq, value)),
        Operator::Gt(value) => compare(Comparison::Gt, value),
        Operator::Gte(value) => compare(Comparison::Gte, value),
        Operator::Lt(value) => compare(Comparison::Lt, value),
        Operator::Lte(value) => compare(Comparison::Lte, value),
        Operator::In(values) => Condition::Test(Test::In(members(values)?)),
        Operator::Nin(values) => not(Condition::Test(Test::In(members(values)?))),
        Operator::Exists(true) => Condition::Test(Test::Exists),
        Operator::Exists(false) => not(Condition::Test(Test::Exists)),
        Operator::Type(types) => Condition::Test(Test::Type(*types)),
        Operator::Regex(pattern) => Condition::Test(Test::Regex(Matcher::new(pattern)?)),
        Operator::Mod { divisor, remainder } => Condition::Test(Test::Mod {
            divisor: *divisor,
            remainder: *remainder,
        }),
        Operator::All(members) if members.is_empty() => Condition::Never,
        Operator::All(members) => all(members.iter().map(all_member))?,
        Operator::ElemMatch(inner) => elem_match(inner)?,
        Operator::Size(size) => Condition::Test(Test::Size(*size)),
        Operator::Bits(test, mask) => Condition::Test(Test::Bits(Bits::new(*test, mask))),
        Operator::Not(inner) => not(all(inner.iter().map(condition))?),
    })
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

fn all(
    conditions: impl Iterator<Item = Result<Condition, Undecidable>>,
) -> Result<Condition, Undecidable> {
    Ok(Condition::All(conditions.collect::<Result<_, _>>()?))
}

fn all_member(member: &AllMember) -> Result<Condition, Undecidable> {
    match member {
        AllMember::Value(RawBson::RegularExpression(regex)) => {
            Ok(Condition::Test(Test::Regex(Matcher::of(regex)?)))
        }
        AllMember::Value(value) => {
            let operand = Operand::new(value.clone());
            Ok(Condition::Test(Test::Compare(Comparison::Eq, operand)))
        }
        AllMember::ElemMatch(inner) => elem_match(inner),
    }
}

fn elem_match(inner: &ElemMatch) -> Result<Condition, Undecidable> {
    Ok(Condition::Test(match inner {
        ElemMatch::Object(inner) => Test::ElementMatches(Box::new(filter(inner)?)),
        ElemMatch::Value(inner) => Test::ElementIs(Box::new(all(inner.iter().map(condition))?)),
    }))
}

fn members(members: &[RawBson]) -> Result<Members, Undecidable> {
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for member in members {
        match member {
            RawBson::RegularExpression(regex) => patterns.push(Matcher::of(regex)?),
            value => values.push(value.clone()),
        }
    }
    let null = values.contains(&RawBson::Null);
    Ok(Members {
        values,
        patterns,
        null,
    })
}
