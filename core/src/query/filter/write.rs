//! The canonical filter as a document (`docs/canonical-form.md`, "Canonical filter"): what is sent to the
//! database, and what the canonical text is the text of.

use bson::raw::CString;
use bson::{RawArrayBuf, RawBson, RawDocumentBuf};

use super::{AllMember, BitMask, Clause, ElemMatch, Filter, Operator, canonical};
use crate::value::compare;

/// The document of a filter.
pub(super) fn filter(filter: &Filter) -> RawDocumentBuf {
    let mut fields: Vec<(&str, RawBson)> = Vec::new();
    let mut further: Vec<RawDocumentBuf> = Vec::new();
    let (mut path_now, mut object): (Option<&str>, Vec<&Operator>) = (None, Vec::new());
    for clause in &filter.clauses {
        match clause {
            Clause::Path { path, operator } => {
                if path_now != Some(path) {
                    close(path_now.take(), &mut object, &mut fields);
                    path_now = Some(path);
                }
                if object.iter().any(|first| first.name() == operator.name()) {
                    further.push(document([(&**path, operators(&[operator]))]));
                } else {
                    object.push(operator);
                }
            }
            Clause::Or(members) => logical("$or", members, &mut fields, &mut further),
            Clause::Nor(members) => logical("$nor", members, &mut fields, &mut further),
        }
    }
    close(path_now, &mut object, &mut fields);
    if !further.is_empty() {
        further.sort_by(|a, b| {
            compare::compare_documents(a, b).then_with(|| {
                let text = |d: &RawDocumentBuf| canonical::text(&RawBson::Document(d.clone()));
                text(a).cmp(&text(b))
            })
        });
        fields.push(("$and", array(further.into_iter().map(RawBson::Document))));
    }
    fields.sort_by(|a, b| a.0.cmp(b.0));
    document(fields)
}

/// Writes down a path's operator object.
fn close<'a>(
    path: Option<&'a str>,
    object: &mut Vec<&Operator>,
    fields: &mut Vec<(&'a str, RawBson)>,
) {
    if let Some(path) = path {
        fields.push((path, operators(object)));
    }
    object.clear();
}

fn logical(
    name: &'static str,
    members: &[Filter],
    fields: &mut Vec<(&str, RawBson)>,
    further: &mut Vec<RawDocumentBuf>,
) {
    if fields.iter().any(|(field, _)| *field == name) {
        further.push(document([(name, filters(members))]));
    } else {
        fields.push((name, filters(members)));
    }
}

/// An operator object, or the bare value where `$eq` alone may be left out.
fn operators(object: &[&Operator]) -> RawBson {
    match object {
        [Operator::Eq(value)] if may_stand_alone(value) => value.clone(),
        object => operator_object(object.iter().copied()),
    }
}

fn operator_object<'a>(operators: impl Iterator<Item = &'a Operator>) -> RawBson {
    let mut fields: Vec<(&str, RawBson)> = Vec::new();
    for operator in operators {
        if let Operator::Regex(pattern) = operator {
            if !pattern.options().is_empty() {
                fields.push(("$options", RawBson::String(pattern.options().into())));
            }
            fields.push(("$regex", RawBson::String(pattern.source().into())));
        } else {
            fields.push((operator.name(), operand(operator)));
        }
    }
    fields.sort_by(|a, b| a.0.cmp(b.0));
    RawBson::Document(document(fields))
}

fn may_stand_alone(value: &RawBson) -> bool {
    match value {
        RawBson::RegularExpression(_) => false,
        RawBson::Document(document) => match document.iter().next() {
            Some(Ok((name, _))) => !name.as_str().starts_with('$'),
            _ => true,
        },
        _ => true,
    }
}

/// An operator's operand; of `$regex`, the regular expression.
pub(super) fn operand(operator: &Operator) -> RawBson {
    match operator {
        Operator::Eq(value)
        | Operator::Ne(value)
        | Operator::Gt(value)
        | Operator::Gte(value)
        | Operator::Lt(value)
        | Operator::Lte(value) => value.clone(),
        Operator::In(members) | Operator::Nin(members) => array(members.iter().cloned()),
        Operator::Exists(truth) => RawBson::Boolean(*truth),
        Operator::Type(types) => types.write(),
        Operator::Regex(pattern) => pattern.to_value(),
        Operator::Mod { divisor, remainder } => {
            array([RawBson::Int64(*divisor), RawBson::Int64(*remainder)])
        }
        Operator::All(members) => array(members.iter().map(all_member)),
        Operator::ElemMatch(inner) => elem_match(inner),
        Operator::Size(size) => RawBson::Int64(*size),
        Operator::Bits(_, BitMask::Number(mask)) => RawBson::Int64(*mask),
        Operator::Bits(_, BitMask::Binary(mask)) => RawBson::Binary(mask.clone()),
        Operator::Bits(_, BitMask::Positions(positions)) => {
            array(positions.iter().map(|p| RawBson::Int64((*p).into())))
        }
        Operator::Not(inner) => operator_object(inner.iter()),
    }
}

/// A member of `$all`.
pub(super) fn all_member(member: &AllMember) -> RawBson {
    match member {
        AllMember::Value(value) => value.clone(),
        AllMember::ElemMatch(inner) => {
            RawBson::Document(document([("$elemMatch", elem_match(inner))]))
        }
    }
}

fn elem_match(inner: &ElemMatch) -> RawBson {
    match inner {
        ElemMatch::Object(inner) => RawBson::Document(filter(inner)),
        ElemMatch::Value(inner) => operator_object(inner.iter()),
    }
}

/// The members of `$or` or `$nor`.
pub(super) fn filters(members: &[Filter]) -> RawBson {
    array(
        members
            .iter()
            .map(|member| RawBson::Document(filter(member))),
    )
}

fn array(members: impl IntoIterator<Item = RawBson>) -> RawBson {
    let mut array = RawArrayBuf::new();
    for member in members {
        array.push(member);
    }
    RawBson::Array(array)
}

fn document<'a>(fields: impl IntoIterator<Item = (&'a str, RawBson)>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for (name, value) in fields {
        // Names come out of BSON documents or are constants: they hold no U+0000, so none is left out here.
        if let Ok(name) = CString::try_from(name) {
            document.append(name, value);
        }
    }
    document
}
