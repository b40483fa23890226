//! Expressions: what a stage computes of a document. Only deterministic ones, and only those whose result both
//! stores give with the same bytes.

use std::collections::BTreeSet;

use bson::RawBson;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A constant.
    Value(RawBson),
    /// `"$a.b"`: what is at a path. No array index is a part of one; an array on the way gives the values of its
    /// documents.
    Path(Box<str>),
    /// `"$$ROOT"`, `"$$CURRENT"`: the whole document, as it is at this stage.
    Root,
    /// `"$$REMOVE"`: nothing; a field that has it is not there.
    Remove,
    /// A document of expressions; a field without a value is left out.
    Document(Vec<(Box<str>, Expression)>),
    /// An array of expressions; a member without a value is null.
    Array(Vec<Expression>),
    /// A function of its arguments.
    Call(Function, Vec<Expression>),
    /// `$switch`.
    Switch {
        /// Condition and result; the first that holds counts.
        branches: Vec<(Expression, Expression)>,
        /// Where none holds; without it that is an error.
        otherwise: Option<Box<Expression>>,
    },
}

/// A function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // each is named after its operator, which MongoDB's manual describes
pub enum Function {
    Add,
    Subtract,
    Multiply,
    Divide,
    Mod,
    Abs,
    Ceil,
    Floor,
    Round,
    Trunc,
    Concat,
    ToUpper,
    ToLower,
    StrLenCp,
    SubstrCp,
    Cond,
    IfNull,
    Eq,
    Ne,
    Gt,
    Gte,
    Lt,
    Lte,
    Cmp,
    And,
    Or,
    Not,
    Size,
    ArrayElemAt,
    In,
    IsArray,
    IsNumber,
    Type,
    Year,
    Month,
    DayOfMonth,
}

/// Name, fewest and most arguments. No more arguments than a filter has nodes can come anyway.
const FUNCTIONS: [(Function, &str, usize, usize); 36] = {
    use Function as F;
    const MANY: usize = usize::MAX;
    [
        (F::Add, "$add", 0, MANY),
        (F::Subtract, "$subtract", 2, 2),
        (F::Multiply, "$multiply", 0, MANY),
        (F::Divide, "$divide", 2, 2),
        (F::Mod, "$mod", 2, 2),
        (F::Abs, "$abs", 1, 1),
        (F::Ceil, "$ceil", 1, 1),
        (F::Floor, "$floor", 1, 1),
        (F::Round, "$round", 1, 2),
        (F::Trunc, "$trunc", 1, 2),
        (F::Concat, "$concat", 0, MANY),
        (F::ToUpper, "$toUpper", 1, 1),
        (F::ToLower, "$toLower", 1, 1),
        (F::StrLenCp, "$strLenCP", 1, 1),
        (F::SubstrCp, "$substrCP", 3, 3),
        (F::Cond, "$cond", 3, 3),
        (F::IfNull, "$ifNull", 2, MANY),
        (F::Eq, "$eq", 2, 2),
        (F::Ne, "$ne", 2, 2),
        (F::Gt, "$gt", 2, 2),
        (F::Gte, "$gte", 2, 2),
        (F::Lt, "$lt", 2, 2),
        (F::Lte, "$lte", 2, 2),
        (F::Cmp, "$cmp", 2, 2),
        (F::And, "$and", 0, MANY),
        (F::Or, "$or", 0, MANY),
        (F::Not, "$not", 1, 1),
        (F::Size, "$size", 1, 1),
        (F::ArrayElemAt, "$arrayElemAt", 2, 2),
        (F::In, "$in", 2, 2),
        (F::IsArray, "$isArray", 1, 1),
        (F::IsNumber, "$isNumber", 1, 1),
        (F::Type, "$type", 1, 1),
        (F::Year, "$year", 1, 1),
        (F::Month, "$month", 1, 1),
        (F::DayOfMonth, "$dayOfMonth", 1, 1),
    ]
};

impl Function {
    /// The function with this name, `$` included.
    pub(super) fn named(name: &str) -> Option<Function> {
        let row = FUNCTIONS.iter().find(|row| row.1 == name)?;
        Some(row.0)
    }

    fn row(self) -> &'static (Function, &'static str, usize, usize) {
        // Every function has its row: the test below looks.
        FUNCTIONS
            .iter()
            .find(|row| row.0 == self)
            .unwrap_or(&FUNCTIONS[0])
    }

    /// Its name, `$` included.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Whether it takes so many arguments.
    pub(super) fn takes(self, arguments: usize) -> bool {
        let row = self.row();
        (row.2..=row.3).contains(&arguments)
    }
}

impl Expression {
    /// Whether it is the same for every document.
    #[must_use]
    pub fn is_constant(&self) -> bool {
        match self {
            Expression::Value(_) | Expression::Remove => true,
            Expression::Path(_) | Expression::Root => false,
            Expression::Document(fields) => fields.iter().all(|(_, field)| field.is_constant()),
            // The rest is never looked at.
            Expression::Call(Function::IfNull, arguments) if matches!(&arguments[0], Expression::Value(value) if *value != RawBson::Null) => {
                true
            }
            Expression::Array(members) | Expression::Call(_, members) => {
                members.iter().all(Expression::is_constant)
            }
            Expression::Switch {
                branches,
                otherwise,
            } => {
                let mut branches = branches.iter();
                branches.all(|(case, then)| case.is_constant() && then.is_constant())
                    && otherwise.as_deref().is_none_or(Expression::is_constant)
            }
        }
    }

    /// Whether its value can be an array.
    #[must_use]
    pub fn may_be_array(&self) -> bool {
        match self {
            Expression::Value(value) => matches!(value, RawBson::Array(_)),
            Expression::Path(_) | Expression::Array(_) => true,
            Expression::Root | Expression::Remove | Expression::Document(_) => false,
            Expression::Call(function, arguments) => match function {
                Function::Cond => arguments[1..].iter().any(Expression::may_be_array),
                Function::IfNull => arguments.iter().any(Expression::may_be_array),
                Function::ArrayElemAt => true,
                _ => false,
            },
            Expression::Switch {
                branches,
                otherwise,
            } => {
                branches.iter().any(|(_, then)| then.may_be_array())
                    || otherwise.as_deref().is_some_and(Expression::may_be_array)
            }
        }
    }

    /// The paths it reads in the document it is computed of; `None` where it reads the whole.
    #[must_use]
    pub fn paths(&self) -> Option<BTreeSet<&str>> {
        let (mut paths, mut whole) = (BTreeSet::new(), false);
        self.visit(&mut |inner| match inner {
            Expression::Path(path) => drop(paths.insert(&**path)),
            Expression::Root => whole = true,
            _ => {}
        });
        (!whole).then_some(paths)
    }

    /// Itself and everything in it.
    pub(super) fn visit<'e>(&'e self, seen: &mut impl FnMut(&'e Expression)) {
        seen(self);
        match self {
            Expression::Document(fields) => {
                for (_, field) in fields {
                    field.visit(seen);
                }
            }
            Expression::Array(members) | Expression::Call(_, members) => {
                for member in members {
                    member.visit(seen);
                }
            }
            Expression::Switch {
                branches,
                otherwise,
            } => {
                for (condition, then) in branches {
                    condition.visit(seen);
                    then.visit(seen);
                }
                if let Some(otherwise) = otherwise {
                    otherwise.visit(seen);
                }
            }
            Expression::Value(_) | Expression::Path(_) | Expression::Root | Expression::Remove => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_a_row_of_its_own() {
        for (function, name, _, _) in FUNCTIONS {
            assert_eq!(function.name(), name);
            assert_eq!(Function::named(name), Some(function));
        }
        assert_eq!(Function::named("$rand"), None);
    }
}
