//! Canonical order: sorts and de-duplicates where order has no meaning (`docs/canonical-form.md`).
//! Everything is compared as it will be written: in BSON order, ties by text.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef};

use super::{AllMember, Clause, Filter, Operator, write};
use crate::value::{canonical, compare};

/// The canonical text of a value.
pub(super) fn text(value: &RawBson) -> String {
    let mut text = String::new();
    canonical::write(value.as_raw_bson_ref(), &mut text);
    text
}

/// BSON order, ties by text. `texts` are the values' own.
fn order(a: (RawBsonRef<'_>, &str), b: (RawBsonRef<'_>, &str)) -> Ordering {
    compare::compare(a.0, b.0).then_with(|| a.1.cmp(b.1))
}

/// Sorts items by what they are written as, and drops those with equal text.
fn sorted<T>(items: Vec<T>, written: impl Fn(&T) -> RawBson) -> Vec<T> {
    let mut spelled: Vec<(RawBson, String, T)> = items
        .into_iter()
        .map(|item| {
            let value = written(&item);
            let text = text(&value);
            (value, text, item)
        })
        .collect();
    spelled.sort_by(|a, b| order((a.0.as_raw_bson_ref(), &a.1), (b.0.as_raw_bson_ref(), &b.1)));
    spelled.dedup_by(|later, earlier| later.1 == earlier.1);
    spelled.into_iter().map(|(_, _, item)| item).collect()
}

/// Members of `$in` and `$nin`.
pub(super) fn values(members: Vec<RawBson>) -> Vec<RawBson> {
    sorted(members, RawBson::clone)
}

/// Members of `$all`.
pub(super) fn all_members(members: Vec<AllMember>) -> Vec<AllMember> {
    sorted(members, write::all_member)
}

/// Members of `$or`, `$nor`, and the documents of `$and`.
pub(super) fn filters(members: Vec<Filter>) -> Vec<Filter> {
    sorted(members, |member| RawBson::Document(write::filter(member)))
}

/// Adds an `$or`; one with a single member is that member.
pub(super) fn push_or(members: Vec<Filter>, clauses: &mut Vec<Clause>) {
    let mut members = filters(members);
    match members.len() {
        1 => clauses.append(&mut members[0].clauses),
        _ => clauses.push(Clause::Or(members)),
    }
}

/// The operators of one operator object, by name; a name occurs once.
pub(super) fn operators(mut operators: Vec<Operator>) -> Vec<Operator> {
    operators.sort_by_key(Operator::name);
    operators
}

/// How a clause is ordered: path clauses by path, operator name and operand, then `$or`, then `$nor`.
struct Spelled {
    kind: u8,
    path: Box<str>,
    name: &'static str,
    operand: RawBson,
    text: String,
    clause: Clause,
}

impl Spelled {
    fn of(clause: Clause) -> Spelled {
        let (kind, path, name, operand) = match &clause {
            Clause::Path { path, operator } => {
                (0, path.clone(), operator.name(), write::operand(operator))
            }
            Clause::Or(members) => (1, "".into(), "$or", write::filters(members)),
            Clause::Nor(members) => (2, "".into(), "$nor", write::filters(members)),
        };
        let text = text(&operand);
        Spelled {
            kind,
            path,
            name,
            operand,
            text,
            clause,
        }
    }

    fn order(&self, other: &Spelled) -> Ordering {
        (self.kind, &self.path, self.name)
            .cmp(&(other.kind, &other.path, other.name))
            .then_with(|| {
                order(
                    (self.operand.as_raw_bson_ref(), &self.text),
                    (other.operand.as_raw_bson_ref(), &other.text),
                )
            })
    }

    fn same(&self, other: &Spelled) -> bool {
        (self.kind, &self.path, self.name, &self.text)
            == (other.kind, &other.path, other.name, &other.text)
    }
}

/// The clauses of one conjunction: sorted, each once.
pub(super) fn conjunction(clauses: Vec<Clause>) -> Vec<Clause> {
    let mut spelled: Vec<Spelled> = clauses.into_iter().map(Spelled::of).collect();
    spelled.sort_by(Spelled::order);
    spelled.dedup_by(|later, earlier| later.same(earlier));
    spelled.into_iter().map(|spelled| spelled.clause).collect()
}
