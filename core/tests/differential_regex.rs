//! Ours against a real server: random regular expressions on random texts, and the case folding of every
//! letter that the translation lets through.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // all of it is test code

mod nasty;
mod server;

use bson::{RawBson, RawDocumentBuf, rawdoc};
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use nasty::{Nasty, fresh_seed};
use server::Server;

/// Always run: the first is arbitrary, the others once failed.
const SEEDS: [u64; 1] = [1];
/// Texts of one batch.
const TEXTS: usize = 250;
/// Patterns that are asked of one batch.
const PATTERNS: usize = 500;

#[derive(Debug, Default)]
struct Seen {
    patterns: usize,
    decided: usize,
    matching: usize,
}

#[tokio::test]
async fn every_pattern_matches_what_the_server_does() {
    let server = Server::start().await;
    let mut seen = Seen::default();
    for seed in SEEDS.into_iter().chain([fresh_seed()]) {
        println!("seed {seed}");
        let mut nasty = Nasty::of(seed);
        let texts: Vec<RawDocumentBuf> = (0..TEXTS)
            .map(|id| rawdoc! { "_id": i32::try_from(id).unwrap(), "a": nasty.subject() })
            .collect();
        server.fill("c", &texts).await;
        for _ in 0..PATTERNS {
            let (source, options) = nasty.expression();
            let filter = regex_filter(&source, &options);
            seen.patterns += 1;
            let Ok(theirs) = server.ids("c", &filter).await else {
                continue;
            };
            let Ok(predicate) = Predicate::compile(&Filter::parse(&filter).unwrap()) else {
                continue;
            };
            seen.decided += 1;
            seen.matching += theirs.len();
            for text in &texts {
                let theirs = theirs.contains(&text.get_i32("_id").unwrap());
                assert_eq!(
                    predicate.matches(text),
                    theirs,
                    "seed {seed}: /{source}/{options} on {:?}: the server says {theirs}",
                    text.get_str("a").unwrap()
                );
            }
        }
    }
    server.drop().await;
    println!("{seen:?}");
    assert!(seen.decided * 2 > seen.patterns, "{seen:?}");
    let share = seen.matching * 100 / (seen.decided * TEXTS);
    assert!(
        (5..=60).contains(&share),
        "{share} % match: a check that cannot fail"
    );
}

#[tokio::test]
async fn letters_fold_as_on_the_server() {
    let server = Server::start().await;
    let scripts = [
        'A'..='z',
        '\u{a1}'..='\u{24f}',
        '\u{370}'..='\u{52f}',
        '\u{1e00}'..='\u{1eff}',
    ];
    let letters: Vec<char> = scripts
        .into_iter()
        .flatten()
        .filter(|l| l.is_alphabetic())
        .collect();
    // Whatever has a case anywhere may fold into one of them.
    let cased = |c: &char| c.to_lowercase().ne([*c]) || c.to_uppercase().ne([*c]);
    let documents: Vec<RawDocumentBuf> = (0..)
        .zip(('\0'..=char::MAX).filter(cased))
        .map(|(id, letter): (i32, _)| rawdoc! { "_id": id, "a": letter.to_string() })
        .collect();
    server.fill("c", &documents).await;
    let mut decided = 0;
    for letter in &letters {
        let filter = regex_filter(&format!("^{letter}$"), "i");
        let Ok(predicate) = Predicate::compile(&Filter::parse(&filter).unwrap()) else {
            continue;
        };
        decided += 1;
        let ours = documents
            .iter()
            .filter(|document| predicate.matches(document));
        let ours: Vec<i32> = ours
            .map(|document| document.get_i32("_id").unwrap())
            .collect();
        let theirs = server.ids("c", &filter).await.unwrap();
        assert_eq!(ours, theirs, "{letter} U+{:04X}", u32::from(*letter));
    }
    server.drop().await;
    assert!(decided > 700, "{decided} letters");
}

fn regex_filter(source: &str, options: &str) -> RawDocumentBuf {
    let operators = rawdoc! { "$regex": source, "$options": options };
    rawdoc! { "a": RawBson::Document(operators) }
}
