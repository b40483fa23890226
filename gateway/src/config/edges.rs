//! The caches in front: what each kind needs, and what does not belong to it.

use std::cell::RefCell;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::reader::Reader;
use super::units::{Setting, choice};

choice! {
    /// The kind of cache in front.
    EdgeKind {
        /// Varnish with the xkey module.
        Varnish = "varnish",
        /// A Fastly service.
        Fastly = "fastly",
        /// A Cloudflare zone.
        Cloudflare = "cloudflare",
        /// Akamai's Fast Purge.
        Akamai = "akamai",
        /// Anything that takes a list of keys.
        Webhook = "webhook",
    }
}

choice! {
    /// How a webhook knows who calls.
    WebhookAuth {
        /// `Authorization: Bearer <secret>`.
        Bearer = "bearer",
        /// `Freshet-Signature: sha256=<HMAC of the body>`.
        Hmac = "hmac",
    }
}

choice! {
    /// Which of Akamai's networks.
    AkamaiNetwork {
        /// What the world sees.
        Production = "production",
        /// What is tried out.
        Staging = "staging",
    }
}

/// Where an edge is purged: its kind, URL, and the part of an API that is ours.
pub(super) type Purged = (EdgeKind, String, String);

/// A cache in front of the gateway.
#[derive(Clone, Debug)]
pub struct Edge {
    /// Its kind.
    pub kind: EdgeKind,
    /// Its nodes, each of which is purged, or its API.
    pub urls: Vec<String>,
    /// What it knows us by.
    pub secret: Option<SecretString>,
    /// Fastly's service.
    pub service: String,
    /// Cloudflare's zone.
    pub zone: String,
    /// Akamai's network.
    pub network: AkamaiNetwork,
    /// Akamai's client token.
    pub client_token: Option<SecretString>,
    /// Akamai's access token.
    pub access_token: Option<SecretString>,
    /// How a webhook knows us.
    pub auth: WebhookAuth,
    /// The most keys in one call of a webhook.
    pub keys_max: Option<u64>,
    /// How long purges wait for others to go with them.
    pub coalesce: Option<Duration>,
}

/// Longer than this and purges would be late rather than few.
const COALESCE_MAX: Duration = Duration::from_secs(30);

impl Edge {
    /// `before`: where the edges that were read before are purged.
    pub(super) fn read(r: &mut Reader<'_>, before: &RefCell<Vec<Purged>>) -> Edge {
        let kind = r.get("kind", EdgeKind::Varnish, "The kind of cache.");
        let urls: Option<Vec<String>> = r.optional("urls", "Its nodes, \"http://host:port\", every one of which is purged; the API of a CDN: Akamai's host for your client, for the others only where it is not the usual one.");
        let secret = r.optional("secret", "What it knows the gateway by: the purge secret of Varnish, the API token of Fastly (scope purge_select) or Cloudflare (permission Cache Purge), the client secret of Akamai, the token or signing key of a webhook.");
        let service = r.optional("service", "The id of the Fastly service.");
        let zone = r.optional("zone", "The id of the Cloudflare zone.");
        let network = r.optional("network", "Akamai's network; without it \"production\".");
        let client_token = r.optional("client_token", "The client token of the Akamai API client.");
        let access_token = r.optional("access_token", "The access token of the Akamai API client.");
        let auth = r.optional(
            "auth",
            "How a webhook is shown the secret; without it \"bearer\".",
        );
        let keys_max = r.optional(
            "keys_max",
            "The most keys in one call of a webhook, 1 to 10000; without it 256.",
        );
        let coalesce = r.optional("coalesce", "How long purges wait for others to go with them, at most 30s; without it what the kind of cache allows (2ms for Varnish, 50ms for Fastly and webhooks, 250ms for Cloudflare, 1s for Akamai).");
        // An empty one is none.
        let filled = |id: Option<String>| id.filter(|id| !id.is_empty());
        let (service, zone) = (filled(service), filled(zone));
        let given = [
            ("service", service.is_some(), EdgeKind::Fastly),
            ("zone", zone.is_some(), EdgeKind::Cloudflare),
            ("network", network.is_some(), EdgeKind::Akamai),
            ("client_token", client_token.is_some(), EdgeKind::Akamai),
            ("access_token", access_token.is_some(), EdgeKind::Akamai),
            ("auth", auth.is_some(), EdgeKind::Webhook),
            ("keys_max", keys_max.is_some(), EdgeKind::Webhook),
        ];
        fitting(r, kind, &given);
        let edge = Edge {
            kind,
            urls: urls.unwrap_or_else(|| usual(kind)),
            secret,
            service: service.unwrap_or_default(),
            zone: zone.unwrap_or_default(),
            network: network.unwrap_or(AkamaiNetwork::Production),
            client_token,
            access_token,
            auth: auth.unwrap_or(WebhookAuth::Bearer),
            keys_max,
            coalesce,
        };
        edge.check(r);
        edge.check_once(r, &mut before.borrow_mut());
        edge
    }

    /// One and the same cache would be purged twice, and shown once.
    fn check_once(&self, r: &mut Reader<'_>, before: &mut Vec<Purged>) {
        let mut again = false;
        for url in &self.urls {
            let url = url.trim_end_matches('/').to_owned();
            let purged = (self.kind, url, self.part());
            again |= before.contains(&purged);
            before.push(purged);
        }
        if again {
            let what = "the edge is purged already: by `urls` here or in an `edge` before";
            r.wrong("urls", what);
        }
    }

    /// What one API purges for us, among other things.
    fn part(&self) -> String {
        match self.kind {
            EdgeKind::Fastly => self.service.clone(),
            EdgeKind::Cloudflare => self.zone.clone(),
            EdgeKind::Akamai => self.network.show(),
            EdgeKind::Varnish | EdgeKind::Webhook => String::new(),
        }
    }

    fn check(&self, r: &mut Reader<'_>) {
        let one = !matches!(self.kind, EdgeKind::Varnish | EdgeKind::Webhook);
        if self.urls.is_empty() {
            r.missing("urls", "`urls` is missing: where the edge is purged");
        } else if one && self.urls.len() > 1 {
            r.wrong("urls", "`urls` must name one API for this kind of edge");
        }
        for url in &self.urls {
            check_url(r, url);
        }
        let secret = self.secret.as_ref().map(ExposeSecret::expose_secret);
        if secret.is_some_and(|secret| secret.chars().any(char::is_control)) {
            r.wrong("secret", "`secret` must be one line of text");
        }
        if self.kind != EdgeKind::Varnish && self.secret.is_none() {
            r.missing("secret", "`secret` is missing: this kind of edge needs one");
        }
        let id = |id: &str| id.bytes().all(|b| b.is_ascii_alphanumeric());
        for (name, value) in [("service", &self.service), ("zone", &self.zone)] {
            if !id(value) {
                r.wrong(name, format!("`{name}` must be letters and digits"));
            }
        }
        if self
            .keys_max
            .is_some_and(|max| !(1..=10_000).contains(&max))
        {
            r.wrong("keys_max", "`keys_max` must be from 1 to 10000");
        }
        if self.coalesce.is_some_and(|wait| wait > COALESCE_MAX) {
            r.wrong("coalesce", "`coalesce` must be at most 30s");
        }
    }
}

fn check_url(r: &mut Reader<'_>, url: &str) {
    let parsed = url.parse::<http::Uri>().ok();
    let is_http = parsed.as_ref().is_some_and(|uri| {
        uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if !is_http {
        let wrong = format!("{url:?} is not a URL such as \"http://127.0.0.1:6081\"");
        return r.wrong("urls", wrong);
    }
    if url.contains(['@', '#']) {
        // Not quoted: it may hold a password.
        r.wrong(
            "urls",
            "a URL in `urls` must have no user, password or fragment",
        );
    }
}

/// What must be given for this kind, and what is for another.
fn fitting(r: &mut Reader<'_>, kind: EdgeKind, given: &[(&str, bool, EdgeKind)]) {
    const NEEDED: [&str; 4] = ["service", "zone", "client_token", "access_token"];
    for (name, given, of) in given {
        if *of == kind && !given && NEEDED.contains(name) {
            r.missing(name, format!("`{name}` is missing for this kind of edge"));
        }
        if *of != kind && *given {
            r.wrong(
                name,
                format!("`{name}` does not belong to this kind of edge"),
            );
        }
    }
}

/// Where a kind of edge is purged for everybody.
fn usual(kind: EdgeKind) -> Vec<String> {
    match kind {
        EdgeKind::Fastly => vec!["https://api.fastly.com".to_owned()],
        EdgeKind::Cloudflare => vec!["https://api.cloudflare.com".to_owned()],
        EdgeKind::Varnish | EdgeKind::Akamai | EdgeKind::Webhook => Vec::new(),
    }
}
