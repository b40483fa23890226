//! Varnish with vmod xkey: one PURGE request with the surrogate keys in a header, at each node; 200 means
//! done (`infra/varnish/freshet.vcl`).

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use reqwest::header::HeaderValue;
use reqwest::{Client, Method, Url};

use super::api::{self, EdgeError};
use super::port::{PurgeError, Purger};

/// One Varnish node.
#[derive(Clone, Debug)]
pub struct VarnishSettings {
    /// Its address, `http://host:port/`.
    pub url: String,
    /// What the node wants to see before it purges; empty: nothing.
    pub secret: String,
    /// How long orders wait for company, milliseconds; none: [`Varnish::COALESCE_MS`].
    pub coalesce_ms: Option<u64>,
    /// The longest a purge may take, milliseconds.
    pub request_ms_max: u64,
}

/// The adapter: one keep-alive client per node.
pub struct Varnish {
    name: String,
    url: Url,
    method: Method,
    secret: HeaderValue,
    coalesce_ms: u64,
    client: Client,
}

impl Varnish {
    /// A node near by takes as many purges as come: long enough for the keys of one batch of changes.
    pub const COALESCE_MS: u64 = 2;

    /// A node. Connects with the first purge.
    ///
    /// # Errors
    /// The address or the secret cannot be put into a request.
    pub fn new(settings: &VarnishSettings) -> Result<Varnish, EdgeError> {
        let url = api::address(&settings.url, "")?;
        Ok(Varnish {
            name: format!("varnish/{}", url.authority()),
            url,
            method: Method::from_bytes(b"PURGE").map_err(EdgeError::new)?,
            secret: api::secret(&settings.secret)?,
            coalesce_ms: settings.coalesce_ms.unwrap_or(Varnish::COALESCE_MS),
            client: api::client(settings.request_ms_max)?,
        })
    }
}

#[async_trait]
impl Purger for Varnish {
    fn name(&self) -> &str {
        &self.name
    }

    fn coalesce_ms(&self) -> u64 {
        self.coalesce_ms
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        // No key, no request: an empty list must not be understood as anything.
        for some in keys.chunks(KEYS_PER_REQUEST_MAX) {
            self.send(some).await?;
        }
        Ok(())
    }
}

/// Keys in one request: 35 bytes each, and Varnish refuses a header above 8 KiB (`http_req_hdr_len`).
const KEYS_PER_REQUEST_MAX: usize = 200;

impl Varnish {
    async fn send(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        let list: Vec<String> = keys.iter().map(SurrogateKey::to_string).collect();
        let request = self
            .client
            .request(self.method.clone(), self.url.clone())
            .header("xkey-purge", list.join(" "))
            .header("freshet-purge-secret", self.secret.clone());
        let answer = api::send(request).await?;
        // A cache without our policy may answer anything to PURGE, even 200.
        match answer.starts_with(b"{\"purged\":") {
            true => Ok(()),
            false => Err(PurgeError::Unconfirmed("its answer does not count copies")),
        }
    }
}
