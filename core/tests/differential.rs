//! Ours against a real server: random filters on random documents, the same answers to every pair, and the
//! canonical form of a filter means what the filter means. A seed that failed is printed; it goes into `SEEDS`.

mod nasty;

use bson::{RawBson, RawDocumentBuf, rawdoc};
use freshet_core::predicate::Predicate;
use freshet_core::query::Filter;
use freshet_fixture::{Parts, fresh_database_name};
use mongodb::Database;
use nasty::{Nasty, fresh_seed};

/// Always run: the first is arbitrary, the others once failed.
const SEEDS: [u64; 2] = [1, 11_707_799_531_680_700_018];
/// Documents of one batch.
const DOCUMENTS: usize = 400;
/// Filters that are asked of one batch.
const FILTERS: usize = 300;

/// What one batch saw.
#[derive(Debug, Default)]
struct Seen {
    pairs: usize,
    matching: usize,
    undecidable: usize,
    refused: usize,
}

#[tokio::test]
async fn every_filter_answers_as_the_server_does() {
    let mongo = Parts::mongo().await.unwrap();
    let database = mongo.client().await.unwrap().database(&fresh_database_name());
    let mut seen = Seen::default();
    for seed in SEEDS.into_iter().chain([fresh_seed()]) {
        batch(&database, seed, &mut seen).await;
    }
    database.drop().await.unwrap();
    let share = seen.matching * 100 / seen.pairs;
    println!("{seen:?}, {share} % match");
    assert!(seen.pairs >= 200_000, "too few pairs: {seen:?}");
    assert!((5..=60).contains(&share), "{share} % of the pairs match: a check that cannot fail");
    assert!(seen.undecidable * 10 < FILTERS, "too many undecidable: {seen:?}");
}

async fn batch(database: &Database, seed: u64, seen: &mut Seen) {
    println!("seed {seed}");
    let mut nasty = Nasty::of(seed);
    let documents: Vec<RawDocumentBuf> = (0..DOCUMENTS).map(|id| nasty.stored(i32::try_from(id).unwrap())).collect();
    let collection = format!("c{seed}");
    insert(database, &collection, &documents).await;
    for _ in 0..FILTERS {
        let filter = nasty.filter();
        if let Err(disagreement) = check(database, &collection, &documents, &filter, seen).await {
            panic!("seed {seed}: {disagreement}");
        }
    }
}

async fn check(
    database: &Database,
    collection: &str,
    documents: &[RawDocumentBuf],
    filter: &RawDocumentBuf,
    seen: &mut Seen,
) -> Result<(), String> {
    let shown = bson::Document::try_from(filter.clone()).unwrap();
    let parsed = Filter::parse(filter);
    let theirs = find(database, collection, filter.clone()).await;
    let (parsed, theirs) = match (parsed, theirs) {
        (Err(_), Err(_)) => {
            seen.refused += 1;
            return Ok(());
        }
        (Err(ours), Ok(_)) => return Err(format!("only we refuse {shown}: {ours:?}")),
        (Ok(_), Err(theirs)) => return Err(format!("only the server refuses {shown}: {theirs}")),
        (Ok(parsed), Ok(theirs)) => (parsed, theirs),
    };
    let canonical = parsed.to_document();
    let canonical_shown = bson::Document::try_from(canonical.clone()).unwrap();
    let again = find(database, collection, canonical).await.map_err(|error| format!("the server refuses the canonical {canonical_shown} of {shown}: {error}"))?;
    if again != theirs {
        return Err(format!("canonical form changes the answer:\n{shown}\n{canonical_shown}\n{theirs:?}\n{again:?}"));
    }
    let Ok(predicate) = Predicate::compile(&parsed) else {
        seen.undecidable += 1;
        return Ok(());
    };
    for (id, document) in documents.iter().enumerate() {
        let ours = predicate.matches(document);
        let theirs = theirs.binary_search(&i32::try_from(id).unwrap()).is_ok();
        seen.pairs += 1;
        seen.matching += usize::from(theirs);
        if ours != theirs {
            let document = bson::Document::try_from(document.clone()).unwrap();
            return Err(format!("we say {ours}, the server {theirs}:\n{shown}\n{document}"));
        }
    }
    Ok(())
}

async fn insert(database: &Database, collection: &str, documents: &[RawDocumentBuf]) {
    let mut array = bson::RawArrayBuf::new();
    for document in documents {
        array.push(document.clone());
    }
    let command = rawdoc! { "insert": collection, "documents": array };
    let answer = database.run_raw_command(command).await.unwrap();
    assert_eq!(answer.get_i32("n").unwrap() as usize, documents.len(), "{answer}");
}

/// The ids that match, ascending.
async fn find(database: &Database, collection: &str, filter: RawDocumentBuf) -> Result<Vec<i32>, mongodb::error::Error> {
    let command = rawdoc! {
        "find": collection,
        "filter": RawBson::Document(filter),
        "projection": { "_id": 1 },
        "batchSize": 1000,
        "singleBatch": true,
    };
    let answer = database.run_raw_command(command).await?;
    let batch = answer.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let mut ids: Vec<i32> = batch.iter().map(|d| d.as_document().unwrap().get_i32("_id").unwrap()).collect();
    ids.sort_unstable();
    Ok(ids)
}
