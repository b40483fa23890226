//! What is particular to Akamai: `Edge-Control` before all, signed requests, a limit in bytes, an answer before the deed.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use freshet_core::time::Clock;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::cdn::{Cdn, list, of_cache_control, seconds};
use super::http::{Reply, Request};
use crate::conformance::SystemClock;

pub const CLIENT_TOKEN: &str = "akab-client";
pub const ACCESS_TOKEN: &str = "akab-access";
pub const SECRET: &str = "akamai-secret=";
const BODY_BYTES_MAX: usize = 50_000;

pub fn lifetime(reply: &Reply) -> Option<u64> {
    let own = reply.header("edge-control");
    if reply.status != 200 || own.contains("no-store") {
        return None;
    }
    seconds(own, "cache-maxage").or_else(|| of_cache_control(reply.header("cache-control")))
}

pub fn purge(request: &Request, cdn: &Cdn) -> Result<(Vec<String>, Reply), Reply> {
    let problem = |status| Reply::new(status, format!("{{\"httpStatus\":{status}}}"));
    if request.body.len() > BODY_BYTES_MAX {
        return Err(problem(413));
    }
    if request.method != "POST" || request.target != "/ccu/v3/delete/tag/production" {
        return Err(problem(404));
    }
    if !is_signed(request, cdn) {
        return Err(problem(401));
    }
    let keys = list(&request.body, "objects").ok_or(problem(400))?;
    let body = serde_json::json!({
        "httpStatus": 201,
        "purgeId": "e535071c-26b2-11e7-94d7-276f2f54d938",
        "estimatedSeconds": cdn.spread.lock().as_millis().div_ceil(1000) as u64,
        "detail": "Request accepted",
    });
    Ok((keys, Reply::new(201, body.to_string())))
}

/// The signature, computed from the other side; times half a minute off and nonces that were seen are refused.
fn is_signed(request: &Request, cdn: &Cdn) -> bool {
    let header = request.header("authorization");
    let Some((claim, signature)) = header.split_once("signature=") else {
        return false;
    };
    let fields = claim.trim_start_matches("EG1-HMAC-SHA256 ").split(';');
    let fields: HashMap<&str, &str> = fields.filter_map(|field| field.split_once('=')).collect();
    let of = |name| fields.get(name).copied().unwrap_or("");
    let time = of("timestamp");
    let new = cdn.nonces.lock().insert(of("nonce").to_owned());
    if of("client_token") != CLIENT_TOKEN || of("access_token") != ACCESS_TOKEN || !new {
        return false;
    }
    if !is_now(time) {
        return false;
    }
    let content = STANDARD.encode(Sha256::digest(&request.body));
    let host = request.header("host");
    let data = ["POST", "http", host, &request.target, "", &content, claim].join("\t");
    let key = mac(SECRET, time);
    mac(&key, &data) == signature
}

fn mac(key: &str, data: &str) -> String {
    let mac: Hmac<Sha256> = Hmac::new_from_slice(key.as_bytes()).expect("any key");
    STANDARD.encode(mac.chain_update(data.as_bytes()).finalize().into_bytes())
}

/// The tests' clock stands still on the wall but for the milliseconds that they take.
fn is_now(time: &str) -> bool {
    let (date, clock) = time.split_at_checked(8).unwrap_or(("", ""));
    let whole = format!("{}-{}-{}{}", &date[..4], &date[4..6], &date[6..], clock);
    let whole = whole.replace("+0000", "Z");
    let now = SystemClock::new().wall_ms();
    bson::DateTime::parse_rfc3339_str(whole).is_ok_and(|then| {
        let then = u64::try_from(then.timestamp_millis()).expect("after 1970");
        then.abs_diff(now) < 30_000
    })
}
