//! EdgeGrid, how Akamai's APIs know who asks: an `Authorization` header whose signature covers method, address, body,
//! time and a number used once. Written here since there is no maintained crate for it.
//!
//! Source: the algorithm and its test vector as in Akamai's own client (`AkamaiOPEN-edgegrid-node`, `test/test.js`).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bson::DateTime;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::api::EdgeError;

/// An API client's credentials, as in an `.edgerc` file.
#[derive(Clone)]
pub(super) struct Credentials {
    client_token: String,
    access_token: String,
    /// Keyed with the client's secret.
    mac: Hmac<Sha256>,
}

/// What is signed of a POST.
pub(super) struct Signed<'a> {
    pub(super) scheme: &'a str,
    pub(super) host: &'a str,
    pub(super) path: &'a str,
    pub(super) body: &'a [u8],
}

impl Credentials {
    pub(super) fn new(client: &str, access: &str, secret: &str) -> Result<Credentials, EdgeError> {
        let plain = |token: &str| token.bytes().all(|b| b.is_ascii_graphic() && b != b';');
        if !plain(client) || !plain(access) {
            return Err(EdgeError::new("a token has no blanks and no semicolons"));
        }
        Ok(Credentials {
            client_token: client.to_owned(),
            access_token: access.to_owned(),
            mac: Hmac::new_from_slice(secret.as_bytes()).map_err(EdgeError::new)?,
        })
    }

    /// The `Authorization` of a POST at this time, with a number that no other request has.
    pub(super) fn authorization(&self, post: &Signed<'_>, timestamp: &str, nonce: &str) -> String {
        let claim = format!(
            "EG1-HMAC-SHA256 client_token={};access_token={};timestamp={timestamp};nonce={nonce};",
            self.client_token, self.access_token
        );
        let content = STANDARD.encode(Sha256::digest(post.body));
        // No headers are signed: their place stays empty.
        let data = format!(
            "POST\t{}\t{}\t{}\t\t{content}\t{claim}",
            post.scheme, post.host, post.path
        );
        let key = base64_mac(self.mac.clone(), timestamp.as_bytes());
        // Any length is a key: this cannot fail.
        let signature = Hmac::<Sha256>::new_from_slice(key.as_bytes())
            .map_or_else(|_| String::new(), |mac| base64_mac(mac, data.as_bytes()));
        format!("{claim}signature={signature}")
    }
}

fn base64_mac(mac: Hmac<Sha256>, data: &[u8]) -> String {
    STANDARD.encode(mac.chain_update(data).finalize().into_bytes())
}

/// `20140321T19:34:21+0000`
pub(super) fn timestamp(wall_ms: u64) -> String {
    let whole_ms = i64::try_from(wall_ms / 1000 * 1000).unwrap_or(i64::MAX);
    // Years with more than four digits have no such form.
    let text = DateTime::from_millis(whole_ms)
        .try_to_rfc3339_string()
        .unwrap_or_default();
    text.replace('-', "").replace('Z', "+0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_as_akamais_own_client_does() {
        let credentials = Credentials::new(
            "akab-client-token-xxx-xxxxxxxxxxxxxxxx",
            "akab-access-token-xxx-xxxxxxxxxxxxxxxx",
            "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx=",
        )
        .expect("valid");
        let post = Signed {
            scheme: "https",
            host: "akaa-baseurl-xxxxxxxxxxx-xxxxxxxxxxxxx.luna.akamaiapis.net",
            path: "/testapi/v1/t3",
            body: b"datadatadatadatadatadatadatadata",
        };
        let time = timestamp(1_395_430_461_999);
        assert_eq!(time, "20140321T19:34:21+0000");
        let header =
            credentials.authorization(&post, &time, "nonce-xx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
        assert_eq!(
            header,
            "EG1-HMAC-SHA256 client_token=akab-client-token-xxx-xxxxxxxxxxxxxxxx;\
             access_token=akab-access-token-xxx-xxxxxxxxxxxxxxxx;timestamp=20140321T19:34:21+0000;\
             nonce=nonce-xx-xxxx-xxxx-xxxx-xxxxxxxxxxxx;\
             signature=hXm4iCxtpN22m4cbZb4lVLW5rhX8Ca82vCFqXzSTPe4="
        );
        assert!(Credentials::new("a;b", "c", "d").is_err());
    }
}
