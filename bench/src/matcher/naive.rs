//! The least that matching could be: decode the document, walk the filter. Knows the operators of the residual
//! workload only, and answers them as the engine does.

use bson::{Bson, Document, RawBsonRef, RawDocument};
use freshet_core::query::{Clause, Filter, Operator};

/// A filter with its patterns compiled.
pub(crate) struct Naive {
    filter: Filter,
    patterns: Vec<regex::Regex>,
}

impl Naive {
    pub(crate) fn new(filter: Filter) -> anyhow::Result<Naive> {
        let mut patterns = Vec::new();
        for clause in filter.clauses() {
            if let Clause::Path {
                operator: Operator::Regex(pattern),
                ..
            } = clause
            {
                patterns.push(regex::Regex::new(pattern.source())?);
            }
        }
        Ok(Naive { filter, patterns })
    }

    /// Decodes and walks.
    pub(crate) fn matches(&self, raw: &RawDocument) -> bool {
        Document::try_from(raw).is_ok_and(|document| self.all(&self.filter, &document))
    }

    fn all(&self, filter: &Filter, document: &Document) -> bool {
        filter.clauses().iter().all(|clause| match clause {
            Clause::Path { path, operator } => document
                .get(&**path)
                .is_some_and(|value| self.holds(operator, value)),
            Clause::Or(members) => members.iter().any(|member| self.all(member, document)),
            Clause::Nor(members) => !members.iter().any(|member| self.all(member, document)),
        })
    }

    fn holds(&self, operator: &Operator, value: &Bson) -> bool {
        let text = value.as_str();
        match operator {
            Operator::Eq(wanted) => text == wanted.as_raw_bson_ref().as_str(),
            Operator::Gt(wanted) => match (text, wanted.as_raw_bson_ref()) {
                (Some(text), RawBsonRef::String(wanted)) => text > wanted,
                _ => false,
            },
            Operator::Regex(_) => {
                text.is_some_and(|text| self.patterns.iter().all(|one| one.is_match(text)))
            }
            Operator::Mod { divisor, remainder } => {
                value.as_i64().is_some_and(|n| n % divisor == *remainder)
            }
            _ => false,
        }
    }
}
