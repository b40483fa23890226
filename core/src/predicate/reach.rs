//! Where an index has to look for an atom: spans of values of which one at least is there whenever the atom holds. A
//! superset always; `None` where only looking at every document helps.

use bson::RawBsonRef;
use bson::spec::ElementType;

use super::literal::Literal;
use super::test::{Compared, Comparison, Members, Test};
use super::{Atom, Expr};
use crate::value::compare::rank_of;
use crate::value::order_key::OrderKey;

/// Values at a path.
#[derive(Clone, Debug, PartialEq)]
pub struct Reach<'a> {
    /// The path below the atom's own, dotted; empty: the atom's own.
    pub below: String,
    /// Which values there.
    pub span: Span<'a>,
}

/// A span of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Span<'a> {
    /// Equal to this one.
    Equal(RawBsonRef<'a>),
    /// Their keys are between these, both included.
    Between(OrderKey, OrderKey),
    /// There is none: the field is missing, or the path leads nowhere.
    Missing,
}

/// All values of a type's rank.
fn all_of(element_type: ElementType) -> Span<'static> {
    let rank = rank_of(element_type);
    Span::Between(OrderKey::rank_min(rank), OrderKey::rank_max(rank))
}

impl Atom {
    /// The spans to look at for documents of which the atom holds.
    #[must_use]
    pub fn reach(&self) -> Option<Vec<Reach<'_>>> {
        let reach = test(&self.test)?;
        // The elements of an array that an index selected are not among what the path leads to.
        let elements = matches!(self.test, Test::ElementIs(_));
        match elements && self.path().indexes() > 0 {
            true => Some(here(vec![all_of(ElementType::Array)])),
            false => Some(reach),
        }
    }

    /// [`Atom::reach`] where it is a single span at the atom's own path, as for most atoms; nothing is allocated.
    #[must_use]
    pub fn span(&self) -> Option<Span<'_>> {
        let Test::Compare(compared) = &self.test else {
            return None;
        };
        one_span(compared)
    }

    /// The spans to look at for documents of which it does not hold.
    #[must_use]
    pub fn reach_negated(&self) -> Option<Vec<Reach<'static>>> {
        matches!(self.test, Test::Exists).then(|| {
            vec![Reach {
                below: String::new(),
                span: Span::Missing,
            }]
        })
    }
}

fn here(spans: Vec<Span<'_>>) -> Vec<Reach<'_>> {
    let at = |span| Reach {
        below: String::new(),
        span,
    };
    spans.into_iter().map(at).collect()
}

fn test(test: &Test) -> Option<Vec<Reach<'_>>> {
    let arrays = || here(vec![all_of(ElementType::Array)]);
    Some(match test {
        Test::Compare(one) => here(compared(one)?),
        Test::In(members) => here(contained(members)),
        Test::Exists => here(vec![Span::Between(OrderKey::MIN, OrderKey::MAX)]),
        Test::Type(types) => here(
            types
                .ranks()
                .map(|rank| Span::Between(OrderKey::rank_min(rank), OrderKey::rank_max(rank)))
                .collect(),
        ),
        Test::Regex(matcher) => here(matching(matcher.prefix())),
        Test::Mod { .. } => here(vec![all_of(ElementType::Double)]),
        Test::Bits(_) => here(vec![
            all_of(ElementType::Double),
            all_of(ElementType::Binary),
        ]),
        Test::Size(_) => arrays(),
        Test::ElementMatches(inner) => within(inner).unwrap_or_else(arrays),
        Test::ElementIs(inner) => elements(inner).unwrap_or_else(arrays),
    })
}

fn compared(of: &Compared) -> Option<Vec<Span<'_>>> {
    match of.value.as_raw() {
        // Null is in no order with anything: these are all equalities.
        RawBsonRef::Null | RawBsonRef::Undefined => Some(nothing()),
        _ => Some(vec![one_span(of)?]),
    }
}

fn one_span(of: &Compared) -> Option<Span<'_>> {
    let value = of.value.as_raw();
    let key = || OrderKey::of(value);
    match (value, of.comparison) {
        (RawBsonRef::Null | RawBsonRef::Undefined, _) => None,
        (_, Comparison::Eq) => Some(Span::Equal(value)),
        // The ends of the order compare with every type, and with what is missing.
        (RawBsonRef::MinKey | RawBsonRef::MaxKey, _) => None,
        (_, Comparison::Gt | Comparison::Gte) => {
            Some(Span::Between(key(), OrderKey::rank_max(of.rank)))
        }
        (_, Comparison::Lt | Comparison::Lte) => {
            Some(Span::Between(OrderKey::rank_min(of.rank), key()))
        }
    }
}

fn nothing() -> Vec<Span<'static>> {
    vec![
        Span::Equal(RawBsonRef::Null),
        Span::Equal(RawBsonRef::Undefined),
        Span::Missing,
    ]
}

fn contained(members: &Members) -> Vec<Span<'_>> {
    let values = members.values.iter().map(Literal::as_raw);
    let mut spans: Vec<_> = values.map(Span::Equal).collect();
    if members.null {
        spans.extend(nothing());
    }
    for pattern in &members.patterns {
        spans.extend(matching(pattern.prefix()));
    }
    spans
}

/// Strings with a prefix, and the regular expression itself as a value.
fn matching(prefix: &str) -> Vec<Span<'_>> {
    let (low, high) = OrderKey::prefixed(prefix);
    vec![
        Span::Between(low, high),
        all_of(ElementType::RegularExpression),
    ]
}

/// An element that matches a filter. A path into it is a path through the array, but for two cases: an index would be
/// taken for the array's own; and an array among the elements has no names, so that everything is missing there.
fn within(inner: &Expr<Atom>) -> Option<Vec<Reach<'_>>> {
    best(inner, &mut |atom, negated| {
        let indexed = atom.path().root().bytes().all(|b| b.is_ascii_digit());
        let found = (!negated && !indexed).then(|| atom.reach()).flatten()?;
        let missing = found.iter().any(|one| one.span == Span::Missing);
        let below = |one: Reach<'_>| match one.below.as_str() {
            "" => atom.path().as_str().to_owned(),
            below => format!("{}.{below}", atom.path().as_str()),
        };
        (!missing).then(|| {
            let at = found.into_iter().map(|one| Reach {
                span: one.span,
                below: below(one),
            });
            at.collect()
        })
    })
}

/// An element that passes tests: it is one of the values at the path. What is in it is not.
fn elements(inner: &Expr<Test>) -> Option<Vec<Reach<'_>>> {
    best(inner, &mut |one, negated| match one {
        Test::ElementIs(_) | Test::ElementMatches(_) => None,
        _ if negated => None,
        one => test(one),
    })
}

/// The narrowest way to look for a tree.
fn best<'a, A>(
    expr: &'a Expr<A>,
    reach: &mut impl FnMut(&'a A, bool) -> Option<Vec<Reach<'a>>>,
) -> Option<Vec<Reach<'a>>> {
    match expr {
        Expr::Is(one) => reach(one, false),
        Expr::Not(one) => reach(one, true),
        Expr::All(of) => of
            .iter()
            .filter_map(|one| best(one, reach))
            .min_by_key(|found| width(found)),
        Expr::Any(of) => {
            let mut all = Vec::new();
            for one in of {
                all.extend(best(one, reach)?);
            }
            Some(all)
        }
    }
}

/// Roughly how much lies within: equalities, then the bits that spans of keys have in common.
fn width(found: &[Reach<'_>]) -> u64 {
    let one = |reach: &Reach<'_>| match reach.span {
        Span::Equal(_) => 1,
        Span::Missing => 1 << 10,
        Span::Between(low, high) => {
            1 << (10 + (128 - (low.bits() ^ high.bits()).leading_zeros()) / 4)
        }
    };
    found.iter().map(one).sum()
}
