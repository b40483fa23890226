//! Aggregation pipelines: the stages that are answered, in canonical form, and what an answer depends on
//! (`docs/aggregation.md`).
//!
//! Read-only stages from a list, with deterministic expressions from a list. Decides what a pipeline means, how
//! it is spelled in a key, in which order documents go through it, and which stored fields its answer shows.

mod dependencies;
mod error;
pub mod evaluate;
mod expression;
mod incremental;
mod join;
mod order;
mod parse;
mod single;
mod sum;
mod write;

use bson::RawBson;

use crate::query::{Clause, Filter};
use crate::value::sort::Direction;

pub use dependencies::Dependencies;
pub use error::{PipelineError, PipelineErrorKind};
pub use expression::{Expression, Function};
pub use incremental::{Incremental, Step};
pub use join::{Lookup, VALUES_MAX, local_values};
pub use order::Plan;
pub use single::SingleGroup;

/// The most stages, those of `$facet` branches included.
pub const STAGES_MAX: usize = 50;
/// The most branches of a `$facet`.
pub const FACETS_MAX: usize = 10;
/// The most documents of an answer; a pipeline that has more is told to end in `$limit`.
pub const ANSWER_DOCUMENTS_MAX: u32 = 1_000;
/// The most fields of one `$project`, `$set`, `$unset` or `$group`.
pub const FIELDS_MAX: usize = 200;
/// Names that begin so are ours while a pipeline runs.
const RESERVED: &str = "__freshet";

/// A pipeline, checked and in canonical form.
#[derive(Clone, Debug, PartialEq)]
pub struct Pipeline {
    stages: Vec<Stage>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// `$match`.
    Match(Filter),
    /// `$project`, `$set`, `$unset`.
    Reshape(Reshape),
    /// `$unwind`.
    Unwind(Unwind),
    /// `$group`. `$sortByCount` is one with a `$sort` behind it.
    Group(Group),
    /// `$sort`.
    Sort(Sort),
    /// `$skip`.
    Skip(u64),
    /// `$limit`.
    Limit(u64),
    /// `$count`: the name of its field.
    Count(Box<str>),
    /// `$facet`: names and branches.
    Facet(Vec<(Box<str>, Vec<Stage>)>),
    /// `$lookup` by equality.
    Lookup(Join),
}

/// Which fields a document has afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Reshape {
    /// What becomes of fields that are not named.
    pub mode: Mode,
    /// The named ones.
    pub fields: Fields,
}

/// What becomes of fields that a [`Reshape`] does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are gone; what is named is kept or computed (`$project`). `_id` is among the named ones.
    Include,
    /// They are kept; what is named is gone (`$project` with zeros, `$unset`).
    Exclude,
    /// They are kept; what is named is computed (`$set`).
    Set,
}

/// Named fields, in the order of the request, which the computed ones keep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fields(pub(crate) Vec<(Box<str>, Field)>);

impl Fields {
    /// Whether anything in it is computed.
    fn computes(&self) -> bool {
        self.0.iter().any(|(_, field)| match field {
            Field::Named => false,
            Field::Computed(_) => true,
            Field::Within(within) => within.computes(),
        })
    }
}

/// What becomes of a named field.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    /// It is kept or gone, by the [`Mode`].
    Named,
    /// It has this value.
    Computed(Expression),
    /// Something becomes of fields within it.
    Within(Fields),
}

/// `$unwind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwind {
    /// The array's path.
    pub path: Box<str>,
    /// Where the element's index goes.
    pub index: Option<Box<str>>,
    /// Whether a document without elements stays.
    pub preserve: bool,
}

/// `$group`.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What documents of one group have in common.
    pub id: Expression,
    /// The computed fields, in the order of the request.
    pub fields: Vec<(Box<str>, Accumulator, Expression)>,
}

/// How a field of a group is computed of its documents. (`$count` is a `$sum` of 1.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accumulator {
    /// `$sum`.
    Sum,
    /// `$avg`.
    Avg,
    /// `$min`.
    Min,
    /// `$max`.
    Max,
    /// `$push`.
    Push,
    /// `$addToSet`; answered in BSON order.
    AddToSet,
    /// `$first`.
    First,
    /// `$last`.
    Last,
}

impl Accumulator {
    const ALL: [Accumulator; 8] = [
        Accumulator::Sum,
        Accumulator::Avg,
        Accumulator::Min,
        Accumulator::Max,
        Accumulator::Push,
        Accumulator::AddToSet,
        Accumulator::First,
        Accumulator::Last,
    ];

    /// Its name, `$` included.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accumulator::Sum => "$sum",
            Accumulator::Avg => "$avg",
            Accumulator::Min => "$min",
            Accumulator::Max => "$max",
            Accumulator::Push => "$push",
            Accumulator::AddToSet => "$addToSet",
            Accumulator::First => "$first",
            Accumulator::Last => "$last",
        }
    }

    /// Whether the result depends on which document comes first.
    fn is_ordered(self) -> bool {
        matches!(
            self,
            Accumulator::Push | Accumulator::First | Accumulator::Last
        )
    }
}

/// `$sort`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sort {
    /// Paths and directions.
    pub fields: Vec<(Box<str>, Direction)>,
    /// What orders documents that are equal so far. A parsed pipeline has [`Tie::Open`]; the plan closes it.
    pub tie: Tie,
}

/// What orders documents that a `$sort` takes for equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tie {
    /// Nothing.
    Open,
    /// Their `_id`, which is never an array.
    Id,
    /// Their `_id`, compared as a whole where it is an array (a group's may be one).
    WholeId,
}

/// `$lookup` by equality.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The other collection, of the same database.
    pub from: Box<str>,
    /// The path here.
    pub local: Box<str>,
    /// The path there.
    pub foreign: Box<str>,
    /// Where the array of matching documents goes.
    pub target: Box<str>,
}

impl Pipeline {
    /// Reads and checks a pipeline.
    ///
    /// # Errors
    /// The first rule it breaks, and where.
    pub fn parse(pipeline: &bson::RawArray) -> Result<Pipeline, PipelineError> {
        parse::pipeline(pipeline)
    }

    /// The stages, in canonical form.
    #[must_use]
    pub fn stages(&self) -> &[Stage] {
        &self.stages
    }

    /// The first operator in a `$match` that only the database can decide. Such a pipeline has no key.
    #[must_use]
    pub fn database_only(&self) -> Option<&'static str> {
        fn first(stages: &[Stage]) -> Option<&'static str> {
            stages.iter().find_map(|stage| match stage {
                Stage::Match(filter) => filter.database_only(),
                Stage::Facet(branches) => branches.iter().find_map(|(_, stages)| first(stages)),
                _ => None,
            })
        }
        first(&self.stages)
    }

    /// The canonical text: equal texts, equal answers on any data.
    #[must_use]
    pub fn canonical_text(&self) -> String {
        write::text(&self.stages)
    }

    /// The conjunction of the `$match` stages that see stored documents as they are: those at the beginning, and
    /// those that only a `$sort` comes before. `None` where only the database can decide one of them.
    #[must_use]
    pub fn leading_filter(&self) -> Option<Filter> {
        let mut clauses: Vec<Clause> = Vec::new();
        for filter in self.leading() {
            if filter.database_only().is_some() {
                return None;
            }
            clauses.extend(filter.clauses().iter().cloned());
        }
        Some(Filter::of(clauses))
    }

    fn leading(&self) -> impl Iterator<Item = &Filter> {
        self.stages
            .iter()
            .take_while(|stage| matches!(stage, Stage::Match(_) | Stage::Sort(_)))
            .filter_map(|stage| match stage {
                Stage::Match(filter) => Some(filter),
                _ => None,
            })
    }
}

/// A constant's expression.
fn constant(value: impl Into<RawBson>) -> Expression {
    Expression::Value(value.into())
}
