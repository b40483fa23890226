//! Before- and after-images: switched on where the gateway's credentials permit it (MongoDB 6.0,
//! `changeStreamPreAndPostImages`). Where they do not, the matcher remembers members instead.
//!
//! Only a plain collection is watched: what a view or a time series shows changes without an event of its name, and
//! a collation of its own compares strings as the matcher does not (C14).

use bson::doc;
use freshet_core::name::Namespace;
use futures_util::TryStreamExt;
use mongodb::error::{Error, ErrorKind};
use mongodb::options::ChangeStreamPreAndPostImages;
use mongodb::results::{CollectionSpecification, CollectionType};

use super::super::port::{Images, StoreError};
use super::MongoStore;
use super::error::translate;

impl MongoStore {
    pub(super) async fn switch_images_on(
        &self,
        namespace: &Namespace,
    ) -> Result<Images, StoreError> {
        let found = match self.specification(namespace).await {
            Ok(None) => match self.create_with_images(namespace).await {
                Ok(()) => return Ok(Images::On),
                // Somebody was faster, with whatever it is.
                Err(error) if code(&error) == Some(48) => self.specification(namespace).await,
                // Anything may come up under this name.
                Err(error) => return answer(Err(error)).map(|_| Images::NotWatched),
            },
            found => found,
        };
        match found {
            Ok(Some(found)) if !is_plain(&found) => return Ok(Images::NotWatched),
            Ok(Some(found)) if has_images(&found) => return Ok(Images::On),
            Ok(Some(_)) => {}
            Ok(None) => return Ok(Images::NotWatched),
            // Not even permitted to look.
            Err(error) => return answer(Err(error)).map(|_| Images::NotWatched),
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
    async fn specification(
        &self,
        namespace: &Namespace,
    ) -> Result<Option<CollectionSpecification>, Error> {
        let mut found = self
            .client
            .database(namespace.db())
            .list_collections()
            .filter(doc! { "name": namespace.collection() })
            .await?;
        found.try_next().await
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

fn is_plain(found: &CollectionSpecification) -> bool {
    matches!(found.collection_type, CollectionType::Collection) && found.options.collation.is_none()
}

fn has_images(found: &CollectionSpecification) -> bool {
    let images = found.options.change_stream_pre_and_post_images.as_ref();
    images.is_some_and(|images| images.enabled)
}

fn answer(outcome: Result<(), Error>) -> Result<Images, StoreError> {
    let Err(error) = outcome else {
        return Ok(Images::On);
    };
    match code(&error) {
        // Unauthorized
        Some(13) => Ok(Images::NotPermitted),
        // An option that the server does not know, or that does not fit; a command it lacks.
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
