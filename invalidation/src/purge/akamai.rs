//! Akamai: Fast Purge v3, deletion by cache tag, for a whole network.
//!
//! Sources: `techdocs.akamai.com/purge-cache`: `POST /ccu/v3/delete/tag/{network}`, bodies of at most 50,000 bytes (413),
//! 100 requests in a burst and 50 a second, 5,000 tags in a burst and 500 a minute (429, «wait five seconds»); the
//! answer is 201, at once, with the seconds that the purge will take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use freshet_core::time::Clock;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE};
use reqwest::{Client, Url};
use serde_json::Value;

use super::api::{self, EdgeError};
use super::edgegrid::{Credentials, Signed, timestamp};
use super::port::{PurgeError, Purger};

/// An Akamai account's API client.
#[derive(Clone, Debug)]
pub struct AkamaiSettings {
    /// The API client's host, `https://akab-….luna.akamaiapis.net`.
    pub url: String,
    /// `production` or `staging`.
    pub network: String,
    /// The client's token.
    pub client_token: String,
    /// The client's secret.
    pub client_secret: String,
    /// The access token.
    pub access_token: String,
    /// How long orders wait for company, milliseconds; none: [`Akamai::COALESCE_MS`].
    pub coalesce_ms: Option<u64>,
    /// The longest a request may take, milliseconds.
    pub request_ms_max: u64,
    /// Sets the numbers that requests carry apart from those of other processes.
    pub seed: u64,
}

/// The adapter.
pub struct Akamai {
    name: String,
    url: Url,
    credentials: Credentials,
    coalesce_ms: u64,
    client: Client,
    clock: Arc<dyn Clock>,
    seed: u64,
    requests: AtomicU64,
}

/// What a purge takes where the answer does not say.
const ESTIMATE_S: u64 = 5;
/// The longest estimate that is waited for.
const ESTIMATE_S_MAX: u64 = 30;

impl Akamai {
    /// Tags are scarce, 500 a minute: what changes within a second goes once.
    pub const COALESCE_MS: u64 = 1_000;
    /// Tags of 37 bytes in a body of 50,000, and a fifth of the burst.
    pub const KEYS_MAX: usize = 1_000;

    /// An API client.
    ///
    /// # Errors
    /// The settings cannot be put into a request.
    pub fn new(settings: &AkamaiSettings, clock: Arc<dyn Clock>) -> Result<Akamai, EdgeError> {
        let path = format!("/ccu/v3/delete/tag/{}", settings.network);
        let url = api::address(&settings.url, &path)?;
        Ok(Akamai {
            name: format!("akamai/{}", settings.network),
            url,
            credentials: Credentials::new(
                &settings.client_token,
                &settings.access_token,
                &settings.client_secret,
            )?,
            coalesce_ms: settings.coalesce_ms.unwrap_or(Akamai::COALESCE_MS),
            client: api::client(settings.request_ms_max)?,
            clock,
            seed: settings.seed,
            requests: AtomicU64::new(0),
        })
    }

    fn authorization(&self, body: &str) -> String {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let nonce = format!("{:016x}-{number:x}", self.seed);
        let post = Signed {
            scheme: self.url.scheme(),
            host: self.url.authority(),
            path: self.url.path(),
            body: body.as_bytes(),
        };
        let time = timestamp(self.clock.wall_ms());
        self.credentials.authorization(&post, &time, &nonce)
    }
}

#[async_trait]
impl Purger for Akamai {
    fn name(&self) -> &str {
        &self.name
    }

    fn keys_max(&self) -> usize {
        Akamai::KEYS_MAX
    }

    fn coalesce_ms(&self) -> u64 {
        self.coalesce_ms
    }

    fn purge_ms(&self) -> u64 {
        ESTIMATE_S * 1000
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        if keys.is_empty() {
            return Ok(());
        }
        let body = api::body("objects", keys);
        let authorization = api::secret(&self.authorization(&body))
            .map_err(|_| PurgeError::Unconfirmed("it cannot be asked"))?;
        let request = self
            .client
            .post(self.url.clone())
            .header(AUTHORIZATION, authorization)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let answer: Value = serde_json::from_slice(&api::send(request).await?).unwrap_or_default();
        if answer["httpStatus"] != 201 || !answer["purgeId"].is_string() {
            return Err(PurgeError::Unconfirmed("its answer has no purge id"));
        }
        // Accepted is not done.
        let estimate_s = answer["estimatedSeconds"].as_u64().unwrap_or(ESTIMATE_S);
        tokio::time::sleep(Duration::from_secs(estimate_s.min(ESTIMATE_S_MAX))).await;
        Ok(())
    }
}
