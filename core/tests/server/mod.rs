//! The real server: fill a collection, ask it.

// Each test binary uses a part of it, and all of it is test code.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use bson::{RawArrayBuf, RawBson, RawDocumentBuf, rawdoc};
use freshet_fixture::{Parts, fresh_database_name};
use futures_util::TryStreamExt;
use mongodb::Database;
use mongodb::error::Error;

/// A database of the test's own. Dropped by [`Server::drop`].
pub struct Server(Database);

/// What `find` is asked.
#[derive(Clone, Debug, Default)]
pub struct Find {
    pub filter: RawDocumentBuf,
    pub sort: Option<RawDocumentBuf>,
    pub skip: u32,
    pub limit: u32,
    pub projection: Option<RawDocumentBuf>,
}

impl Server {
    pub async fn start() -> Server {
        let mongo = Parts::mongo().await.unwrap();
        let client = mongo.client().await.unwrap();
        Server(client.database(&fresh_database_name()))
    }

    pub async fn drop(self) {
        self.0.drop().await.unwrap();
    }

    /// Puts `documents` in place of what the collection held.
    pub async fn fill(&self, collection: &str, documents: &[RawDocumentBuf]) {
        self.0
            .collection::<RawDocumentBuf>(collection)
            .drop()
            .await
            .unwrap();
        let mut array = RawArrayBuf::new();
        for document in documents {
            array.push(document.clone());
        }
        let command = rawdoc! { "insert": collection, "documents": array };
        let answer = self.0.run_raw_command(command).await.unwrap();
        let inserted = usize::try_from(answer.get_i32("n").unwrap()).unwrap();
        assert_eq!(inserted, documents.len(), "{answer}");
    }

    /// The documents that it answers, in its order.
    pub async fn find(&self, collection: &str, find: Find) -> Result<Vec<RawDocumentBuf>, Error> {
        let mut command = rawdoc! {
            "find": collection,
            "filter": RawBson::Document(find.filter),
            "batchSize": 1000,
            "singleBatch": true,
            "skip": i64::from(find.skip),
            "limit": i64::from(find.limit),
        };
        if let Some(sort) = find.sort {
            command.append(bson::raw::cstr!("sort"), sort);
        }
        if let Some(projection) = find.projection {
            command.append(bson::raw::cstr!("projection"), projection);
        }
        let cursor = self.0.run_raw_cursor_command(command).await?;
        cursor.with_type::<RawDocumentBuf>().try_collect().await
    }

    /// What a pipeline answers.
    pub async fn aggregate(
        &self,
        collection: &str,
        stages: &[RawDocumentBuf],
    ) -> Result<Vec<RawDocumentBuf>, Error> {
        let stages: RawArrayBuf = stages.iter().cloned().collect();
        let command = rawdoc! {
            "aggregate": collection,
            "pipeline": stages,
            "cursor": { "batchSize": 10_000 },
        };
        let cursor = self.0.run_raw_cursor_command(command).await?;
        cursor.with_type::<RawDocumentBuf>().try_collect().await
    }

    /// Puts a document in place of the one with its id, or takes that away.
    pub async fn put(&self, collection: &str, id: i32, document: Option<&RawDocumentBuf>) {
        let collection = self.0.collection::<RawDocumentBuf>(collection);
        let by_id = bson::doc! { "_id": id };
        match document {
            Some(document) => drop(
                collection
                    .replace_one(by_id, document)
                    .upsert(true)
                    .await
                    .unwrap(),
            ),
            None => drop(collection.delete_one(by_id).await.unwrap()),
        }
    }

    /// The ids of the documents that match, ascending. Ids are 32-bit integers.
    pub async fn ids(&self, collection: &str, filter: &RawDocumentBuf) -> Result<Vec<i32>, Error> {
        let find = Find {
            filter: filter.clone(),
            projection: Some(rawdoc! { "_id": 1 }),
            ..Find::default()
        };
        let found = self.find(collection, find).await?;
        let mut ids: Vec<i32> = found
            .iter()
            .map(|document| document.get_i32("_id").unwrap())
            .collect();
        ids.sort_unstable();
        Ok(ids)
    }
}
