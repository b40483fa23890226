//! Fastly: one batch purge by surrogate key, hard, for the whole service.
//!
//! Sources: the batch endpoint and its 256 keys, `docs.rs/fastly-api` (`bulk_purge_tag`); a purge reaches all of the
//! network in some 150 ms; the token needs the scope `purge_select` (Fastly's documentation of purging).

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use serde_json::Value;

use super::api::{self, EdgeError};
use super::port::{PURGE_KEYS_MAX, PurgeError, Purger};

/// A Fastly service.
#[derive(Clone, Debug)]
pub struct FastlySettings {
    /// The API, `https://api.fastly.com`.
    pub url: String,
    /// The service's id.
    pub service: String,
    /// The API token.
    pub token: String,
    /// How long orders wait for company, milliseconds; none: [`Fastly::COALESCE_MS`].
    pub coalesce_ms: Option<u64>,
    /// The longest a purge may take, milliseconds.
    pub request_ms_max: u64,
}

/// The adapter.
pub struct Fastly {
    name: String,
    url: Url,
    token: HeaderValue,
    coalesce_ms: u64,
    client: Client,
}

impl Fastly {
    /// Purges are counted per account and hour: keys that change within so short a time share one.
    pub const COALESCE_MS: u64 = 50;

    /// A service.
    ///
    /// # Errors
    /// The settings cannot be put into a request.
    pub fn new(settings: &FastlySettings) -> Result<Fastly, EdgeError> {
        let service = &settings.service;
        if service.is_empty() || !service.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(EdgeError::new("a service id has letters and digits only"));
        }
        Ok(Fastly {
            name: format!("fastly/{service}"),
            url: api::address(&settings.url, &format!("/service/{service}/purge"))?,
            token: api::secret(&settings.token)?,
            coalesce_ms: settings.coalesce_ms.unwrap_or(Fastly::COALESCE_MS),
            client: api::client(settings.request_ms_max)?,
        })
    }
}

#[async_trait]
impl Purger for Fastly {
    fn name(&self) -> &str {
        &self.name
    }

    fn keys_max(&self) -> usize {
        PURGE_KEYS_MAX
    }

    fn coalesce_ms(&self) -> u64 {
        self.coalesce_ms
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        if keys.is_empty() {
            return Ok(());
        }
        let request = self
            .client
            .post(self.url.clone())
            .header("fastly-key", self.token.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(api::body("surrogate_keys", keys));
        let answer: Value = serde_json::from_slice(&api::send(request).await?).unwrap_or_default();
        // The answer gives the id of the purge of each key.
        match keys.iter().all(|key| answer[key.to_string()].is_string()) {
            true => Ok(()),
            false => Err(PurgeError::Unconfirmed("not every key is in its answer")),
        }
    }
}
