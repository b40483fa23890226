//! One record at a time: what each call answers and what is there afterwards.

use bson::{RawBson, RawDocumentBuf, rawdoc};
use freshet_core::time::Position;
use freshet_gateway::store::{DOCUMENT_BYTES_MAX, StoreError};
use rstest::rstest;

use super::harness::{Kind, id, open};

#[rstest]
#[tokio::test]
async fn a_record_lives_from_insertion_to_deletion(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    let (one, ns) = (RawBson::Int32(1), &home.namespace);
    assert_eq!(home.get(1).await, None);
    let inserted = home.insert(&[rawdoc! { "_id": 1, "a": 1 }]).await;
    assert_eq!(home.get(1).await, Some(rawdoc! { "_id": 1, "a": 1 }));

    let put = home
        .store
        .put(ns, id(&one), &rawdoc! { "a": 2 })
        .await
        .unwrap();
    assert_eq!(put.document, Some(rawdoc! { "_id": 1, "a": 2 }));
    assert!(!put.created && put.position > inserted);

    let updated = home
        .store
        .update(ns, id(&one), &rawdoc! { "$inc": { "a": 5 } })
        .await
        .unwrap();
    let updated = updated.unwrap();
    assert_eq!(updated.document, Some(rawdoc! { "_id": 1, "a": 7 }));
    assert!(updated.position > put.position);

    let deleted = home.store.delete(ns, id(&one)).await.unwrap().unwrap();
    assert!(deleted > updated.position);
    assert_eq!(home.get(1).await, None);
    assert_eq!(home.store.delete(ns, id(&one)).await.unwrap(), None);
    let gone = home
        .store
        .update(ns, id(&one), &rawdoc! { "$inc": { "a": 5 } })
        .await
        .unwrap();
    assert_eq!(gone, None);

    let created = home
        .store
        .put(ns, id(&one), &rawdoc! { "_id": 1, "b": 1 })
        .await
        .unwrap();
    assert!(created.created);
    assert_eq!(home.get(1).await, Some(rawdoc! { "_id": 1, "b": 1 }));
}

#[rstest]
#[tokio::test]
async fn equal_ids_of_different_types_are_one_record(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    home.insert(&[rawdoc! { "_id": 5_i64, "a": 1 }]).await;
    let again = home
        .store
        .insert(&home.namespace, &[rawdoc! { "_id": 5.0 }])
        .await;
    assert_eq!(again, Err(StoreError::DuplicateId));
    let double = RawBson::Double(5.0);
    let put = home
        .store
        .put(&home.namespace, id(&double), &rawdoc! { "a": 2 })
        .await
        .unwrap();
    // The record keeps the type its id had.
    assert_eq!(put.document, Some(rawdoc! { "_id": 5_i64, "a": 2 }));
    assert_eq!(home.get(5).await, put.document);
}

#[rstest]
#[tokio::test]
async fn ids_of_every_kind_are_kept_apart(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = open(kind).await;
    let ids = super::nasty::ids();
    for (number, id) in (0..).zip(&ids) {
        home.insert(&[rawdoc! { "_id": id.clone(), "number": number }])
            .await;
    }
    for (number, id) in (0..).zip(&ids) {
        let record = home.get(id.clone()).await;
        assert_eq!(
            record,
            Some(rawdoc! { "_id": id.clone(), "number": number }),
            "{id:?}"
        );
    }
    assert_eq!(home.everything().await.len(), ids.len());
}

#[rstest]
#[tokio::test]
async fn what_is_no_record_is_refused(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = open(kind).await;
    let bad: Vec<RawDocumentBuf> = vec![
        rawdoc! { "a": 1 },
        rawdoc! { "_id": [1] },
        rawdoc! { "_id": bson::Regex { pattern: bson::raw::cstr!("a").into(), options: bson::raw::cstr!("").into() } },
        rawdoc! { "_id": 1, "$a": 1 },
        rawdoc! { "_id": 1, "a": bson::Timestamp { time: 0, increment: 0 } },
    ];
    for document in bad {
        let refused = home.store.insert(&home.namespace, &[document]).await;
        assert!(
            matches!(refused, Err(StoreError::BadRequest(_))),
            "{refused:?}"
        );
    }
    let one = RawBson::Int32(1);
    let other = home
        .store
        .put(&home.namespace, id(&one), &rawdoc! { "_id": 2 })
        .await;
    assert!(matches!(other, Err(StoreError::BadRequest(_))), "{other:?}");
    assert!(home.everything().await.is_empty());
}

#[rstest]
#[tokio::test]
async fn a_document_may_be_large_and_deep_but_not_too_large(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    let frame = rawdoc! { "_id": 1, "body": "" }.as_bytes().len();
    let fits = "x".repeat(DOCUMENT_BYTES_MAX - frame);
    home.insert(&[rawdoc! { "_id": 1, "body": &*fits }]).await;
    assert_eq!(
        home.get(1).await.unwrap().as_bytes().len(),
        DOCUMENT_BYTES_MAX
    );
    let too_large = rawdoc! { "_id": 2, "body": format!("{fits}x") };
    let refused = home.store.insert(&home.namespace, &[too_large]).await;
    assert_eq!(refused, Err(StoreError::TooLarge));
    let (one, grow) = (RawBson::Int32(1), rawdoc! { "$set": { "more": 1 } });
    let refused = home.store.update(&home.namespace, id(&one), &grow).await;
    assert_eq!(refused, Err(StoreError::TooLarge));

    let mut deep = rawdoc! { "leaf": 1 };
    for _ in 0..98 {
        deep = rawdoc! { "d": deep };
    }
    let deep = rawdoc! { "_id": 3, "d": deep };
    home.insert(std::slice::from_ref(&deep)).await;
    assert_eq!(home.get(3).await, Some(deep));
}

#[rstest]
#[tokio::test]
async fn a_read_at_a_writes_position_sees_the_write(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    for number in 0..20 {
        let written = home.insert(&[rawdoc! { "_id": number }]).await;
        let at = RawBson::Int32(number);
        let got = home
            .store
            .get(&home.namespace, id(&at), written)
            .await
            .unwrap();
        assert!(got.document.is_some());
        assert!(
            got.position >= written,
            "a read states what it was made after"
        );
        assert!(home.store.committed() >= written);
        let filter = rawdoc! { "_id": number };
        let counted = home
            .store
            .count(&home.namespace, &filter, written)
            .await
            .unwrap();
        assert_eq!(counted.count, 1);
        assert!(counted.position >= written);
    }
}

#[rstest]
#[tokio::test]
async fn collections_are_listed_by_name(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = open(kind).await;
    let db = home.namespace.db();
    for name in ["zebras", "ants", "things"] {
        let namespace = freshet_core::name::Namespace::new(db, name).unwrap();
        home.store
            .insert(&namespace, &[rawdoc! { "_id": 1 }])
            .await
            .unwrap();
    }
    let names: Vec<String> = home
        .store
        .collections(db)
        .await
        .unwrap()
        .iter()
        .map(|namespace| namespace.collection().to_owned())
        .collect();
    assert_eq!(names, ["ants", "things", "zebras"]);
    assert!(home.store.collections("nowhere").await.unwrap().is_empty());
    home.store.ping().await.unwrap();
}

#[rstest]
#[tokio::test]
async fn an_empty_insertion_and_a_limit_of_none_do_nothing(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    assert_eq!(home.insert(&[]).await, Position::ZERO);
    home.insert(&[rawdoc! { "_id": 1 }]).await;
    let (filter, sort) = (rawdoc! {}, rawdoc! { "_id": 1 });
    let mut find = home.all(&filter, &sort);
    find.limit = 0;
    assert!(home.store.find(&find).await.unwrap().documents.is_empty());
}
