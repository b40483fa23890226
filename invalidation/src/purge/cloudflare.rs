//! Cloudflare: purge by cache tag, for the whole zone.
//!
//! Sources: `developers.cloudflare.com/cache/how-to/purge-cache`: at most 100 tags a request, on all plans; requests
//! are limited per account (Free 5 a minute, Pro 5 a second, Business 10, Enterprise 50), more are 429. The answer is
//! the API's envelope, whose `success` counts (`developers.cloudflare.com/api`).

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use serde_json::Value;

use super::api::{self, EdgeError};
use super::port::{PurgeError, Purger};

/// A Cloudflare zone.
#[derive(Clone, Debug)]
pub struct CloudflareSettings {
    /// The API, `https://api.cloudflare.com`.
    pub url: String,
    /// The zone's id.
    pub zone: String,
    /// An API token with the permission Cache Purge.
    pub token: String,
    /// How long orders wait for company, milliseconds; none: [`Cloudflare::COALESCE_MS`].
    pub coalesce_ms: Option<u64>,
    /// The longest a purge may take, milliseconds.
    pub request_ms_max: u64,
}

/// The adapter.
pub struct Cloudflare {
    name: String,
    url: Url,
    token: HeaderValue,
    coalesce_ms: u64,
    client: Client,
}

impl Cloudflare {
    /// What the plan Pro allows, five requests a second, with a little to spare.
    pub const COALESCE_MS: u64 = 250;
    /// Tags in one request.
    pub const KEYS_MAX: usize = 100;

    /// A zone.
    ///
    /// # Errors
    /// The settings cannot be put into a request.
    pub fn new(settings: &CloudflareSettings) -> Result<Cloudflare, EdgeError> {
        let zone = &settings.zone;
        if zone.is_empty() || !zone.bytes().all(|b| b.is_ascii_alphanumeric()) {
            return Err(EdgeError::new("a zone id has letters and digits only"));
        }
        let path = format!("/client/v4/zones/{zone}/purge_cache");
        Ok(Cloudflare {
            name: format!("cloudflare/{zone}"),
            url: api::address(&settings.url, &path)?,
            token: api::secret(&format!("Bearer {}", settings.token))?,
            coalesce_ms: settings.coalesce_ms.unwrap_or(Cloudflare::COALESCE_MS),
            client: api::client(settings.request_ms_max)?,
        })
    }
}

#[async_trait]
impl Purger for Cloudflare {
    fn name(&self) -> &str {
        &self.name
    }

    fn keys_max(&self) -> usize {
        Cloudflare::KEYS_MAX
    }

    fn coalesce_ms(&self) -> u64 {
        self.coalesce_ms
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        // An empty list of tags would be refused; a body without one purges something else.
        if keys.is_empty() {
            return Ok(());
        }
        let request = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, self.token.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(api::body("tags", keys));
        let answer: Value = serde_json::from_slice(&api::send(request).await?).unwrap_or_default();
        match answer["success"] == true {
            true => Ok(()),
            false => Err(PurgeError::Unconfirmed("its answer is not a success")),
        }
    }
}
