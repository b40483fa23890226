//! What is particular to Cloudflare: its targeted field before all, batches of 100, success inside the answer.

use super::cdn::{list, of_cache_control, seconds};
use super::http::{Reply, Request};

pub const TOKEN: &str = "cloudflare-token";
pub const ZONE: &str = "023e105f4ecef8ad9ca31a8372d0c353";
pub const KEYS_MAX: usize = 100;

/// Targeted fields in Cloudflare's order; the first that is there decides alone (RFC 9213 §2.2).
pub fn lifetime(reply: &Reply) -> Option<u64> {
    if reply.status != 200 {
        return None;
    }
    let targeted = ["cloudflare-cdn-cache-control", "cdn-cache-control"];
    let targeted = targeted.map(|name| reply.header(name));
    match targeted.into_iter().find(|value| !value.is_empty()) {
        Some(value) if value.contains("no-store") || value.contains("private") => None,
        Some(value) => seconds(value, "max-age"),
        None => of_cache_control(reply.header("cache-control")),
    }
}

pub fn purge(request: &Request) -> Result<(Vec<String>, Reply), Reply> {
    let answer = |status, success| {
        let body = serde_json::json!({ "success": success, "errors": [], "messages": [] });
        Reply::new(status, body.to_string())
    };
    if request.header("authorization") != format!("Bearer {TOKEN}") {
        return Err(answer(403, false));
    }
    let path = format!("/client/v4/zones/{ZONE}/purge_cache");
    if request.method != "POST" || request.target != path {
        return Err(answer(404, false));
    }
    let keys = list(&request.body, "tags").ok_or(answer(400, false))?;
    match keys.len() > KEYS_MAX {
        true => Err(answer(400, false)),
        false => Ok((keys, answer(200, true))),
    }
}
