//! What an index relies on: order keys and digests follow the order of values, and an atom's reach misses no document
//! of which the atom holds.

#![allow(clippy::unwrap_used)] // all of it is test code

mod nasty;

use std::cmp::Ordering;
use std::hash::RandomState;
use std::ops::ControlFlow;

use bson::{RawBsonRef, RawDocument};
use freshet_core::predicate::{Atom, Predicate, Reach, Span};
use freshet_core::query::Filter;
use freshet_core::value::compare::compare;
use freshet_core::value::order_key::{OrderKey, digest};
use freshet_core::value::path::{ArrayLeaf, Leaf, Path};
use nasty::Nasty;

#[test]
fn order_keys_and_digests_follow_the_order() {
    let mut nasty = Nasty::of(7);
    let documents: Vec<_> = (0..400).map(|id| nasty.stored(id)).collect();
    let mut values: Vec<RawBsonRef<'_>> = Vec::new();
    for document in &documents {
        for element in document.iter() {
            let (_, value) = element.unwrap();
            values.push(value);
            if let RawBsonRef::Array(array) = value {
                values.extend(array.into_iter().map_while(Result::ok));
            }
        }
    }
    let state = RandomState::new();
    let (mut equal, mut told_apart) = (0, 0);
    for a in &values {
        for b in &values {
            let keys = OrderKey::of(*a).cmp(&OrderKey::of(*b));
            match compare(*a, *b) {
                Ordering::Less => assert_ne!(keys, Ordering::Greater, "{a:?} {b:?}"),
                Ordering::Greater => assert_ne!(keys, Ordering::Less, "{a:?} {b:?}"),
                Ordering::Equal => {
                    assert_eq!(keys, Ordering::Equal, "{a:?} {b:?}");
                    assert_eq!(digest(*a, &state), digest(*b, &state), "{a:?} {b:?}");
                    equal += 1;
                }
            }
            told_apart += usize::from(keys != Ordering::Equal);
        }
    }
    assert!(equal > values.len() && told_apart > values.len() * values.len() / 2);
}

fn leaves<'a>(path: &Path, document: &'a RawDocument) -> Vec<Leaf<'a>> {
    let mut found = Vec::new();
    let _ = path.visit(document, ArrayLeaf::Elements, |leaf| {
        found.push(leaf);
        ControlFlow::<()>::Continue(())
    });
    found
}

/// Whether something in reach is there.
fn reached(atom: &Atom, reach: &[Reach<'_>], document: &RawDocument) -> bool {
    reach.iter().any(|one| {
        let path = match one.below.as_str() {
            "" => Path::clone(atom.path()),
            below => Path::new(&format!("{}.{below}", atom.path().as_str())),
        };
        let found = leaves(&path, document);
        let values = || {
            found.iter().filter_map(|leaf| match leaf {
                Leaf::Value(value) | Leaf::Element(value) => Some(*value),
                Leaf::Missing => None,
            })
        };
        match one.span {
            Span::Missing => found.is_empty() || found.contains(&Leaf::Missing),
            Span::Equal(wanted) => values().any(|value| compare(value, wanted).is_eq()),
            Span::Between(low, high) => values().any(|value| {
                let key = OrderKey::of(value);
                low <= key && key <= high
            }),
        }
    })
}

#[test]
fn no_reach_misses_a_document() {
    let mut nasty = Nasty::of(11);
    let documents: Vec<_> = (0..120).map(|id| nasty.stored(id)).collect();
    let (mut checked, mut useful, mut limited) = (0, 0, 0);
    for _ in 0..4_000 {
        let Ok(filter) = Filter::parse(&nasty.filter()) else {
            continue;
        };
        let Ok(predicate) = Predicate::compile(&filter) else {
            continue;
        };
        predicate.into_expr().each(&mut |atom| {
            for document in &documents {
                let holds = atom.matches(document);
                let direct = atom.holds_of(&leaves(atom.path(), document));
                assert_eq!(holds, direct, "{atom:?} {document:?}");
                let reach = match holds {
                    true => atom.reach(),
                    false => atom.reach_negated(),
                };
                let Some(reach) = reach else { continue };
                checked += 1;
                assert!(reached(atom, &reach, document), "{atom:?} {document:?}");
            }
            if let Some(reach) = atom.reach() {
                let out = documents
                    .iter()
                    .filter(|d| !reached(atom, &reach, d))
                    .count();
                useful += usize::from(out > documents.len() / 4);
                limited += 1;
            }
        });
    }
    assert!(checked > 20_000, "{checked}");
    assert!(
        useful * 2 > limited,
        "{useful} of {limited} tell documents apart"
    );
}
