//! What is particular to the webhook: who calls is known by a token or by a signature of the body.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::cdn::{list, of_cache_control};
use super::http::{Reply, Request};

pub const TOKEN: &str = "webhook-token";
pub const SECRET: &str = "webhook-secret";

pub fn lifetime(reply: &Reply) -> Option<u64> {
    (reply.status == 200).then(|| of_cache_control(reply.header("cache-control")))?
}

pub fn purge(request: &Request) -> Result<(Vec<String>, Reply), Reply> {
    let bearer = request.header("authorization") == format!("Bearer {TOKEN}");
    if !bearer && !is_signed(request) {
        return Err(Reply::new(401, ""));
    }
    let keys = list(&request.body, "keys").ok_or(Reply::new(400, ""))?;
    Ok((keys, Reply::new(204, "")))
}

fn is_signed(request: &Request) -> bool {
    let hex = request.header("freshet-signature").strip_prefix("sha256=");
    let digits = hex.unwrap_or("").as_bytes().chunks(2);
    let signature: Vec<u8> = digits
        .filter_map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect();
    let mac: Hmac<Sha256> = Hmac::new_from_slice(SECRET.as_bytes()).expect("any key");
    mac.chain_update(&request.body)
        .verify_slice(&signature)
        .is_ok()
}
