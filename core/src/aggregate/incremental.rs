//! Counts and single groups kept up to date by what a write did, exactly as the server would answer them. Whatever
//! cannot be known without asking again says [`Step::Renew`]: a sum with a double or a decimal in it, whose bits
//! depend on the order; a smallest or largest value that goes away.

use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf};

use super::evaluate::evaluate;
use super::single::{Hidden, SingleGroup};
use super::sum::{Widest, integer};
use super::write::document;
use super::{Accumulator, Expression};
use crate::value::compare::compare;

/// What a change did to an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is the same, byte for byte.
    Unchanged,
    /// It is another one, which is known.
    Updated,
    /// It has to be asked for again; nothing is known any more.
    Renew,
}

/// An answer that is kept up to date.
#[derive(Clone, Debug)]
pub struct Incremental {
    rows: u64,
    /// Of a count, nothing.
    group: Option<(RawBson, Vec<Kept>)>,
}

/// As long as the magnitudes add up to no more than this, no intermediate sum of the server's can have left 64 bits.
const SUM_MAGNITUDE_MAX: u128 = 1 << 62;
/// And up to this every one of them is exact as a double, which an average is made of: beyond, the server's own depends on
/// the order.
const AVERAGE_MAGNITUDE_MAX: u128 = 1 << 53;

/// A field of the group.
#[derive(Clone, Debug)]
struct Kept {
    name: Box<str>,
    accumulator: Accumulator,
    operand: Expression,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// Of integers.
    Total {
        total: i128,
        /// The sum of their magnitudes: how far an intermediate sum can have gone, in whatever order.
        magnitude: u128,
        numbers: u64,
        longs: u64,
    },
    /// A sum or average that is known and cannot be kept.
    Fixed(RawBson),
    /// The smallest or largest value.
    Extreme(Option<RawBson>),
}

impl Incremental {
    /// A count.
    #[must_use]
    pub fn count(count: u64) -> Incremental {
        Incremental {
            rows: count,
            group: None,
        }
    }

    /// A group, from the answer of [`SingleGroup::renewal`]: its document, if there is one. `None`: that is not its answer.
    #[must_use]
    pub fn group(group: &SingleGroup, answer: Option<&RawDocument>) -> Option<Incremental> {
        let rows = match answer {
            Some(answer) => hidden(answer, Hidden::Rows)?,
            None => 0,
        };
        let mut fields = Vec::with_capacity(group.fields.len());
        for (at, (name, accumulator, operand)) in group.fields.iter().enumerate() {
            let state = match answer {
                Some(answer) => State::read(*accumulator, answer, name, at)?,
                None => State::empty(*accumulator),
            };
            fields.push(Kept {
                name: name.clone(),
                accumulator: *accumulator,
                operand: operand.clone(),
                state,
            });
        }
        Some(Incremental {
            rows,
            group: Some((group.id.clone(), fields)),
        })
    }

    /// How many documents there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The group's document; `None` for a count, and where nothing matches.
    #[must_use]
    pub fn answer(&self) -> Option<RawDocumentBuf> {
        let (id, fields) = self.group.as_ref().filter(|_| self.rows > 0)?;
        let values = fields.iter().map(|kept| (&*kept.name, kept.value()));
        Some(document([("_id", id.clone())].into_iter().chain(values)))
    }

    /// Takes in what a write did to one document: what it was, if it matched; what it is, if it matches.
    pub fn apply(&mut self, before: Option<&RawDocument>, after: Option<&RawDocument>) -> Step {
        let was = (self.rows, self.answer());
        let rows = self.rows + u64::from(after.is_some());
        let Some(rows) = rows.checked_sub(before.is_some().into()) else {
            return Step::Renew;
        };
        self.rows = rows;
        for kept in self.group.iter_mut().flat_map(|(_, fields)| fields) {
            if rows == 0 {
                kept.state = State::empty(kept.accumulator);
            } else if kept.apply(before, after).is_none() {
                return Step::Renew;
            }
        }
        let is = match &self.group {
            None => (self.rows, None),
            Some(_) => (was.0, self.answer()),
        };
        match is == was {
            true => Step::Unchanged,
            false => Step::Updated,
        }
    }
}

impl Kept {
    /// `None`: it cannot be kept.
    fn apply(&mut self, before: Option<&RawDocument>, after: Option<&RawDocument>) -> Option<()> {
        let value = |document: Option<&RawDocument>| match document {
            Some(document) => evaluate(&self.operand, document).ok(),
            None => Some(None),
        };
        let (old, new) = (value(before)?, value(after)?);
        // Without both it is another number of values, even if they are equal.
        if before.is_some() && after.is_some() && same(old.as_ref(), new.as_ref()) {
            return Some(());
        }
        match self.accumulator {
            Accumulator::Sum | Accumulator::Avg => {
                self.state.remove(old.as_ref())?;
                self.state.add(new.as_ref())?;
                self.state.is_exact(self.accumulator).then_some(())
            }
            accumulator => self.state.replace(accumulator, present(old), present(new)),
        }
    }

    #[allow(clippy::cast_precision_loss)] // both are exact as doubles
    fn value(&self) -> RawBson {
        match (&self.state, self.accumulator) {
            (State::Fixed(value), _) => value.clone(),
            (State::Extreme(value), _) => value.clone().unwrap_or(RawBson::Null),
            (State::Total { numbers: 0, .. }, Accumulator::Avg) => RawBson::Null,
            (State::Total { total, numbers, .. }, Accumulator::Avg) => {
                RawBson::Double(*total as f64 / *numbers as f64)
            }
            (State::Total { total, longs, .. }, _) => {
                // Within 64 bits: its magnitude is.
                let total = i64::try_from(*total).unwrap_or(i64::MAX);
                match longs {
                    0 => integer(total, Widest::Int32),
                    _ => RawBson::Int64(total),
                }
            }
        }
    }
}

impl State {
    fn empty(accumulator: Accumulator) -> State {
        match accumulator {
            Accumulator::Sum | Accumulator::Avg => State::Total {
                total: 0,
                magnitude: 0,
                numbers: 0,
                longs: 0,
            },
            _ => State::Extreme(None),
        }
    }

    fn read(
        accumulator: Accumulator,
        answer: &RawDocument,
        name: &str,
        at: usize,
    ) -> Option<State> {
        let shown = answer.get(name).ok().flatten()?;
        if matches!(accumulator, Accumulator::Min | Accumulator::Max) {
            return Some(State::Extreme(present(Some(shown.into()))));
        }
        let integer = |hidden: Hidden| match answer.get(hidden.name()).ok().flatten() {
            Some(RawBsonRef::Int32(n)) => Some(i128::from(n)),
            Some(RawBsonRef::Int64(n)) => Some(i128::from(n)),
            _ => None,
        };
        let inexact = hidden(answer, Hidden::Inexact(at))?;
        let sums = (integer(Hidden::Total(at)), integer(Hidden::Magnitude(at)));
        let (Some(total), Some(magnitude), 0) = (sums.0, sums.1, inexact) else {
            return Some(State::Fixed(shown.into()));
        };
        let state = State::Total {
            total,
            magnitude: magnitude.unsigned_abs(),
            numbers: hidden(answer, Hidden::Numbers(at))?,
            longs: hidden(answer, Hidden::Longs(at))?,
        };
        Some(match state.is_exact(accumulator) {
            true => state,
            false => State::Fixed(shown.into()),
        })
    }

    /// Whether the server's answer does not depend on the order of the numbers.
    fn is_exact(&self, accumulator: Accumulator) -> bool {
        match (self, accumulator) {
            (State::Total { magnitude, .. }, Accumulator::Avg) => {
                *magnitude <= AVERAGE_MAGNITUDE_MAX
            }
            (State::Total { magnitude, .. }, _) => *magnitude <= SUM_MAGNITUDE_MAX,
            _ => true,
        }
    }

    fn add(&mut self, value: Option<&RawBson>) -> Option<()> {
        self.count(value, |n, by| n.checked_add(by), 1)
    }

    fn remove(&mut self, value: Option<&RawBson>) -> Option<()> {
        self.count(value, |n, by| n.checked_sub(by), -1)
    }

    fn count(
        &mut self,
        value: Option<&RawBson>,
        step: impl Fn(u64, u64) -> Option<u64>,
        sign: i128,
    ) -> Option<()> {
        let (n, long) = match value {
            Some(RawBson::Int32(n)) => (i128::from(*n), 0),
            Some(RawBson::Int64(n)) => (i128::from(*n), 1),
            Some(RawBson::Double(_) | RawBson::Decimal128(_)) => return None,
            // What is no number does not count.
            _ => return Some(()),
        };
        let State::Total {
            total,
            magnitude,
            numbers,
            longs,
        } = self
        else {
            return None;
        };
        *total += sign * n;
        *magnitude = match sign {
            1 => magnitude.checked_add(n.unsigned_abs())?,
            _ => magnitude.checked_sub(n.unsigned_abs())?,
        };
        *numbers = step(*numbers, 1)?;
        *longs = step(*longs, long)?;
        Some(())
    }

    fn replace(
        &mut self,
        accumulator: Accumulator,
        old: Option<RawBson>,
        new: Option<RawBson>,
    ) -> Option<()> {
        let State::Extreme(extreme) = self else {
            return None;
        };
        let beyond = new
            .as_ref()
            .is_some_and(|new| accumulator.takes(extreme.as_ref(), new));
        if beyond {
            *extreme = new;
            return Some(());
        }
        let equals = |value: &Option<RawBson>| match (value, &*extreme) {
            (Some(value), Some(extreme)) => {
                compare(value.as_raw_bson_ref(), extreme.as_raw_bson_ref()).is_eq()
            }
            _ => false,
        };
        // Another one that is equal may be there, and look otherwise.
        let leaves = equals(&old);
        let differs = equals(&new) && !same(new.as_ref(), extreme.as_ref());
        (!leaves && !differs).then_some(())
    }
}

/// What `$min` and `$max` do not pass over.
fn present(value: Option<RawBson>) -> Option<RawBson> {
    value.filter(|value| !matches!(value, RawBson::Null | RawBson::Undefined))
}

/// Of the same type and bytes: 1 and 1.0 are not, NaN and NaN are.
fn same(a: Option<&RawBson>, b: Option<&RawBson>) -> bool {
    let bytes = |value: Option<&RawBson>| {
        let fields = value.map(|value| ("", value.clone()));
        document(fields).into_bytes()
    };
    bytes(a) == bytes(b)
}

fn hidden(answer: &RawDocument, hidden: Hidden) -> Option<u64> {
    match answer.get(hidden.name()).ok().flatten()? {
        RawBsonRef::Int32(n) => u64::try_from(n).ok(),
        RawBsonRef::Int64(n) => u64::try_from(n).ok(),
        _ => None,
    }
}
