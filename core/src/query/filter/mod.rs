//! A filter: what it says, as a tree that can be walked, always in canonical order.
//!
//! The canonical form is `docs/canonical-form.md`. A filter that only the database can decide keeps its
//! original document instead of a tree.

mod canonical;
mod operand;
mod operator;
mod parse;
mod reads;
mod scan;
mod types;
mod write;

use bson::{RawBson, RawDocument, RawDocumentBuf, Regex};

pub(crate) use operand::{integer, truncated};
pub(crate) use scan::check_allowed;
pub use types::TypeSet;

use super::FilterError;

/// A conjunction of clauses, in canonical order and without duplicates. Empty matches everything.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    clauses: Vec<Clause>,
    database: Option<Database>,
}

/// A filter that only the database can decide.
#[derive(Clone, Debug, PartialEq)]
struct Database {
    operator: &'static str,
    document: RawDocumentBuf,
}

/// One conjunct.
#[derive(Clone, Debug, PartialEq)]
pub enum Clause {
    /// The values at a path satisfy an operator.
    Path {
        /// Dotted.
        path: Box<str>,
        /// What they satisfy.
        operator: Operator,
    },
    /// At least one member matches. Two members or more.
    Or(Vec<Filter>),
    /// No member matches. One member or more.
    Nor(Vec<Filter>),
}

/// What the values at a path must satisfy. Operands are as the request gave them; order within lists is
/// canonical.
#[derive(Clone, Debug, PartialEq)]
pub enum Operator {
    /// `$eq`.
    Eq(RawBson),
    /// `$ne`.
    Ne(RawBson),
    /// `$gt`.
    Gt(RawBson),
    /// `$gte`.
    Gte(RawBson),
    /// `$lt`.
    Lt(RawBson),
    /// `$lte`.
    Lte(RawBson),
    /// `$in`; members that are regular expressions match as such.
    In(Vec<RawBson>),
    /// `$nin`.
    Nin(Vec<RawBson>),
    /// `$exists`.
    Exists(bool),
    /// `$type`.
    Type(TypeSet),
    /// `$regex`.
    Regex(Pattern),
    /// `$mod`.
    Mod {
        /// Never zero.
        divisor: i64,
        /// Compared with the truncated remainder.
        remainder: i64,
    },
    /// `$all`; empty matches nothing.
    All(Vec<AllMember>),
    /// `$elemMatch`.
    ElemMatch(ElemMatch),
    /// `$size`.
    Size(i64),
    /// `$bitsAllSet` and its relatives.
    Bits(BitTest, BitMask),
    /// `$not`: the conjunction of these does not hold. Never empty.
    Not(Vec<Operator>),
}

/// A regular expression, as MongoDB (PCRE) reads it; its options are letters out of `imsux`, each once and in
/// alphabetical order.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Regex);

impl Pattern {
    /// The pattern's source.
    #[must_use]
    pub fn source(&self) -> &str {
        self.0.pattern.as_str()
    }

    /// Its options.
    #[must_use]
    pub fn options(&self) -> &str {
        self.0.options.as_str()
    }

    /// The regular expression as a value.
    #[must_use]
    pub fn to_value(&self) -> RawBson {
        RawBson::RegularExpression(self.0.clone())
    }
}

/// A member of `$all`.
#[derive(Clone, Debug, PartialEq)]
pub enum AllMember {
    /// Equal to a value, or matched by it when it is a regular expression.
    Value(RawBson),
    /// `{$elemMatch:…}`.
    ElemMatch(ElemMatch),
}

/// What one element of an array must satisfy.
#[derive(Clone, Debug, PartialEq)]
pub enum ElemMatch {
    /// The element, a document or an array, matches a filter.
    Object(Filter),
    /// The element itself satisfies all of these. Never empty.
    Value(Vec<Operator>),
}

/// Which of the four bit tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitTest {
    /// `$bitsAllSet`.
    AllSet,
    /// `$bitsAllClear`.
    AllClear,
    /// `$bitsAnySet`.
    AnySet,
    /// `$bitsAnyClear`.
    AnyClear,
}

/// The bits a test looks at.
#[derive(Clone, Debug, PartialEq)]
pub enum BitMask {
    /// The bits that are set in a number, never negative.
    Number(i64),
    /// The bits that are set in these bytes, the lowest first.
    Binary(bson::Binary),
    /// Positions, ascending; 63 and above are the sign of a number.
    Positions(Vec<u32>),
}

impl Filter {
    /// The filter that matches everything.
    #[must_use]
    pub fn all() -> Filter {
        Filter::default()
    }

    /// Reads and checks a query document.
    ///
    /// # Errors
    /// The first rule it breaks, and where.
    pub fn parse(document: &RawDocument) -> Result<Filter, FilterError> {
        parse::filter(document)
    }

    /// The conjunction of `clauses`, brought into canonical order.
    pub(crate) fn of(clauses: Vec<Clause>) -> Filter {
        Filter {
            clauses: canonical::conjunction(clauses),
            database: None,
        }
    }

    /// The conjuncts, in canonical order. Empty for a filter that only the database can decide.
    #[must_use]
    pub fn clauses(&self) -> &[Clause] {
        &self.clauses
    }

    /// Whether it matches every document.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.clauses.is_empty() && self.database.is_none()
    }

    /// The first operator that only the database can decide. Such a filter has no key and no predicate.
    #[must_use]
    pub fn database_only(&self) -> Option<&'static str> {
        self.database.as_ref().map(|database| database.operator)
    }

    /// The document to send to the database: the canonical filter, with the request's own values.
    #[must_use]
    pub fn to_document(&self) -> RawDocumentBuf {
        match &self.database {
            Some(database) => database.document.clone(),
            None => write::filter(self),
        }
    }

    /// The canonical text: equal texts, equal results on any data. (For a filter that only the database
    /// can decide: its document's text, as it was given.)
    #[must_use]
    pub fn canonical_text(&self) -> String {
        let mut text = String::new();
        let document = self.to_document();
        crate::value::canonical::write(bson::RawBsonRef::Document(&document), &mut text);
        text
    }

    /// This filter and `clause` besides. A filter that only the database can decide stays as it is.
    pub(crate) fn and(&self, clause: Clause) -> Filter {
        if self.database.is_some() {
            return self.clone();
        }
        let mut clauses = self.clauses.clone();
        clauses.push(clause);
        Filter::of(clauses)
    }

    /// The clause that holds where one of `members`, at least two different ones, does.
    pub(crate) fn either(members: Vec<Filter>) -> Clause {
        Clause::Or(canonical::filters(members))
    }
}

impl Operator {
    /// The operator's name, `$` included.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Operator::Eq(_) => "$eq",
            Operator::Ne(_) => "$ne",
            Operator::Gt(_) => "$gt",
            Operator::Gte(_) => "$gte",
            Operator::Lt(_) => "$lt",
            Operator::Lte(_) => "$lte",
            Operator::In(_) => "$in",
            Operator::Nin(_) => "$nin",
            Operator::Exists(_) => "$exists",
            Operator::Type(_) => "$type",
            Operator::Regex(_) => "$regex",
            Operator::Mod { .. } => "$mod",
            Operator::All(_) => "$all",
            Operator::ElemMatch(_) => "$elemMatch",
            Operator::Size(_) => "$size",
            Operator::Bits(test, _) => test.name(),
            Operator::Not(_) => "$not",
        }
    }
}

impl BitTest {
    /// The operator's name, `$` included.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BitTest::AllSet => "$bitsAllSet",
            BitTest::AllClear => "$bitsAllClear",
            BitTest::AnySet => "$bitsAnySet",
            BitTest::AnyClear => "$bitsAnyClear",
        }
    }
}
