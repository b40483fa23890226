//! Order, equality, paths, sort keys and ids, measured against a real MongoDB.

mod value_support;

use std::cmp::Ordering;
use std::collections::HashMap;

use bson::{RawBson, RawBsonRef, RawDocumentBuf, cstr, doc};
use freshet_core::value::compare::{compare, equal};
use freshet_core::value::id::RecordId;
use freshet_core::value::path::{ArrayLeaf, Leaf, Path, field};
use freshet_core::value::sort::{Direction, Pattern, compare_keys, sort_key};
use freshet_fixture::{Parts, fresh_database_name};
use futures_util::TryStreamExt;
use mongodb::{Collection, Database};
use value_support::{
    CONTAINERS, NUMBERS, SCALARS, document, generator, random_document, random_path, random_value,
    value,
};

async fn database() -> Database {
    let mongo = Parts::mongo()
        .await
        .expect("MongoDB is installed (infra/install)");
    let client = mongo.client().await.expect("MongoDB answers");
    client.database(&fresh_database_name())
}

/// Inserts `{_id: position, v: value, w: {x: value}}`.
async fn stored(database: &Database, values: &[RawBson]) -> Collection<RawDocumentBuf> {
    let collection = database.collection("values");
    let documents: Vec<_> = values
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let mut inner = RawDocumentBuf::new();
            inner.append(cstr!("x"), value.as_raw_bson_ref());
            let mut document = RawDocumentBuf::new();
            document.append(cstr!("_id"), i32::try_from(at).expect("few values"));
            document.append(cstr!("v"), value.as_raw_bson_ref());
            document.append(cstr!("w"), inner);
            document
        })
        .collect();
    collection.insert_many(&documents).await.expect("inserted");
    collection
}

fn id_of(document: &RawDocumentBuf) -> i32 {
    document.get_i32("_id").expect("an _id")
}

async fn all(collection: &Collection<RawDocumentBuf>) -> Vec<RawDocumentBuf> {
    let cursor = collection
        .find(doc! {})
        .sort(doc! {"_id": 1})
        .await
        .expect("found");
    cursor.try_collect().await.expect("read")
}

async fn sorted_ids(
    collection: &Collection<RawDocumentBuf>,
    sort: bson::Document,
) -> Result<Vec<i32>, mongodb::error::Error> {
    let found: Vec<_> = collection
        .find(doc! {})
        .sort(sort)
        .await?
        .try_collect()
        .await?;
    Ok(found.iter().map(id_of).collect())
}

fn nasty() -> Vec<RawBson> {
    let mut values: Vec<_> = [NUMBERS, SCALARS, CONTAINERS]
        .concat()
        .into_iter()
        .map(value)
        .collect();
    let mut rng = generator(1);
    while values.len() < 600 {
        values.push(value(&random_value(&mut rng, 2)));
    }
    values
}

#[tokio::test]
async fn values_sort_as_mongodb_sorts_them() {
    let database = database().await;
    // The server's sort in memory looks only at the id of a DBPointer, its filters and indexes at all of it.
    let mut values = nasty();
    values.retain(|value| !format!("{value:?}").contains("DbPointer"));
    let collection = stored(&database, &values).await;
    let documents = all(&collection).await;
    for (path, direction) in [
        ("v", Direction::Ascending),
        ("v", Direction::Descending),
        ("w", Direction::Ascending),
        ("w.x", Direction::Descending),
    ] {
        let pattern = [
            (Path::new(path), direction),
            (Path::new("_id"), Direction::Ascending),
        ];
        let theirs = sorted_ids(&collection, sort_document(&pattern))
            .await
            .expect("sorted");
        let ours = our_order(&documents, &pattern).expect("a sort key");
        assert_same_order(&documents, &ours, &theirs, path);
    }
    database.drop().await.expect("dropped");
}

fn assert_same_order(documents: &[RawDocumentBuf], ours: &[i32], theirs: &[i32], path: &str) {
    for (at, (our, their)) in ours.iter().zip(theirs).enumerate() {
        let show = |id: i32| format!("{:?}", documents.iter().find(|d| id_of(d) == id));
        assert_eq!(
            our,
            their,
            "by {path}, place {at}: {} {}",
            show(*our),
            show(*their)
        );
    }
    assert_eq!(ours.len(), theirs.len());
}

fn sort_document(pattern: &Pattern) -> bson::Document {
    pattern
        .iter()
        .map(|(path, direction)| {
            (
                path.as_str().to_owned(),
                (if *direction == Direction::Ascending {
                    1
                } else {
                    -1
                })
                .into(),
            )
        })
        .collect()
}

fn our_order(documents: &[RawDocumentBuf], pattern: &Pattern) -> Option<Vec<i32>> {
    let mut keyed = documents
        .iter()
        .map(|document| Some((sort_key(document, pattern).ok()?, id_of(document))))
        .collect::<Option<Vec<_>>>()?;
    keyed.sort_by(|(a, _), (b, _)| compare_keys(a, b, pattern));
    Some(keyed.into_iter().map(|(_, id)| id).collect())
}

#[tokio::test]
async fn equal_is_what_mongodb_matches() {
    let database = database().await;
    let values: Vec<_> = [NUMBERS, SCALARS].concat().into_iter().map(value).collect();
    let collection = stored(&database, &values).await;
    for operand in values.iter().filter(|v| !matches!(v, RawBson::Undefined)) {
        let filter = doc! {"w.x": {"$eq": bson::Bson::try_from(operand.clone()).expect("a value")}};
        let found: Vec<_> = collection
            .find(filter)
            .sort(doc! {"_id": 1})
            .await
            .expect("found")
            .try_collect()
            .await
            .expect("read");
        let theirs: Vec<i32> = found.iter().map(id_of).collect();
        let ours: Vec<i32> = (0..)
            .zip(&values)
            .filter(|(_, v)| {
                let undefined_is_null = matches!((v, operand), (RawBson::Undefined, RawBson::Null));
                undefined_is_null || equal(v.as_raw_bson_ref(), operand.as_raw_bson_ref())
            })
            .map(|(id, _)| id)
            .collect();
        assert_eq!(ours, theirs, "{operand:?}");
    }
    database.drop().await.expect("dropped");
}

#[test]
fn the_order_is_total() {
    let values = nasty();
    let order =
        |a: usize, b: usize| compare(values[a].as_raw_bson_ref(), values[b].as_raw_bson_ref());
    let mut sorted: Vec<usize> = (0..values.len()).collect();
    sorted.sort_by(|a, b| order(*a, *b));
    for (i, a) in sorted.iter().enumerate() {
        for b in &sorted[i..] {
            assert_ne!(
                order(*a, *b),
                Ordering::Greater,
                "{:?} {:?}",
                values[*a],
                values[*b]
            );
            assert_eq!(order(*a, *b), order(*b, *a).reverse());
        }
    }
}

#[tokio::test]
async fn random_documents_sort_as_mongodb_sorts_them() {
    let database = database().await;
    let mut rng = generator(2);
    let mut refused = 0;
    for round in 0..120 {
        let collection: Collection<RawDocumentBuf> = database.collection(&format!("sort{round}"));
        let mut documents: Vec<_> = Vec::new();
        for id in 0..12 {
            let text = random_document(&mut rng, 2)
                .replacen('{', &format!("{{\"_id\":{id},"), 1)
                .replace(",}", "}");
            documents.push(document(&text));
        }
        collection.insert_many(&documents).await.expect("inserted");
        let documents = all(&collection).await;
        for _ in 0..12 {
            let mut pattern: Vec<(Path, Direction)> = Vec::new();
            for _ in 0..rand::RngExt::random_range(&mut rng, 1..3) {
                let path = Path::new(&random_path(&mut rng, 3));
                if pattern.iter().all(|(p, _)| *p != path) {
                    let up = rand::RngExt::random_bool(&mut rng, 0.5);
                    pattern.push((
                        path,
                        if up {
                            Direction::Ascending
                        } else {
                            Direction::Descending
                        },
                    ));
                }
            }
            pattern.push((Path::new("_id"), Direction::Ascending));
            let theirs = sorted_ids(&collection, sort_document(&pattern)).await;
            match (our_order(&documents, &pattern), theirs) {
                (Some(ours), Ok(theirs)) => {
                    assert_same_order(
                        &documents,
                        &ours,
                        &theirs,
                        &format!("{:?}", sort_document(&pattern)),
                    );
                }
                (None, Err(_)) => refused += 1,
                (ours, theirs) => panic!("{pattern:?} {ours:?} {theirs:?} {documents:#?}"),
            }
        }
        collection.drop().await.expect("dropped");
    }
    assert!(
        refused > 10,
        "the refusals of the server are part of this test: {refused}"
    );
    database.drop().await.expect("dropped");
}

#[tokio::test]
async fn paths_lead_where_mongodb_looks() {
    let database = database().await;
    let collection: Collection<RawDocumentBuf> = database.collection("paths");
    let mut rng = generator(3);
    let mut documents = Vec::new();
    for id in 0..400 {
        let text = random_document(&mut rng, 3)
            .replacen('{', &format!("{{\"_id\":{id},"), 1)
            .replace(",}", "}");
        documents.push(document(&text));
    }
    collection.insert_many(&documents).await.expect("inserted");
    let documents = all(&collection).await;
    for _ in 0..1200 {
        let path = random_path(&mut rng, 4);
        let operand = value(&random_value(&mut rng, 1));
        let (test, operator): (fn(Leaf<'_>, RawBsonRef<'_>) -> bool, _) =
            match rand::RngExt::random_range(&mut rng, 0..4) {
                0 => (|leaf, _| leaf != Leaf::Missing, doc! {"$exists": true}),
                1 => (
                    |leaf, _| matches!(leaf, Leaf::Value(RawBsonRef::Array(a)) if elements(a) == 1),
                    doc! {"$size": 1},
                ),
                2 => (|leaf, _| is_null(leaf), doc! {"$eq": null}),
                _ if matches!(operand, RawBson::Undefined | RawBson::Null) => continue,
                _ => (
                    is,
                    doc! {"$eq": bson::Bson::try_from(operand.clone()).expect("a value")},
                ),
            };
        let arrays = if operator.contains_key("$size") {
            ArrayLeaf::Whole
        } else {
            ArrayLeaf::Elements
        };
        let theirs: Vec<_> = collection
            .find(doc! {&path: operator.clone()})
            .sort(doc! {"_id": 1})
            .await
            .expect("found")
            .try_collect()
            .await
            .expect("read");
        let parsed = Path::new(&path);
        let ours: Vec<_> = documents
            .iter()
            .filter(|d| parsed.any(d, arrays, |leaf| test(leaf, operand.as_raw_bson_ref())))
            .cloned()
            .collect();
        assert_eq!(ours, theirs, "{path} {operator}");
    }
    database.drop().await.expect("dropped");
}

fn elements(array: &bson::RawArray) -> usize {
    array.into_iter().count()
}

fn is_null(leaf: Leaf<'_>) -> bool {
    matches!(
        leaf,
        Leaf::Missing
            | Leaf::Value(RawBsonRef::Null | RawBsonRef::Undefined)
            | Leaf::Element(RawBsonRef::Null | RawBsonRef::Undefined)
    )
}

fn is(leaf: Leaf<'_>, operand: RawBsonRef<'_>) -> bool {
    match leaf {
        Leaf::Missing => false,
        Leaf::Value(value) | Leaf::Element(value) => equal(value, operand),
    }
}

#[tokio::test]
async fn ids_are_one_where_mongodb_has_one() {
    let database = database().await;
    let collection: Collection<RawDocumentBuf> = database.collection("ids");
    let mut known: HashMap<RecordId, RawBson> = HashMap::new();
    for value in nasty() {
        let mut document = RawDocumentBuf::new();
        document.append(cstr!("_id"), value.as_raw_bson_ref());
        let inserted = collection.insert_one(&document).await;
        match RecordId::new(value.clone()) {
            Err(_) => assert!(inserted.is_err(), "{value:?}"),
            Ok(id) => {
                let before = known.get(&id);
                assert_eq!(
                    before.is_none(),
                    inserted.is_ok(),
                    "{value:?} {before:?} {inserted:?}"
                );
                known.entry(id).or_insert(value);
            }
        }
    }
    assert!(field(&document(r#"{"a":1}"#), "a").is_some());
    database.drop().await.expect("dropped");
}
