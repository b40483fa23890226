//! The embedded store against MongoDB, on the same records: the same bytes.

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use freshet_core::time::Position;
use freshet_gateway::store::{Find, StoreError};

use super::harness::{Home, Kind, id, open};
use super::nasty;

async fn both(records: &[RawDocumentBuf]) -> [Home; 2] {
    let homes = [open(Kind::Mongo).await, open(Kind::Embedded).await];
    for home in &homes {
        home.insert(records).await;
    }
    homes
}

async fn find(home: &Home, find: &Find<'_>) -> Result<Vec<RawDocumentBuf>, StoreError> {
    let find = Find {
        namespace: &home.namespace,
        ..*find
    };
    let found = home.store.find(&find).await?;
    Ok(found.documents.iter().map(RawDocument::to_owned).collect())
}

#[tokio::test]
async fn filters_sorts_and_windows_answer_alike() {
    let homes = both(&nasty::records()).await;
    let mut compared = 0;
    let windows = [(0, 1000), (0, 3), (2, 5), (40, 1000)];
    for filter in nasty::filters() {
        for (number, sort) in nasty::sorts().iter().enumerate() {
            let (skip, limit) = windows[(compared + number) % windows.len()];
            let wanted = Find {
                namespace: &homes[0].namespace,
                filter: &filter,
                sort: Some(sort),
                skip,
                limit,
                projection: None,
                at_least: Position::ZERO,
            };
            let [mongo, embedded] = [
                find(&homes[0], &wanted).await,
                find(&homes[1], &wanted).await,
            ];
            let same = match (&mongo, &embedded) {
                (Ok(mongo), Ok(embedded)) => mongo == embedded,
                (mongo, embedded) => kind(mongo) == kind(embedded),
            };
            assert!(
                same,
                "{filter:?} {sort:?} {skip} {limit}\n{mongo:?}\n{embedded:?}"
            );
            compared += 1;
        }
        let mut counts = Vec::new();
        for home in &homes {
            let counted = home
                .store
                .count(&home.namespace, &filter, Position::ZERO)
                .await;
            counts.push(counted.unwrap().count);
        }
        assert_eq!(counts[0], counts[1], "{filter:?}");
    }
    assert!(compared > 1000, "{compared} compared");
}

#[tokio::test]
async fn projections_answer_alike() {
    let homes = both(&nasty::records()).await;
    let (filter, sort) = (rawdoc! {}, rawdoc! { "_id": 1 });
    let projections = [
        rawdoc! { "a": 1 },
        rawdoc! { "a": 0 },
        rawdoc! { "a.c": 1 },
        rawdoc! { "a.c": 0 },
        rawdoc! { "_id": 0 },
        rawdoc! { "_id": 0, "b.x": 1 },
        rawdoc! { "g": 1, "b.x": 1, "a.c.d": 1 },
        rawdoc! { "_id": 1 },
    ];
    for projection in &projections {
        let wanted = Find {
            projection: Some(projection),
            ..homes[0].all(&filter, &sort)
        };
        let [mongo, embedded] = [
            find(&homes[0], &wanted).await,
            find(&homes[1], &wanted).await,
        ];
        assert_eq!(mongo.unwrap(), embedded.unwrap(), "{projection:?}");
    }
}

#[tokio::test]
async fn ids_of_every_kind_are_ordered_alike() {
    let records: Vec<RawDocumentBuf> = nasty::ids()
        .into_iter()
        .map(|id| rawdoc! { "_id": id, "a": 1 })
        .collect();
    let homes = both(&records).await;
    let filter = rawdoc! {};
    for sort in [
        rawdoc! { "_id": 1 },
        rawdoc! { "_id": -1 },
        rawdoc! { "a": 1, "_id": 1 },
    ] {
        for (skip, limit) in [(0, 1000), (3, 7)] {
            let wanted = Find {
                skip,
                limit,
                ..homes[0].all(&filter, &sort)
            };
            let [mongo, embedded] = [
                find(&homes[0], &wanted).await,
                find(&homes[1], &wanted).await,
            ];
            assert_eq!(mongo.unwrap(), embedded.unwrap(), "{sort:?}");
        }
    }
}

#[tokio::test]
async fn update_operators_answer_alike() {
    let records = nasty::records();
    let homes = both(&records).await;
    for operators in nasty::updates() {
        for record in &records {
            let at = record.get("_id").unwrap().unwrap();
            let mut outcomes = Vec::new();
            for home in &homes {
                let outcome = home.store.update(&home.namespace, at, &operators).await;
                outcomes.push(match outcome {
                    Ok(written) => Ok(written.and_then(|written| written.document)),
                    Err(error) => Err(kind::<()>(&Err(error))),
                });
                home.store.put(&home.namespace, at, record).await.unwrap();
            }
            assert_eq!(outcomes[0], outcomes[1], "{operators:?} on {record:?}");
        }
    }
}

#[tokio::test]
async fn what_only_a_database_can_answer_is_refused_not_guessed() {
    let home = open(Kind::Embedded).await;
    home.insert(&[rawdoc! { "_id": 1, "a": "x" }]).await;
    let sort = rawdoc! { "_id": 1 };
    for filter in [
        rawdoc! { "$expr": { "$eq": ["$a", "x"] } },
        rawdoc! { "a": { "$regex": "(?=x)" } },
    ] {
        let refused = home.store.find(&home.all(&filter, &sort)).await.map(|_| ());
        assert!(
            matches!(refused, Err(StoreError::Unsupported(_))),
            "{refused:?}"
        );
    }
    let nonsense = rawdoc! { "a": { "$nothing": 1 } };
    let refused = home
        .store
        .find(&home.all(&nonsense, &sort))
        .await
        .map(|_| ());
    assert!(
        matches!(refused, Err(StoreError::BadRequest(_))),
        "{refused:?}"
    );
    let mongo = open(Kind::Mongo).await;
    mongo.insert(&[rawdoc! { "_id": 1, "a": "x" }]).await;
    let expression = rawdoc! { "$expr": { "$eq": ["$a", "x"] } };
    assert_eq!(
        mongo
            .store
            .find(&mongo.all(&expression, &sort))
            .await
            .unwrap()
            .documents
            .len(),
        1
    );
    let refused = mongo
        .store
        .find(&mongo.all(&nonsense, &sort))
        .await
        .map(|_| ());
    assert!(
        matches!(refused, Err(StoreError::BadRequest(_))),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_large_answer_comes_whole() {
    let body = "x".repeat(300_000);
    let records: Vec<RawDocumentBuf> = (0..120)
        .map(|number| rawdoc! { "_id": number, "body": &*body })
        .collect();
    // 36 MB: more than one reply of the server can hold.
    for home in both(&[]).await {
        for some in records.chunks(30) {
            home.insert(some).await;
        }
        assert!(home.everything().await == records);
        let last = bson::RawBson::Int32(119);
        let got = home
            .store
            .get(&home.namespace, id(&last), Position::ZERO)
            .await
            .unwrap();
        assert!(got.document.as_ref() == records.last());
    }
}

/// Which error, without its words.
fn kind<T>(outcome: &Result<T, StoreError>) -> Option<std::mem::Discriminant<StoreError>> {
    outcome.as_ref().err().map(std::mem::discriminant)
}
