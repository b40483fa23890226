//! Which paths a filter reads: whoever may not see a field may not ask about it either, since the answer
//! tells.

use std::collections::BTreeSet;

use super::{AllMember, Clause, ElemMatch, Filter, Operator};

impl Filter {
    /// The paths the filter reads, those within `$elemMatch` with the array's path before them. (The value at a path
    /// is compared as a whole: a literal tells about every path within it.) `None`: a filter that only the
    /// database can decide may read anything.
    #[must_use]
    pub fn paths(&self) -> Option<BTreeSet<String>> {
        if self.database_only().is_some() {
            return None;
        }
        let mut paths = BTreeSet::new();
        collect(self, "", &mut paths);
        Some(paths)
    }
}

fn collect(filter: &Filter, within: &str, paths: &mut BTreeSet<String>) {
    for clause in filter.clauses() {
        match clause {
            Clause::Path { path, operator } => {
                let path = match within {
                    "" => path.to_string(),
                    within => format!("{within}.{path}"),
                };
                operands(operator, &path, paths);
                paths.insert(path);
            }
            Clause::Or(members) | Clause::Nor(members) => {
                for member in members {
                    collect(member, within, paths);
                }
            }
        }
    }
}

fn operands(operator: &Operator, path: &str, paths: &mut BTreeSet<String>) {
    match operator {
        Operator::ElemMatch(inner) => elements(inner, path, paths),
        Operator::Not(inner) => inner.iter().for_each(|o| operands(o, path, paths)),
        Operator::All(members) => {
            for member in members {
                if let AllMember::ElemMatch(inner) = member {
                    elements(inner, path, paths);
                }
            }
        }
        _ => {}
    }
}

fn elements(inner: &ElemMatch, path: &str, paths: &mut BTreeSet<String>) {
    match inner {
        ElemMatch::Object(filter) => collect(filter, path, paths),
        ElemMatch::Value(operators) => {
            for operator in operators {
                operands(operator, path, paths);
            }
        }
    }
}
