//! All or nothing, and one winner.

use std::sync::Arc;

use bson::{RawBson, RawDocument, RawDocumentBuf, rawdoc};
use freshet_gateway::store::{
    Answer, Decide, DecideRecord, Decision, Modified, OwnedFind, Read, Refused, StoreError,
    Transacted, Write,
};
use rstest::rstest;

use super::harness::{Home, Kind, id, open};

#[rstest]
#[tokio::test]
async fn an_insertion_of_many_happens_whole_or_not_at_all(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    let records: Vec<RawDocumentBuf> = (0..50).map(|number| rawdoc! { "_id": number }).collect();
    home.insert(&records).await;
    assert_eq!(home.everything().await, records);
    for doubled in [
        [rawdoc! { "_id": 100 }, rawdoc! { "_id": 49 }],
        [rawdoc! { "_id": 101 }, rawdoc! { "_id": 101 }],
    ] {
        let refused = home.store.insert(&home.namespace, &doubled).await;
        assert_eq!(refused, Err(StoreError::DuplicateId));
    }
    assert_eq!(home.everything().await, records);
}

fn replaced_if(home: &Home, expected: i32, new: i32) -> DecideRecord {
    let namespace = home.namespace.clone();
    Arc::new(move |current| match current {
        Some(record) if record.get_i32("v").ok() == Some(expected) => {
            Decision::Write(vec![Write::Put {
                namespace: namespace.clone(),
                id: RawBson::Int32(1),
                document: rawdoc! { "v": new },
            }])
        }
        Some(_) => Decision::Refuse(Refused::Precondition),
        None => Decision::Refuse(Refused::Missing),
    })
}

#[rstest]
#[tokio::test]
async fn of_many_that_expect_the_same_state_one_wins(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = Arc::new(open(kind).await);
    let one = RawBson::Int32(1);
    let missing = home
        .store
        .modify(&home.namespace, id(&one), replaced_if(&home, 0, 1))
        .await;
    assert!(matches!(missing, Ok(Modified::Refused(Refused::Missing))));
    home.insert(&[rawdoc! { "_id": 1, "v": 0 }]).await;
    for round in 0..5 {
        let rivals: Vec<_> = (0..8)
            .map(|rival| {
                let home = home.clone();
                tokio::spawn(async move {
                    let decide = replaced_if(&home, round * 100, (round + 1) * 100);
                    let one = RawBson::Int32(1);
                    let outcome = home
                        .store
                        .modify(&home.namespace, id(&one), decide)
                        .await
                        .unwrap();
                    (rival, outcome)
                })
            })
            .collect();
        let mut winners = 0;
        for rival in rivals {
            match rival.await.unwrap().1 {
                Modified::Written(written) => {
                    winners += 1;
                    assert_eq!(
                        written.document,
                        Some(rawdoc! { "_id": 1, "v": (round + 1) * 100 })
                    );
                }
                Modified::Refused(reason) => assert_eq!(reason, Refused::Precondition),
                Modified::Kept => panic!("nobody keeps"),
            }
        }
        assert_eq!(winners, 1);
    }
}

#[rstest]
#[tokio::test]
async fn no_increment_is_lost(#[values(Kind::Mongo, Kind::Embedded)] kind: Kind) {
    let home = Arc::new(open(kind).await);
    home.insert(&[rawdoc! { "_id": 1, "v": 0 }]).await;
    let writers: Vec<_> = (0..6)
        .map(|writer| {
            let home = home.clone();
            tokio::spawn(async move {
                let one = RawBson::Int32(1);
                for turn in 0..10 {
                    if (writer + turn) % 2 == 0 {
                        let operators = rawdoc! { "$inc": { "v": 1 } };
                        home.store
                            .update(&home.namespace, id(&one), &operators)
                            .await
                            .unwrap();
                        continue;
                    }
                    let namespace = home.namespace.clone();
                    let decide = Arc::new(move |current: Option<&RawDocument>| {
                        let v = current.and_then(|record| record.get_i32("v").ok()).unwrap();
                        Decision::Write(vec![Write::Put {
                            namespace: namespace.clone(),
                            id: RawBson::Int32(1),
                            document: rawdoc! { "v": v + 1 },
                        }])
                    });
                    home.store
                        .modify(&home.namespace, id(&one), decide)
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(home.get(1).await, Some(rawdoc! { "_id": 1, "v": 60 }));
}

#[rstest]
#[tokio::test]
async fn a_transaction_sees_what_it_reads_and_shares_one_position(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    home.insert(&[rawdoc! { "_id": 1, "v": 1 }, rawdoc! { "_id": 2, "v": 2 }])
        .await;
    let reads = [
        Read::Record {
            namespace: home.namespace.clone(),
            id: RawBson::Int32(1),
        },
        Read::Query(OwnedFind {
            namespace: home.namespace.clone(),
            filter: rawdoc! { "v": { "$gt": 0 } },
            sort: Some(rawdoc! { "_id": -1 }),
            skip: 0,
            limit: 10,
            projection: None,
        }),
    ];
    let namespace = home.namespace.clone();
    let decide: Decide = Arc::new(move |answers| {
        let [Answer::Record(Some(one)), Answer::Query(all)] = answers else {
            panic!("{answers:?}");
        };
        assert_eq!(one, &rawdoc! { "_id": 1, "v": 1 });
        let v: Vec<_> = all
            .iter()
            .map(|record| record.get_i32("v").unwrap())
            .collect();
        assert_eq!(v, [2, 1]);
        let namespace = namespace.clone();
        Decision::Write(vec![
            Write::Insert {
                namespace: namespace.clone(),
                document: rawdoc! { "_id": 3, "v": 3 },
            },
            Write::Update {
                namespace: namespace.clone(),
                id: RawBson::Int32(3),
                operators: rawdoc! { "$inc": { "v": 1 } },
            },
            Write::Put {
                namespace: namespace.clone(),
                id: RawBson::Int32(1),
                document: rawdoc! { "v": 9 },
            },
            Write::Delete {
                namespace,
                id: RawBson::Int32(2),
            },
        ])
    });
    let outcome = home.store.transact(&reads, &decide).await.unwrap();
    let Transacted::Committed { written } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(
        written
            .iter()
            .all(|one| one.position == written[0].position)
    );
    let created: Vec<bool> = written.iter().map(|one| one.created).collect();
    assert_eq!(created, [true, false, false, false]);
    assert_eq!(written[1].document, Some(rawdoc! { "_id": 3, "v": 4 }));
    assert_eq!(written[3].document, None);
    assert_eq!(
        home.everything().await,
        [rawdoc! { "_id": 1, "v": 9 }, rawdoc! { "_id": 3, "v": 4 }]
    );
}

#[rstest]
#[tokio::test]
async fn a_transaction_that_does_not_fit_leaves_nothing(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = open(kind).await;
    home.insert(&[rawdoc! { "_id": 1 }]).await;
    let first = Write::Insert {
        namespace: home.namespace.clone(),
        document: rawdoc! { "_id": 2 },
    };
    let endings = [
        Write::Insert {
            namespace: home.namespace.clone(),
            document: rawdoc! { "_id": 1 },
        },
        Write::Update {
            namespace: home.namespace.clone(),
            id: RawBson::Int32(77),
            operators: rawdoc! { "$set": { "a": 1 } },
        },
        Write::Insert {
            namespace: home.namespace.clone(),
            document: rawdoc! { "no": "id" },
        },
    ];
    let mut outcomes = Vec::new();
    for ending in endings {
        let writes = vec![first.clone(), ending];
        let decide: Decide = Arc::new(move |_| Decision::Write(writes.clone()));
        outcomes.push(home.store.transact(&[], &decide).await);
    }
    assert!(
        matches!(outcomes[0], Err(StoreError::DuplicateId)),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[1], Ok(Transacted::Refused(Refused::Missing))),
        "{outcomes:?}"
    );
    assert!(
        matches!(outcomes[2], Err(StoreError::BadRequest(_))),
        "{outcomes:?}"
    );
    let kept: Decide = Arc::new(|_| Decision::Keep);
    assert!(matches!(
        home.store.transact(&[], &kept).await,
        Ok(Transacted::Kept)
    ));
    assert_eq!(home.everything().await, [rawdoc! { "_id": 1 }]);
}

#[rstest]
#[tokio::test]
async fn of_many_that_create_the_same_record_one_creates_it(
    #[values(Kind::Mongo, Kind::Embedded)] kind: Kind,
) {
    let home = Arc::new(open(kind).await);
    let rivals: Vec<_> = (0..8)
        .map(|rival| {
            let home = home.clone();
            tokio::spawn(async move {
                let namespace = home.namespace.clone();
                // If-None-Match: *
                let decide = Arc::new(move |current: Option<&RawDocument>| match current {
                    Some(_) => Decision::Refuse(Refused::Precondition),
                    None => Decision::Write(vec![Write::Put {
                        namespace: namespace.clone(),
                        id: RawBson::String("new".to_owned()),
                        document: rawdoc! { "by": rival },
                    }]),
                });
                let new = RawBson::String("new".to_owned());
                home.store
                    .modify(&home.namespace, id(&new), decide)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut created = 0;
    for rival in rivals {
        if let Modified::Written(written) = rival.await.unwrap() {
            assert!(written.created);
            created += 1;
        }
    }
    assert_eq!(created, 1);
}
