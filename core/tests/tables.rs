//! Bug reports as rows: each is answered by this crate and by a real server, and both must say what the row says.
//!
//! A row has documents, a filter, and what is expected: ids (in order, where the row has a `sort`), whole documents (where it has
//! `fields`), or an error. Rows marked "(ref)" were taken from the server.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // all of it is test code

mod nasty;
mod server;

use bson::RawDocumentBuf;
use freshet_core::name::Namespace;
use freshet_core::predicate::Predicate;
use freshet_core::query::{Filter, Query};
use freshet_core::value::ejson::{Mode, parse_document, write_document, write_value};
use freshet_core::value::sort::{compare_keys, sort_key};
use serde::Deserialize;
use serde_json::value::RawValue;
use server::{Find, Server};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    id: String,
    source: String,
    why: String,
    docs: Vec<Box<RawValue>>,
    filter: Box<RawValue>,
    sort: Option<String>,
    limit: Option<u32>,
    fields: Option<String>,
    expect: Option<Vec<Box<RawValue>>>,
    error: Option<Refusal>,
}

/// How the filter is refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Refusal {
    kind: String,
    pointer: String,
    /// The server is not as strict (`true`), or may or may not be (`null`).
    #[serde(default = "no")]
    server_accepts: Option<bool>,
}

#[allow(clippy::unnecessary_wraps)] // the type of the field
fn no() -> Option<bool> {
    Some(false)
}

fn raw(json: &RawValue) -> RawDocumentBuf {
    parse_document(json.get().as_bytes()).unwrap_or_else(|error| panic!("{json}: {error:?}"))
}

fn query(row: &Row) -> Query {
    let mut parameters = vec![("filter".to_owned(), row.filter.get().to_owned())];
    let optional = [
        ("sort", row.sort.clone()),
        ("limit", row.limit.map(|limit| limit.to_string())),
        ("fields", row.fields.clone()),
    ];
    for (name, value) in optional {
        parameters.extend(value.map(|value| (name.to_owned(), value)));
    }
    let namespace = Namespace::new("d", "c").unwrap();
    Query::parse(&namespace, &parameters).unwrap_or_else(|error| panic!("{}: {error}", row.id))
}

/// The answer as lines: ids, or documents where fields are asked for.
fn lines(row: &Row, documents: &[RawDocumentBuf]) -> Vec<String> {
    let line = |document: &RawDocumentBuf| {
        let mut text = Vec::new();
        match row.fields {
            Some(_) => write_document(document, Mode::Relaxed, &mut text),
            None => write_value(
                document.get("_id").unwrap().unwrap(),
                Mode::Relaxed,
                &mut text,
            ),
        }
        String::from_utf8(text).unwrap()
    };
    documents.iter().map(line).collect()
}

fn ours(query: &Query, documents: &[RawDocumentBuf]) -> Vec<RawDocumentBuf> {
    let predicate = Predicate::compile(&query.filter).unwrap();
    let pattern = query.sort.pattern();
    let mut matching: Vec<_> = documents
        .iter()
        .filter(|document| predicate.matches(document))
        .collect();
    matching.sort_by(|a, b| {
        let key = |document| sort_key(document, &pattern).unwrap();
        compare_keys(&key(a), &key(b), &pattern)
    });
    let page = matching.into_iter().take(query.limit as usize);
    page.map(|document| query.projection.apply(document).unwrap())
        .collect()
}

async fn theirs(server: &Server, query: &Query, original: RawDocumentBuf) -> Vec<RawDocumentBuf> {
    let find = Find {
        filter: original,
        sort: Some(query.sort.to_document()),
        skip: 0,
        limit: query.limit,
        projection: (!query.projection.is_all()).then(|| query.projection.to_document()),
    };
    server.find("c", find).await.unwrap()
}

async fn check(server: &Server, row: &Row) {
    let documents: Vec<RawDocumentBuf> = row.docs.iter().map(|json| raw(json)).collect();
    server.fill("c", &documents).await;
    let filter = raw(&row.filter);
    let name = format!("{} ({}): {}", row.id, row.source, row.why);
    if let Some(refusal) = &row.error {
        let error = Filter::parse(&filter).expect_err(&name);
        assert_eq!(format!("{:?}", error.kind), refusal.kind, "{name}");
        assert_eq!(error.pointer, refusal.pointer, "{name}");
        let accepts = server.ids("c", &filter).await.is_ok();
        assert_eq!(accepts, refusal.server_accepts.unwrap_or(accepts), "{name}");
        return;
    }
    let query = query(row);
    let expected: Vec<&str> = row
        .expect
        .as_ref()
        .unwrap()
        .iter()
        .map(|json| json.get())
        .collect();
    assert_eq!(
        lines(row, &ours(&query, &documents)),
        expected,
        "ours, {name}"
    );
    let answer = theirs(server, &query, filter).await;
    assert_eq!(lines(row, &answer), expected, "the server, {name}");
}

async fn check_all(table: &str) {
    let rows: Vec<Row> = serde_json::from_str(table).unwrap();
    let server = Server::start().await;
    for row in &rows {
        check(&server, row).await;
    }
    server.drop().await;
    println!("{} rows", rows.len());
}

#[tokio::test]
async fn matcher_rows_hold_here_and_there() {
    check_all(include_str!("tables/matcher.json")).await;
}

#[tokio::test]
async fn sorting_rows_hold_here_and_there() {
    check_all(include_str!("tables/sorting.json")).await;
}
