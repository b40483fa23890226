//! The vectors that the gateway and the SDK both reproduce (`docs/canonical-form.md`). With
//! `FRESHET_WRITE_VECTORS=1` the answers in the file are written anew from its inputs: look at the difference
//! before it is committed.

#![allow(clippy::unwrap_used)] // all of it is test code

use std::collections::BTreeMap;
use std::path::Path;

use freshet_core::key::{Key, KeyHash};
use freshet_core::name::Namespace;
use freshet_core::query::{CountQuery, Query, RecordRequest};
use freshet_core::value::ejson;
use freshet_core::value::id::RecordId;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Deserialize, Serialize)]
struct Vectors {
    vectors: Vec<Vector>,
    ids: Vec<Id>,
    hashes: Vec<Hash>,
}

/// A request in some spelling, and its key. Path and parameters are percent-decoded.
#[derive(Deserialize, Serialize)]
struct Vector {
    name: String,
    path: String,
    params: BTreeMap<String, String>,
    #[serde(default)]
    key: String,
}

/// An id in canonical Extended JSON, and its segment.
#[derive(Deserialize, Serialize)]
struct Id {
    id: Box<RawValue>,
    #[serde(default)]
    segment: String,
}

#[derive(Deserialize, Serialize)]
struct Hash {
    key: String,
    #[serde(default)]
    hash: String,
}

fn key_of(vector: &Vector) -> Key {
    let mut segments = vector.path.splitn(5, '/').skip(2);
    let namespace = Namespace::new(segments.next().unwrap(), segments.next().unwrap()).unwrap();
    let parameters: Vec<(String, String)> = vector.params.clone().into_iter().collect();
    match segments.next() {
        None => Query::parse(&namespace, &parameters).map(|query| query.key()),
        Some("_count") => CountQuery::parse(&namespace, &parameters).map(|count| count.key()),
        Some(segment) => {
            let id = RecordId::parse_segment(segment).unwrap();
            RecordRequest::parse(&namespace, id, &parameters).map(|record| record.key())
        }
    }
    .unwrap_or_else(|error| panic!("{}: {error}", vector.name))
}

fn segment_of(id: &RawValue) -> String {
    let text = format!("{{\"_id\":{}}}", id.get());
    let document = ejson::parse_document(text.as_bytes()).unwrap();
    let id = document.get("_id").unwrap().unwrap();
    RecordId::of(id).unwrap().segment().to_owned()
}

fn lines<T: Serialize>(items: &[T]) -> String {
    let lines = items
        .iter()
        .map(|item| serde_json::to_string(item).unwrap());
    lines.collect::<Vec<_>>().join(",\n")
}

#[test]
fn every_spelling_has_its_key() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/keys.json");
    let mut file: Vectors = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    #[allow(clippy::disallowed_methods)] // a switch of the test, not a setting
    if std::env::var_os("FRESHET_WRITE_VECTORS").is_some() {
        for vector in &mut file.vectors {
            vector.key = key_of(vector).to_string();
        }
        for id in &mut file.ids {
            id.segment = segment_of(&id.id);
        }
        for hash in &mut file.hashes {
            hash.hash = KeyHash::of(hash.key.as_bytes()).to_string();
        }
        let text = [
            ("vectors", lines(&file.vectors)),
            ("ids", lines(&file.ids)),
            ("hashes", lines(&file.hashes)),
        ]
        .map(|(name, lines)| format!("\"{name}\":[\n{lines}\n]"))
        .join(",\n");
        std::fs::write(&path, format!("{{{text}}}\n")).unwrap();
    }
    assert!(file.vectors.len() >= 300);
    for vector in &file.vectors {
        assert_eq!(key_of(vector).as_str(), vector.key, "{}", vector.name);
    }
    for id in &file.ids {
        assert_eq!(segment_of(&id.id), id.segment, "{}", id.id);
    }
    for hash in &file.hashes {
        assert_eq!(KeyHash::of(hash.key.as_bytes()).to_string(), hash.hash);
    }
}

/// A key is a spelling of the request, too: it has itself as its key.
#[test]
fn a_key_is_its_own_key() {
    let file: Vectors = serde_json::from_str(include_str!("vectors/keys.json")).unwrap();
    for vector in &file.vectors {
        let (path, query) = vector.key.split_once('?').unwrap_or((&vector.key, ""));
        let decode = |text: &str| {
            let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
            decoded.unwrap().into_owned()
        };
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let again = Vector {
            name: vector.name.clone(),
            path: decode(path),
            params: pairs
                .map(|pair| pair.split_once('=').unwrap())
                .map(|(name, value)| (name.to_owned(), decode(value)))
                .collect(),
            key: String::new(),
        };
        assert_eq!(key_of(&again).as_str(), vector.key, "{}", vector.name);
    }
}
