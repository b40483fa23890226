//! Configured edges → who is purged, and in whose spellings headers are written (`docs/edges.md`).

use std::sync::Arc;

use anyhow::Context;
use freshet_core::freshness;
use freshet_core::time::Clock;
use freshet_invalidation::purge::port::Purger;
use freshet_invalidation::purge::{
    self, Akamai, AkamaiSettings, Cloudflare, CloudflareSettings, Fastly, FastlySettings, Varnish,
    VarnishSettings, Webhook, WebhookSettings,
};
use secrecy::{ExposeSecret, SecretString};

use crate::config::settings::{AkamaiNetwork, Edge, EdgeKind, WebhookAuth};

/// The longest a purge of a node near by may take, in milliseconds.
const NODE_MS_MAX: u64 = 1_000;
/// The longest a request to a CDN's API may take, in milliseconds.
const API_MS_MAX: u64 = 10_000;

/// How much later an inner level of a CDN hears of a purge than the outer one, in milliseconds.
const LAYERS_MS: u64 = 2_000;

/// Every node of every edge.
///
/// # Errors
/// What cannot be put into a request.
pub fn purgers(
    edges: &[Edge],
    clock: &Arc<dyn Clock>,
    seed: u64,
) -> anyhow::Result<Vec<Arc<dyn Purger>>> {
    let mut purgers = Vec::new();
    for edge in edges {
        for url in &edge.urls {
            let purger = purger(edge, url, clock, seed).with_context(|| format!("edge {url}"))?;
            purgers.push(purger);
        }
    }
    Ok(purgers)
}

/// The spellings that the edges read.
#[must_use]
pub fn dialects(edges: &[Edge]) -> Vec<freshness::Edge> {
    let mut dialects = Vec::new();
    for edge in edges {
        let dialect = match edge.kind {
            EdgeKind::Varnish => freshness::Edge::Varnish,
            EdgeKind::Fastly => freshness::Edge::Fastly,
            EdgeKind::Cloudflare => freshness::Edge::Cloudflare,
            EdgeKind::Akamai => freshness::Edge::Akamai,
            EdgeKind::Webhook => freshness::Edge::Webhook,
        };
        if !dialects.contains(&dialect) {
            dialects.push(dialect);
        }
    }
    dialects
}

/// The least time between a purge and its repeat, in milliseconds: a CDN's inner level may hear of a purge later than
/// the outer one, which refills from it meanwhile (Fastly on shielding: purge twice, two seconds apart).
#[must_use]
pub fn repeat_ms_min(edges: &[Edge]) -> u64 {
    let layered = edges.iter().any(|edge| edge.kind != EdgeKind::Varnish);
    if layered { LAYERS_MS } else { 0 }
}

fn purger(
    edge: &Edge,
    url: &str,
    clock: &Arc<dyn Clock>,
    seed: u64,
) -> Result<Arc<dyn Purger>, purge::EdgeError> {
    let url = url.to_owned();
    let secret = exposed(edge.secret.as_ref());
    let coalesce = edge.coalesce.map(|wait| wait.as_millis());
    let coalesce_ms = coalesce.map(|ms| u64::try_from(ms).unwrap_or(u64::MAX));
    Ok(match edge.kind {
        EdgeKind::Varnish => Arc::new(Varnish::new(&VarnishSettings {
            url,
            secret,
            coalesce_ms,
            request_ms_max: NODE_MS_MAX,
        })?),
        EdgeKind::Fastly => Arc::new(Fastly::new(&FastlySettings {
            url,
            service: edge.service.clone(),
            token: secret,
            coalesce_ms,
            request_ms_max: API_MS_MAX,
        })?),
        EdgeKind::Cloudflare => Arc::new(Cloudflare::new(&CloudflareSettings {
            url,
            zone: edge.zone.clone(),
            token: secret,
            coalesce_ms,
            request_ms_max: API_MS_MAX,
        })?),
        EdgeKind::Akamai => {
            let settings = AkamaiSettings {
                url,
                network: match edge.network {
                    AkamaiNetwork::Production => "production".to_owned(),
                    AkamaiNetwork::Staging => "staging".to_owned(),
                },
                client_token: exposed(edge.client_token.as_ref()),
                client_secret: secret,
                access_token: exposed(edge.access_token.as_ref()),
                coalesce_ms,
                request_ms_max: API_MS_MAX,
                seed,
            };
            Arc::new(Akamai::new(&settings, Arc::clone(clock))?)
        }
        EdgeKind::Webhook => Arc::new(Webhook::new(&WebhookSettings {
            url,
            auth: match edge.auth {
                WebhookAuth::Bearer => purge::WebhookAuth::Bearer(secret),
                WebhookAuth::Hmac => purge::WebhookAuth::Hmac(secret),
            },
            keys_max: edge.keys_max.and_then(|max| usize::try_from(max).ok()),
            coalesce_ms,
            request_ms_max: API_MS_MAX,
        })?),
    })
}

fn exposed(secret: Option<&SecretString>) -> String {
    secret.map_or_else(String::new, |secret| secret.expose_secret().to_owned())
}
