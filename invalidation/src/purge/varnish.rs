//! Varnish with vmod xkey: one PURGE request with the surrogate keys in a header, at each node; 200 means
//! done (`infra/varnish/freshet.vcl`).

use std::time::Duration;

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use reqwest::header::HeaderValue;
use reqwest::{Client, Method, StatusCode, Url};

use super::port::{PurgeError, Purger};

/// One Varnish node.
#[derive(Clone, Debug)]
pub struct VarnishSettings {
    /// Its address, `http://host:port/`.
    pub url: String,
    /// What the node wants to see before it purges; empty: nothing.
    pub secret: String,
    /// The longest a purge may take, milliseconds.
    pub request_ms_max: u64,
}

/// The adapter: one keep-alive client per node.
pub struct Varnish {
    name: String,
    url: Url,
    method: Method,
    secret: HeaderValue,
    client: Client,
}

/// The settings do not make a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a Varnish node: {0}")]
pub struct VarnishError(String);

impl Varnish {
    /// A node. Connects with the first purge.
    ///
    /// # Errors
    /// The address or the secret cannot be put into a request.
    pub fn new(settings: &VarnishSettings) -> Result<Varnish, VarnishError> {
        let wrong = |what: &dyn std::fmt::Display| VarnishError(what.to_string());
        let url = Url::parse(&settings.url).map_err(|e| wrong(&e))?;
        let mut secret = HeaderValue::from_str(&settings.secret).map_err(|e| wrong(&e))?;
        secret.set_sensitive(true);
        let client = Client::builder()
            .timeout(Duration::from_millis(settings.request_ms_max))
            .connect_timeout(Duration::from_millis(settings.request_ms_max))
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .build()
            .map_err(|e| wrong(&e))?;
        Ok(Varnish {
            name: url.authority().to_owned(),
            url,
            method: Method::from_bytes(b"PURGE").map_err(|e| wrong(&e))?,
            secret,
            client,
        })
    }
}

#[async_trait]
impl Purger for Varnish {
    fn name(&self) -> &str {
        &self.name
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
        let unreachable =
            |error: reqwest::Error| PurgeError::Unreachable(error.without_url().to_string());
        let response = self
            .client
            .request(self.method.clone(), self.url.clone())
            .header("xkey-purge", list.join(" "))
            .header("freshet-purge-secret", self.secret.clone())
            .send()
            .await
            .map_err(unreachable)?;
        let status = response.status();
        // Read to the end, so that the connection can be used again.
        response.bytes().await.map_err(unreachable)?;
        match status {
            StatusCode::OK => Ok(()),
            other => Err(PurgeError::Refused(other.as_u16())),
        }
    }
}
