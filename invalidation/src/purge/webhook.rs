//! A purge as a webhook, for caches that have no adapter here: `{"keys":["r-…",…]}` by POST, with a bearer token or a
//! signature. Any 2xx says that everything with any of these keys is gone, from every node.

use async_trait::async_trait;
use freshet_core::freshness::SurrogateKey;
use hmac::{Hmac, KeyInit, Mac};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Client, Url};
use sha2::Sha256;

use super::api::{self, EdgeError};
use super::port::{PURGE_KEYS_MAX, PurgeError, Purger};

/// A webhook.
#[derive(Clone, Debug)]
pub struct WebhookSettings {
    /// Where to.
    pub url: String,
    /// How it knows us.
    pub auth: WebhookAuth,
    /// The most keys in one call; none: [`PURGE_KEYS_MAX`].
    pub keys_max: Option<usize>,
    /// How long orders wait for company, milliseconds; none: [`Webhook::COALESCE_MS`].
    pub coalesce_ms: Option<u64>,
    /// The longest a purge may take, milliseconds.
    pub request_ms_max: u64,
}

/// How a webhook knows that a purge comes from us.
#[derive(Clone, Debug)]
pub enum WebhookAuth {
    /// `Authorization: Bearer …`
    Bearer(String),
    /// `Freshet-Signature: sha256=…`, the HMAC-SHA256 of the body in hexadecimal digits. There is no time in it: a
    /// purge that is played again does no harm.
    Hmac(String),
}

/// The adapter.
pub struct Webhook {
    name: String,
    url: Url,
    auth: Auth,
    keys_max: usize,
    coalesce_ms: u64,
    client: Client,
}

enum Auth {
    Bearer(HeaderValue),
    Hmac(Hmac<Sha256>),
}

impl Webhook {
    /// Long enough for the keys of one write to go together.
    pub const COALESCE_MS: u64 = 50;

    /// A webhook.
    ///
    /// # Errors
    /// The settings cannot be put into a request.
    pub fn new(settings: &WebhookSettings) -> Result<Webhook, EdgeError> {
        let url = api::address(&settings.url, "")?;
        let auth = match &settings.auth {
            WebhookAuth::Bearer(token) => Auth::Bearer(api::secret(&format!("Bearer {token}"))?),
            WebhookAuth::Hmac(secret) => {
                Auth::Hmac(Hmac::new_from_slice(secret.as_bytes()).map_err(EdgeError::new)?)
            }
        };
        Ok(Webhook {
            name: format!("webhook/{}", url.authority()),
            url,
            auth,
            keys_max: settings.keys_max.unwrap_or(PURGE_KEYS_MAX).max(1),
            coalesce_ms: settings.coalesce_ms.unwrap_or(Webhook::COALESCE_MS),
            client: api::client(settings.request_ms_max)?,
        })
    }
}

#[async_trait]
impl Purger for Webhook {
    fn name(&self) -> &str {
        &self.name
    }

    fn keys_max(&self) -> usize {
        self.keys_max
    }

    fn coalesce_ms(&self) -> u64 {
        self.coalesce_ms
    }

    async fn purge(&self, keys: &[SurrogateKey]) -> Result<(), PurgeError> {
        if keys.is_empty() {
            return Ok(());
        }
        let body = api::body("keys", keys);
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json");
        let request = match &self.auth {
            Auth::Bearer(token) => request.header(AUTHORIZATION, token.clone()),
            Auth::Hmac(mac) => request.header("freshet-signature", signature(mac, &body)),
        };
        api::send(request.body(body)).await.map(|_| ())
    }
}

fn signature(mac: &Hmac<Sha256>, body: &str) -> String {
    let digest = mac
        .clone()
        .chain_update(body.as_bytes())
        .finalize()
        .into_bytes();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_4231() {
        // Test case 2 of RFC 4231 §4.3.
        let mac = Hmac::new_from_slice(b"Jefe").expect("any key");
        assert_eq!(
            signature(&mac, "what do ya want for nothing?"),
            "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
    }
}
