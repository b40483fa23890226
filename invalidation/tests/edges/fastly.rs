//! What is particular to Fastly: `Surrogate-Control` before all, a silent limit on `Surrogate-Key`, batches of 256.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::cdn::{list, seconds};
use super::http::{Reply, Request};

pub const TOKEN: &str = "fastly-token";
pub const SERVICE: &str = "SU1Z0isxPaozGVKXdv0eY";
pub const KEYS_MAX: usize = 256;
const HEADER_BYTES_MAX: usize = 16_384;
const KEY_BYTES_MAX: usize = 1_024;
/// What is kept where nothing says how long.
const DEFAULT_S: u64 = 3_600;

/// `private` and zero are obeyed; `no-cache`, and `no-store` beside a `max-age`, are not (http-tests/cache-tests).
pub fn lifetime(reply: &Reply) -> Option<u64> {
    if ![200, 203, 300, 301, 302, 404, 410].contains(&reply.status) {
        return None;
    }
    let cache_control = reply.header("cache-control");
    if cache_control.contains("private") {
        return None;
    }
    let own = seconds(reply.header("surrogate-control"), "max-age");
    own.or_else(|| seconds(cache_control, "s-maxage"))
        .or_else(|| seconds(cache_control, "max-age"))
        .or(Some(DEFAULT_S))
}

/// The key at which the header gets too long, and all after it, are ignored without a word.
pub fn tags(header: &str) -> HashSet<String> {
    let mut used = 0;
    let fits = |key: &&str| {
        used += key.len() + 1;
        used <= HEADER_BYTES_MAX + 1 && key.len() <= KEY_BYTES_MAX
    };
    let keys = header.split(' ').filter(|key| !key.is_empty());
    keys.take_while(fits).map(str::to_owned).collect()
}

pub fn purge(request: &Request) -> Result<(Vec<String>, Reply), Reply> {
    let problem = |status, text: &str| Reply::new(status, format!("{{\"msg\":{text:?}}}"));
    if request.header("fastly-key") != TOKEN {
        return Err(problem(401, "Provided credentials are missing or invalid"));
    }
    if request.method != "POST" || request.target != format!("/service/{SERVICE}/purge") {
        return Err(problem(404, "Record not found"));
    }
    let keys = list(&request.body, "surrogate_keys").ok_or(problem(400, "Bad request"))?;
    if keys.len() > KEYS_MAX {
        return Err(problem(400, "Too many surrogate keys"));
    }
    let ids: Map<String, Value> = keys
        .iter()
        .enumerate()
        .map(|(number, key)| (key.clone(), format!("108-1391560174-{number}").into()))
        .collect();
    Ok((keys, Reply::new(200, Value::Object(ids).to_string())))
}

#[test]
fn t7_t8_keys_beyond_the_header_are_lost_and_an_empty_header_has_none() {
    assert!(tags("").is_empty());
    let many: Vec<String> = (0..1_000).map(|i| format!("q-{i:032x}")).collect();
    let kept = tags(&many.join(" "));
    assert_eq!(kept.len(), 468, "16,384 bytes of 35 each");
    assert!(kept.contains(&many[467]) && !kept.contains(&many[468]));
}
