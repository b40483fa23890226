//! What holds of every filter: its canonical form is a fixed point, does not see order where order has no
//! meaning, is shared only by filters with the same answers; and rewrites that cannot matter do not.

#![allow(clippy::unwrap_used)] // all of it is test code

mod nasty;

use std::collections::HashMap;

use bson::{Bson, Document, RawDocumentBuf};
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use freshet_core::value::ejson::parse_document;
use nasty::Nasty;
use proptest::prelude::*;

fn parse(document: &Document) -> Option<Filter> {
    Filter::parse(&RawDocumentBuf::try_from(document).unwrap()).ok()
}

/// A filter that is not refused, as a tree.
fn filter(nasty: &mut Nasty) -> Document {
    loop {
        let raw = nasty.filter();
        if Filter::parse(&raw).is_ok() {
            return Document::try_from(raw).unwrap();
        }
    }
}

fn documents(nasty: &mut Nasty) -> Vec<RawDocumentBuf> {
    (0..60).map(|id| nasty.stored(id)).collect()
}

/// Which documents match; `None` where the filter cannot be decided.
fn matching(filter: &Filter, documents: &[RawDocumentBuf]) -> Option<Vec<bool>> {
    let predicate = Predicate::compile(filter).ok()?;
    Some(
        documents
            .iter()
            .map(|document| predicate.matches(document))
            .collect(),
    )
}

impl Nasty {
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }

    /// The same filter with everything moved whose order has no meaning.
    fn shuffled(&mut self, filter: &Document) -> Document {
        let mut fields: Vec<(String, Bson)> = Vec::new();
        for (name, value) in filter {
            let value = match (name.as_str(), value) {
                ("$and" | "$or" | "$nor", Bson::Array(members)) => {
                    let mut members = members.clone();
                    for member in &mut members {
                        *member = Bson::Document(self.shuffled(member.as_document().unwrap()));
                    }
                    self.shuffle(&mut members);
                    Bson::Array(members)
                }
                ("$in" | "$nin" | "$all", Bson::Array(members)) => {
                    let mut members = members.clone();
                    self.shuffle(&mut members);
                    Bson::Array(members)
                }
                ("$not" | "$elemMatch", Bson::Document(inner)) => {
                    Bson::Document(self.shuffled(inner))
                }
                (path, Bson::Document(inner)) if !path.starts_with('$') && is_operators(inner) => {
                    Bson::Document(self.shuffled(inner))
                }
                (_, value) => value.clone(),
            };
            fields.push((name.clone(), value));
        }
        self.shuffle(&mut fields);
        fields.into_iter().collect()
    }
}

fn is_operators(document: &Document) -> bool {
    document
        .keys()
        .next()
        .is_some_and(|name| name.starts_with('$'))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_canonical_form_is_a_fixed_point(seed in any::<u64>()) {
        let filter = filter(&mut Nasty::of(seed));
        let parsed = parse(&filter).unwrap();
        let text = parsed.canonical_text();
        let document = parsed.to_document();
        prop_assert_eq!(Filter::parse(&document).unwrap().to_document(), document);
        let again = Filter::parse(&parse_document(text.as_bytes()).unwrap()).unwrap();
        prop_assert_eq!(again.canonical_text(), text);
    }

    #[test]
    fn order_without_meaning_is_not_seen(seed in any::<u64>()) {
        let mut nasty = Nasty::of(seed);
        let filter = filter(&mut nasty);
        let shuffled = nasty.shuffled(&filter);
        prop_assert_eq!(
            parse(&filter).unwrap().canonical_text(),
            parse(&shuffled).unwrap().canonical_text(),
            "{} and {}", filter, shuffled
        );
    }

    #[test]
    fn rewrites_that_cannot_matter_do_not(seed in any::<u64>()) {
        let mut nasty = Nasty::of(seed);
        let filter = filter(&mut nasty);
        let documents = documents(&mut nasty);
        let inner = Bson::Document(filter.clone());
        let expected = matching(&parse(&filter).unwrap(), &documents);
        let one = |name: &str, members: Vec<Bson>| bson::doc! { name: members };
        let not = |filter: Document| one("$nor", vec![Bson::Document(filter)]);
        let always = one("$nor", vec![Bson::Document(bson::doc! { "_id": { "$exists": false } })]);
        let never = bson::doc! { "_id": { "$in": [] } };
        let rewritten = [
            nasty.shuffled(&filter),
            not(not(filter.clone())),
            one("$and", vec![inner.clone(), inner.clone()]),
            one("$and", vec![inner.clone(), Bson::Document(always)]),
            one("$or", vec![inner.clone(), Bson::Document(never)]),
            one("$or", vec![inner.clone(), inner.clone()]),
        ];
        for other in rewritten {
            prop_assert_eq!(&matching(&parse(&other).unwrap(), &documents), &expected, "{} and {}", filter, other);
        }
        // What matches and what does not are everything.
        let opposite = matching(&parse(&not(filter)).unwrap(), &documents);
        let flipped = expected.map(|all| all.into_iter().map(|one| !one).collect::<Vec<_>>());
        prop_assert_eq!(opposite, flipped);
    }
}

/// Small filters, of which many share a form: all that do must have the same answers.
#[test]
fn filters_with_different_answers_have_different_forms() {
    let mut nasty = Nasty::of(7);
    let documents = documents(&mut nasty);
    let mut forms: HashMap<String, Vec<bool>> = HashMap::new();
    let mut shared = 0;
    for _ in 0..20_000 {
        let filter = parse(&filter(&mut nasty)).unwrap();
        let Some(answers) = matching(&filter, &documents) else {
            continue;
        };
        let text = filter.canonical_text();
        match forms.get(&text) {
            Some(earlier) => {
                shared += 1;
                assert_eq!(*earlier, answers, "{text}");
            }
            None => {
                forms.insert(text, answers);
            }
        }
    }
    assert!(shared > 1_000, "only {shared} of the filters shared a form");
}
