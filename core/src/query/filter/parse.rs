//! From a query document to a filter, by the rules of MongoDB's own parser (6.0) and the protocol's
//! allow-list. Operands are read in `operator.rs`; what may appear nowhere is refused in `scan.rs` first, which
//! also bounds the recursion here.

use bson::{RawArray, RawBsonRef, RawDocument};

use super::operator::{self, Read};
use super::{Clause, Database, ElemMatch, Filter, Operator, canonical, scan};
use crate::query::parameter::check_length;
use crate::query::{FilterError, FilterErrorKind, MEMBERS_MAX};

/// Operators at filter level that only the database decides.
const DATABASE_CLAUSES: [&str; 4] = ["$expr", "$jsonSchema", "$text", "$sampleRate"];

/// Reads a whole filter.
pub(super) fn filter(document: &RawDocument) -> Result<Filter, FilterError> {
    scan::check(document)?;
    let mut parser = Parser { database: None };
    let clauses = parser.clauses(document)?;
    let database = parser.database.map(|operator| Database {
        operator,
        document: document.to_owned(),
    });
    match database {
        Some(database) => Ok(Filter {
            clauses: Vec::new(),
            database: Some(database),
        }),
        None => Ok(Filter::of(clauses)),
    }
}

/// Remembers the first operator that only the database decides.
pub(super) struct Parser {
    database: Option<&'static str>,
}

impl Parser {
    fn clauses(&mut self, document: &RawDocument) -> Result<Vec<Clause>, FilterError> {
        let mut clauses = Vec::new();
        for element in document.iter() {
            let (name, value) = element?;
            let name = name.as_str();
            let read = if name.starts_with('$') {
                self.logical(name, value, &mut clauses)
            } else {
                self.path(name, value, &mut clauses)
            };
            read.map_err(|error| error.within(name))?;
        }
        Ok(clauses)
    }

    fn logical(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
        clauses: &mut Vec<Clause>,
    ) -> Result<(), FilterError> {
        match name {
            "$and" => {
                for member in self.members(name, value)? {
                    clauses.extend(member);
                }
            }
            "$or" => {
                let members = self.members(name, value)?;
                let members = members.into_iter().map(Filter::of).collect();
                canonical::push_or(members, clauses);
            }
            "$nor" => {
                let members = self.members(name, value)?;
                let members = members.into_iter().map(Filter::of).collect();
                clauses.push(Clause::Nor(canonical::filters(members)));
            }
            "$comment" => {}
            _ => match DATABASE_CLAUSES.iter().find(|known| **known == name) {
                Some(known) => self.found(known),
                None => return Err(unknown(name)),
            },
        }
        Ok(())
    }

    fn members(
        &mut self,
        name: &str,
        value: RawBsonRef<'_>,
    ) -> Result<Vec<Vec<Clause>>, FilterError> {
        let mut members = Vec::new();
        for (index, member) in list(name, value)?.into_iter().enumerate() {
            let read = match member? {
                RawBsonRef::Document(document) => self.clauses(document),
                _ => Err(FilterError::operand(format!(
                    "members of {name} are filters"
                ))),
            };
            members.push(read.map_err(|error| error.within(index))?);
        }
        if members.is_empty() {
            return Err(FilterError::operand(format!(
                "{name} needs at least one member"
            )));
        }
        Ok(members)
    }

    fn path(
        &mut self,
        path: &str,
        value: RawBsonRef<'_>,
        clauses: &mut Vec<Clause>,
    ) -> Result<(), FilterError> {
        check_length(path)
            .map_err(|error| FilterError::new(FilterErrorKind::Path, error.to_string()))?;
        let operators = match value {
            RawBsonRef::Document(document) if operator_name(document)?.is_some() => {
                self.operators(document)?
            }
            RawBsonRef::RegularExpression(regex) => vec![Operator::Regex(operator::regex(regex)?)],
            value => vec![Operator::Eq(value.into())],
        };
        clauses.extend(operators.into_iter().map(|operator| Clause::Path {
            path: path.into(),
            operator,
        }));
        Ok(())
    }

    /// An operator object: every field is an operator.
    pub(super) fn operators(
        &mut self,
        document: &RawDocument,
    ) -> Result<Vec<Operator>, FilterError> {
        let mut seen: Vec<&str> = Vec::new();
        let mut operators = Vec::new();
        for element in document.iter() {
            let (name, value) = element?;
            let name = name.as_str();
            if seen.contains(&name) {
                return Err(FilterError::operand(format!("{name} is given twice")).within(name));
            }
            seen.push(name);
            match operator::read(self, document, name, value).map_err(|e| e.within(name))? {
                Read::Operator(operator) => operators.push(operator),
                Read::PartOfAnother => {}
                Read::Database(known) => self.found(known),
                Read::Unknown => return Err(unknown(name).within(name)),
            }
        }
        Ok(operators)
    }

    /// The operand of `$elemMatch`.
    pub(super) fn elem_match(&mut self, value: RawBsonRef<'_>) -> Result<ElemMatch, FilterError> {
        let RawBsonRef::Document(document) = value else {
            return Err(FilterError::operand("$elemMatch needs an object"));
        };
        match operator_name(document)? {
            Some(name) if !is_clause(name) => {
                let operators = self.operators(document)?;
                Ok(ElemMatch::Value(canonical::operators(operators)))
            }
            _ => Ok(ElemMatch::Object(Filter::of(self.clauses(document)?))),
        }
    }

    fn found(&mut self, operator: &'static str) {
        self.database.get_or_insert(operator);
    }
}

/// The array that `value` must be, within its limit.
pub(super) fn list<'a>(name: &str, value: RawBsonRef<'a>) -> Result<&'a RawArray, FilterError> {
    let RawBsonRef::Array(array) = value else {
        return Err(FilterError::operand(format!("{name} needs an array")));
    };
    if array.into_iter().nth(MEMBERS_MAX).is_some() {
        let detail = format!("{name} may have {MEMBERS_MAX} members at most");
        return Err(FilterError::new(FilterErrorKind::TooManyMembers, detail));
    }
    Ok(array)
}

/// The first field's name, when it begins with `$`: that is what makes a document an operator object.
pub(super) fn operator_name(document: &RawDocument) -> Result<Option<&str>, FilterError> {
    match document.iter().next() {
        Some(first) => {
            let name = first?.0.as_str();
            Ok(name.starts_with('$').then_some(name))
        }
        None => Ok(None),
    }
}

fn is_clause(name: &str) -> bool {
    matches!(name, "$and" | "$or" | "$nor" | "$comment") || DATABASE_CLAUSES.contains(&name)
}

/// The names come from the request: shown in part only.
fn unknown(name: &str) -> FilterError {
    let shown: String = name.chars().take(40).collect();
    let detail = if name.starts_with('$') {
        format!("{shown} is not an operator that can stand here")
    } else {
        format!("{shown} stands among operators but is none")
    };
    FilterError::new(FilterErrorKind::UnknownOperator, detail)
}
