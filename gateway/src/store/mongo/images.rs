//! Before- and after-images: switched on where the gateway's credentials permit it (MongoDB 6.0,
//! `changeStreamPreAndPostImages`). Where they do not, the matcher remembers members instead.

use bson::doc;
use freshet_core::name::Namespace;
use futures_util::TryStreamExt;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ChangeStreamPreAndPostImages;

use super::super::port::{Images, StoreError};
use super::MongoStore;
use super::error::translate;

impl MongoStore {
    pub(super) async fn switch_images_on(
        &self,
        namespace: &Namespace,
    ) -> Result<Images, StoreError> {
        match self.images_are_on(namespace).await {
            Ok(Some(true)) => return Ok(Images::On),
            Ok(Some(false)) => {}
            Ok(None) => match self.create_with_images(namespace).await {
                // Somebody was faster.
                Err(error) if code(&error) == Some(48) => {}
                outcome => return answer(outcome),
            },
            Err(error) => return answer(Err(error)),
        }
        let command = doc! {
            "collMod": namespace.collection(),
            "changeStreamPreAndPostImages": { "enabled": true },
        };
        answer(
            self.client
                .database(namespace.db())
                .run_command(command)
                .await
                .map(|_| ()),
        )
    }

    /// `None`: there is no such collection.
    async fn images_are_on(&self, namespace: &Namespace) -> Result<Option<bool>, Error> {
        let mut found = self
            .client
            .database(namespace.db())
            .list_collections()
            .filter(doc! { "name": namespace.collection() })
            .await?;
        Ok(found.try_next().await?.map(|collection| {
            collection
                .options
                .change_stream_pre_and_post_images
                .is_some_and(|images| images.enabled)
        }))
    }

    async fn create_with_images(&self, namespace: &Namespace) -> Result<(), Error> {
        self.client
            .database(namespace.db())
            .create_collection(namespace.collection())
            .change_stream_pre_and_post_images(
                ChangeStreamPreAndPostImages::builder()
                    .enabled(true)
                    .build(),
            )
            .await
    }
}

fn answer(outcome: Result<(), Error>) -> Result<Images, StoreError> {
    let Err(error) = outcome else {
        return Ok(Images::On);
    };
    match code(&error) {
        // Unauthorized
        Some(13) => Ok(Images::NotPermitted),
        // An option that the server does not know, a view, a time series, a command it lacks.
        Some(9 | 40415 | 166 | 72 | 59 | 115) => Ok(Images::NotSupported),
        _ => Err(translate(error)),
    }
}

fn code(error: &Error) -> Option<i32> {
    match &*error.kind {
        ErrorKind::Command(command) => Some(command.code),
        _ => None,
    }
}
