//! Ours against a real server: random filters on random documents, the same answer for every pair, and the
//! canonical form of a filter means what the filter means. What disagrees is made small and printed with its
//! seed, which then goes into `SEEDS`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // all of it is test code

mod nasty;
mod server;

use bson::{Bson, Document, RawDocumentBuf};
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use nasty::{Nasty, fresh_seed};
use server::Server;

/// Always run: the first is arbitrary, the others once failed.
const SEEDS: [u64; 2] = [1, 11_707_799_531_680_700_018];
/// Fresh seeds of every run.
const FRESH: usize = 2;
/// Documents of one batch.
const DOCUMENTS: usize = 400;
/// Filters that are asked of one batch.
const FILTERS: usize = 300;

/// What a run saw.
#[derive(Debug, Default)]
struct Seen {
    filters: usize,
    pairs: usize,
    matching: usize,
    undecidable: usize,
    refused: usize,
}

#[tokio::test]
async fn every_filter_answers_as_the_server_does() {
    let server = Server::start().await;
    let mut seen = Seen::default();
    let fresh = (0..FRESH).map(|_| fresh_seed());
    for seed in SEEDS.into_iter().chain(fresh) {
        println!("seed {seed}");
        batch(&server, seed, &mut seen).await;
    }
    server.drop().await;
    let share = seen.matching * 100 / seen.pairs;
    println!("{seen:?}: {share} % match");
    assert!(seen.pairs >= 200_000, "too few pairs: {seen:?}");
    assert!(
        (5..=60).contains(&share),
        "{share} % match: a check that cannot fail"
    );
    assert!(
        seen.undecidable * 20 < seen.filters,
        "too many undecidable: {seen:?}"
    );
}

async fn batch(server: &Server, seed: u64, seen: &mut Seen) {
    let mut nasty = Nasty::of(seed);
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS)
        .map(|id| nasty.stored(i32::try_from(id).unwrap()))
        .collect();
    server.fill("c", &documents).await;
    for _ in 0..FILTERS {
        let filter = nasty.filter();
        if let Err(first) = check(server, &documents, &filter, seen).await {
            let small = shrink(server, &documents, filter).await;
            panic!("seed {seed}: {first}\nmade small: {small}");
        }
    }
}

async fn check(
    server: &Server,
    documents: &[RawDocumentBuf],
    filter: &RawDocumentBuf,
    seen: &mut Seen,
) -> Result<(), String> {
    let shown = Document::try_from(filter.clone()).unwrap();
    seen.filters += 1;
    let (parsed, theirs) = match (Filter::parse(filter), server.ids("c", filter).await) {
        (Err(_), Err(_)) => {
            seen.refused += 1;
            return Ok(());
        }
        (Err(ours), Ok(_)) => return Err(format!("only we refuse {shown}: {ours}")),
        (Ok(_), Err(theirs)) => return Err(format!("only the server refuses {shown}: {theirs}")),
        (Ok(parsed), Ok(theirs)) => (parsed, theirs),
    };
    let canonical = parsed.to_document();
    let again = server
        .ids("c", &canonical)
        .await
        .map_err(|error| format!("{error}"));
    if again.as_ref() != Ok(&theirs) {
        let canonical = Document::try_from(canonical).unwrap();
        return Err(format!(
            "{shown}\n{canonical}\nare not one filter: {theirs:?}\n{again:?}"
        ));
    }
    let Ok(predicate) = Predicate::compile(&parsed) else {
        seen.undecidable += 1;
        return Ok(());
    };
    for document in documents {
        let ours = predicate.matches(document);
        let theirs = theirs
            .binary_search(&document.get_i32("_id").unwrap())
            .is_ok();
        seen.pairs += 1;
        seen.matching += usize::from(theirs);
        if ours != theirs {
            let document = Document::try_from(document.clone()).unwrap();
            return Err(format!(
                "we say {ours}, the server {theirs}:\n{shown}\n{document}"
            ));
        }
    }
    Ok(())
}

/// Takes parts away from a filter as long as what is left still disagrees.
async fn shrink(server: &Server, documents: &[RawDocumentBuf], filter: RawDocumentBuf) -> String {
    let mut small = Document::try_from(filter).unwrap();
    let mut said = String::new();
    'again: loop {
        for candidate in smaller(&small) {
            let raw = RawDocumentBuf::try_from(&candidate).unwrap();
            if let Err(disagreement) = check(server, documents, &raw, &mut Seen::default()).await {
                (small, said) = (candidate, disagreement);
                continue 'again;
            }
        }
        return said;
    }
}

/// The document without one of its parts.
fn smaller(document: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    for (name, value) in document {
        let mut without = document.clone();
        without.remove(name);
        all.push(without);
        for value in smaller_value(value) {
            let mut with = document.clone();
            with.insert(name, value);
            all.push(with);
        }
    }
    all
}

fn smaller_value(value: &Bson) -> Vec<Bson> {
    match value {
        Bson::Document(document) => smaller(document).into_iter().map(Bson::Document).collect(),
        Bson::Array(members) => {
            let mut all = Vec::new();
            for (index, member) in members.iter().enumerate() {
                let mut without = members.clone();
                without.remove(index);
                all.push(Bson::Array(without));
                for member in smaller_value(member) {
                    let mut with = members.clone();
                    with[index] = member;
                    all.push(Bson::Array(with));
                }
            }
            all
        }
        _ => Vec::new(),
    }
}
