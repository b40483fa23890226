//! Pipelines that make one group of everything that matches: what [`super::Incremental`] keeps up to date without
//! asking again.

use bson::RawBson;

use super::{Accumulator, Expression, Function, Group, Pipeline, RESERVED, Stage, constant};
use crate::query::Filter;

/// `[$match…, {$group: {_id: constant, …}}]` with `$sum`, `$avg`, `$min`, `$max` and `$count` only.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleGroup {
    /// Which documents are in it.
    pub filter: Filter,
    /// Its `_id`.
    pub id: RawBson,
    /// Its computed fields.
    pub fields: Vec<(Box<str>, Accumulator, Expression)>,
}

impl Pipeline {
    /// The group, if the pipeline makes a single one and does nothing else.
    #[must_use]
    pub fn single_group(&self) -> Option<SingleGroup> {
        let (Stage::Group(group), before) = self.stages.split_last()? else {
            return None;
        };
        let plain = before.iter().all(|stage| matches!(stage, Stage::Match(_)));
        let kept = group.fields.iter().all(|(_, accumulator, _)| {
            matches!(
                accumulator,
                Accumulator::Sum | Accumulator::Avg | Accumulator::Min | Accumulator::Max
            )
        });
        match &group.id {
            Expression::Value(id) if plain && kept => Some(SingleGroup {
                filter: self.leading_filter()?,
                id: id.clone(),
                fields: group.fields.clone(),
            }),
            _ => None,
        }
    }
}

/// What a renewal counts besides what the answer shows.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hidden {
    /// Documents.
    Rows,
    /// Numbers among the values of a field.
    Numbers(usize),
    /// Integers of 64 bits among them.
    Longs(usize),
    /// Doubles and decimals among them.
    Inexact(usize),
    /// Their sum.
    Total(usize),
    /// The sum of their magnitudes.
    Magnitude(usize),
}

impl Hidden {
    pub(super) fn name(self) -> String {
        match self {
            Hidden::Rows => format!("{RESERVED}_rows"),
            Hidden::Numbers(at) => format!("{RESERVED}_numbers_{at}"),
            Hidden::Longs(at) => format!("{RESERVED}_longs_{at}"),
            Hidden::Inexact(at) => format!("{RESERVED}_inexact_{at}"),
            Hidden::Total(at) => format!("{RESERVED}_total_{at}"),
            Hidden::Magnitude(at) => format!("{RESERVED}_magnitude_{at}"),
        }
    }
}

impl SingleGroup {
    /// The pipeline whose answer, one document or none, [`super::Incremental::group`] begins with: the group, and beside
    /// it what has to be known to keep it exact.
    #[must_use]
    pub fn renewal(&self) -> Pipeline {
        let mut fields = self.fields.clone();
        let mut sum = |hidden: Hidden, operand: Expression| {
            fields.push((hidden.name().into(), Accumulator::Sum, operand));
        };
        sum(Hidden::Rows, constant(1));
        for (at, (_, accumulator, operand)) in self.fields.iter().enumerate() {
            if matches!(accumulator, Accumulator::Min | Accumulator::Max) {
                continue;
            }
            let is = |name: &str| {
                let kind = Expression::Call(Function::Type, vec![operand.clone()]);
                let name = constant(RawBson::String(name.into()));
                Expression::Call(Function::Eq, vec![kind, name])
            };
            let choose = |condition, then, otherwise| {
                Expression::Call(Function::Cond, vec![condition, then, otherwise])
            };
            let one_if = |condition| choose(condition, constant(1), constant(0));
            let number = Expression::Call(Function::IsNumber, vec![operand.clone()]);
            let positive = Expression::Call(Function::Gte, vec![operand.clone(), constant(0)]);
            let negated = Expression::Call(Function::Multiply, vec![operand.clone(), constant(-1)]);
            let magnitude = choose(
                number.clone(),
                choose(positive, operand.clone(), negated),
                constant(0),
            );
            let inexact = Expression::Call(Function::Or, vec![is("double"), is("decimal")]);
            sum(Hidden::Numbers(at), one_if(number));
            sum(Hidden::Longs(at), one_if(is("long")));
            sum(Hidden::Inexact(at), one_if(inexact));
            sum(Hidden::Total(at), operand.clone());
            sum(Hidden::Magnitude(at), magnitude);
        }
        Pipeline {
            stages: vec![
                Stage::Match(self.filter.clone()),
                Stage::Group(Group {
                    id: Expression::Value(self.id.clone()),
                    fields,
                }),
            ],
        }
    }
}
