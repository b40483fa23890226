//! Ours against a real server: whole answers, byte for byte. Filter, sort, skip, limit and projection as this crate
//! understands them, and pages that together are the whole.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // all of it is test code

mod nasty;
mod server;

use bson::{RawBson, RawDocument, RawDocumentBuf};
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::{Cursor, Filter, Projection, Query, Sort};
use freshet_core::value::compare::equal;
use freshet_core::value::sort::{compare_keys, sort_key};
use nasty::{Nasty, document, fresh_seed};
use server::{Find, Server};

/// Always run: the first is arbitrary, the others once failed.
const SEEDS: [u64; 2] = [1, 9_339_210_077_640_304_643];
/// Fresh seeds of every run.
const FRESH: usize = 2;
/// Documents of one batch.
const DOCUMENTS: usize = 150;
/// Queries that are asked of one batch.
const QUERIES: usize = 150;
/// Queries of which every page is fetched.
const PAGED: usize = 40;

#[derive(Debug, Default)]
struct Seen {
    answers: usize,
    documents: usize,
    parallel: usize,
    pages: usize,
}

#[tokio::test]
async fn every_answer_has_the_servers_bytes() {
    let server = Server::start().await;
    let mut seen = Seen::default();
    let fresh = (0..FRESH).map(|_| fresh_seed());
    for seed in SEEDS.into_iter().chain(fresh) {
        println!("seed {seed}");
        let mut nasty = Nasty::of(seed);
        let documents = documents_with_odd_ids(&mut nasty);
        server.fill("c", &documents).await;
        for _ in 0..QUERIES {
            let query = query(&mut nasty);
            check(&server, &documents, &query, seed, &mut seen).await;
        }
        for _ in 0..PAGED {
            let query = query(&mut nasty);
            check_pages(&server, query, seed, &mut seen).await;
        }
    }
    server.drop().await;
    println!("{seen:?}");
    assert!(
        seen.documents > 2_000 && seen.pages > 300 && seen.parallel > 0,
        "{seen:?}"
    );
}

/// Documents whose `_id` may be of any type.
fn documents_with_odd_ids(nasty: &mut Nasty) -> Vec<RawDocumentBuf> {
    let mut documents: Vec<RawDocumentBuf> = Vec::new();
    while documents.len() < DOCUMENTS {
        let id = match nasty.percent(25) {
            true => RawBson::Int32(i32::try_from(nasty.below(1000)).unwrap()),
            false => nasty.operand(),
        };
        let taken = documents
            .iter()
            .any(|document| equal(document.get("_id").unwrap().unwrap(), id.as_raw_bson_ref()));
        if taken || matches!(id, RawBson::Array(_) | RawBson::RegularExpression(_)) {
            continue;
        }
        let stored = nasty.stored(0);
        let rest = stored.iter().map(Result::unwrap).skip(1);
        let fields = rest.map(|(name, value)| (name.as_str(), RawBson::from(value)));
        documents.push(document([("_id", id)].into_iter().chain(fields)));
    }
    documents
}

fn query(nasty: &mut Nasty) -> Query {
    let namespace = Namespace::new("d", "c").unwrap();
    let mut query = Query::all(namespace);
    query.filter = match nasty.percent(50) {
        true => Filter::all(),
        false => Filter::parse(&nasty.filter()).unwrap_or_default(),
    };
    let sort = nasty.one(&[
        "_id",
        "_id",
        "-_id",
        "a",
        "-a",
        "b,-a",
        "-a.b",
        "a.b,c",
        "a.0",
        "-b.a,-_id",
        "c,a",
        "a.b.c",
        "a,a.b",
        "d,-c",
        "a.c,a.b",
    ]);
    query.sort = Sort::parse(sort).unwrap();
    query.skip = nasty.one(&[0, 0, 0, 1, 7]);
    query.limit = nasty.one(&[1, 2, 5, 10, 33, 1000]);
    let fields = nasty.one(&[
        "",
        "",
        "a",
        "a,b",
        "-a",
        "a.b",
        "-a.b",
        "a.b,c",
        "-a.b,-c",
        "-_id,a.b.c",
        "-_id",
        "_id",
        "a.0",
        "-a.0.b",
        "a.b.b,a.c",
        "-a.b.c,-b.a,-_id",
        "-_id,b",
        "b.a,c.b,a.a",
        "-b.b,_id",
        "a.1,a.c",
    ]);
    query.projection = match fields {
        "" => Projection::default(),
        fields => Projection::parse(fields).unwrap(),
    };
    query
}

/// What the gateway will ask of the database.
async fn ask(server: &Server, query: &Query) -> Option<Vec<RawDocumentBuf>> {
    let find = Find {
        filter: query.effective_filter().to_document(),
        sort: Some(query.sort.to_document()),
        skip: query.effective_skip(),
        limit: query.limit,
        projection: (!query.projection.is_all()).then(|| query.projection.to_document()),
    };
    server.find("c", find).await.ok()
}

/// What this crate alone answers; `None` where there is no order.
fn answer(documents: &[RawDocumentBuf], query: &Query) -> Option<Vec<RawDocumentBuf>> {
    let predicate = Predicate::compile(&query.effective_filter()).ok()?;
    let pattern = query.sort.pattern();
    let mut keyed = Vec::new();
    for document in documents
        .iter()
        .filter(|document| predicate.matches(document))
    {
        keyed.push((sort_key(document, &pattern).ok()?, document));
    }
    keyed.sort_by(|a, b| compare_keys(&a.0, &b.0, &pattern));
    let page = keyed
        .into_iter()
        .skip(query.effective_skip() as usize)
        .take(query.limit as usize);
    Some(
        page.map(|(_, document)| query.projection.apply(document).unwrap())
            .collect(),
    )
}

async fn check(
    server: &Server,
    documents: &[RawDocumentBuf],
    query: &Query,
    seed: u64,
    seen: &mut Seen,
) {
    if Predicate::compile(&query.filter).is_err() {
        return;
    }
    let (ours, theirs) = (answer(documents, query), ask(server, query).await);
    let Some(theirs) = theirs else {
        seen.parallel += 1;
        assert_eq!(
            ours,
            None,
            "seed {seed}: only the server finds no order in {}",
            query.key()
        );
        return;
    };
    let ours =
        ours.unwrap_or_else(|| panic!("seed {seed}: only we find no order in {}", query.key()));
    seen.answers += 1;
    seen.documents += theirs.len();
    assert_eq!(ours.len(), theirs.len(), "seed {seed}: {}", query.key());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert!(
            ours.as_bytes() == theirs.as_bytes(),
            "seed {seed}: {}\n{}\n{}",
            query.key(),
            shown(ours),
            shown(theirs)
        );
    }
}

async fn check_pages(server: &Server, mut query: Query, seed: u64, seen: &mut Seen) {
    let name = query.key();
    query.limit = 1000;
    let Some(whole) = ask(server, &query).await else {
        return;
    };
    query.limit = 7;
    let with_id = query.projection.with_id();
    let projection = std::mem::replace(&mut query.projection, with_id);
    let mut together: Vec<RawDocumentBuf> = Vec::new();
    while let Some(page) = ask(server, &query).await.filter(|page| !page.is_empty()) {
        let returned = u32::try_from(page.len()).unwrap();
        let next = query.next(page.last().unwrap(), returned).unwrap();
        // The client sends it back as a text.
        query.after = Some(Cursor::parse(&next.text()).unwrap());
        together.extend(
            page.iter()
                .map(|document| projection.apply(document).unwrap()),
        );
        seen.pages += 1;
        assert!(
            together.len() <= whole.len(),
            "seed {seed}: {name} goes on and on"
        );
    }
    assert_eq!(together, whole, "seed {seed}: the pages of {name}");
}

fn shown(document: &RawDocument) -> bson::Document {
    bson::Document::try_from(document).unwrap()
}
