//! A stub of a CDN: a cache that reads lifetimes and tags as its dialect does, and an API that refuses what the real
//! one refuses. What is particular to a CDN's API is in its own file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::http::{Reply, Request, serve};
use super::{akamai, cloudflare, fastly, webhook};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Fastly,
    Cloudflare,
    Akamai,
    Webhook,
}

/// Fields that no CDN passes on.
const OWN_FIELDS: [&str; 5] = [
    "surrogate-control",
    "surrogate-key",
    "cloudflare-cdn-cache-control",
    "cache-tag",
    "edge-control",
];

/// A stored response and what it is tagged with.
#[derive(Clone)]
struct Stored {
    reply: Reply,
    tags: HashSet<String>,
}

type Store = Mutex<HashMap<String, Stored>>;

pub struct Cdn {
    dialect: Dialect,
    origin: u16,
    edge: Store,
    /// What Fastly calls a shield: where edges fetch from.
    shield: Option<Store>,
    /// Purges that have not got to the shield; `None`: they get there at once.
    late: Mutex<Option<Vec<HashSet<String>>>>,
    /// How many keys each purge that was carried out had.
    pub calls: Mutex<Vec<usize>>,
    down: AtomicBool,
    /// The API's next calls that it is too busy for, and for how long it says so, in seconds.
    busy: Mutex<Vec<u64>>,
    /// How long a purge takes after the API has answered.
    pub spread: Mutex<Duration>,
    pub nonces: Mutex<HashSet<String>>,
}

impl Cdn {
    /// Answers on a port of its own.
    pub async fn start(dialect: Dialect, origin: u16, shielded: bool) -> (u16, Arc<Cdn>) {
        let cdn = Arc::new(Cdn {
            dialect,
            origin,
            edge: Store::default(),
            shield: shielded.then(Store::default),
            late: Mutex::default(),
            calls: Mutex::default(),
            down: AtomicBool::new(false),
            busy: Mutex::default(),
            spread: Mutex::default(),
            nonces: Mutex::default(),
        });
        let serving = cdn.clone();
        let port = serve(move |request| {
            let cdn = serving.clone();
            async move {
                match request.method.as_str() {
                    "GET" => Some(cdn.get(&request.target).await.without(&OWN_FIELDS)),
                    _ => cdn.api(&request).await,
                }
            }
        })
        .await;
        (port, cdn)
    }

    /// The API closes connections without a word.
    pub fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The next calls are answered with 429 and so many seconds each.
    pub fn set_busy(&self, seconds: &[u64]) {
        *self.busy.lock() = seconds.iter().rev().copied().collect();
    }

    /// From now on purges reach the edge alone.
    pub fn hold_shield(&self) {
        *self.late.lock() = Some(Vec::new());
    }

    /// What was held back gets to the shield, and so does all that follows.
    pub fn release_shield(&self) {
        let late = self.late.lock().take().unwrap_or_default();
        let shield = self.shield.as_ref().expect("one");
        late.iter().for_each(|keys| drop_tagged(shield, keys));
    }

    /// Fastly, Cloudflare and Akamai look at nothing that the client says of caches (http-tests/cache-tests).
    async fn get(&self, target: &str) -> Reply {
        if let Some(stored) = self.edge.lock().get(target).cloned() {
            return stored.reply;
        }
        let held = self.shield.as_ref();
        let held = held.and_then(|shield| shield.lock().get(target).cloned());
        let stored = match held {
            Some(stored) => stored,
            None => {
                let reply = self.fetch(target).await;
                let Some(tags) = self.admits(&reply) else {
                    return reply;
                };
                let stored = Stored { reply, tags };
                if let Some(shield) = &self.shield {
                    shield.lock().insert(target.to_owned(), stored.clone());
                }
                stored
            }
        };
        self.edge.lock().insert(target.to_owned(), stored.clone());
        stored.reply
    }

    async fn fetch(&self, target: &str) -> Reply {
        let url = format!("http://127.0.0.1:{}{target}", self.origin);
        let response = reqwest::get(url).await.expect("the origin answers");
        let headers = response.headers().iter();
        let mut reply = Reply {
            status: response.status().as_u16(),
            headers: headers
                .map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned()))
                .filter(|(name, _)| name != "content-length")
                .collect(),
            body: String::new(),
        };
        reply.body = response.text().await.expect("a body");
        reply
    }

    /// The tags of a response that is kept; copies live longer than any test.
    fn admits(&self, reply: &Reply) -> Option<HashSet<String>> {
        let kept = match self.dialect {
            Dialect::Fastly => fastly::lifetime(reply),
            Dialect::Cloudflare => cloudflare::lifetime(reply),
            Dialect::Akamai => akamai::lifetime(reply),
            Dialect::Webhook => webhook::lifetime(reply),
        };
        if kept.unwrap_or(0) == 0 {
            return None;
        }
        Some(match self.dialect {
            Dialect::Fastly => fastly::tags(reply.header("surrogate-key")),
            Dialect::Cloudflare | Dialect::Webhook => listed(reply.header("cache-tag")),
            Dialect::Akamai => listed(reply.header("edge-cache-tag")),
        })
    }

    async fn api(self: &Arc<Cdn>, request: &Request) -> Option<Reply> {
        if self.down.load(Ordering::SeqCst) {
            return None;
        }
        if let Some(seconds) = self.busy.lock().pop() {
            return Some(Reply::new(429, "").with("retry-after", seconds));
        }
        let purged = match self.dialect {
            Dialect::Fastly => fastly::purge(request),
            Dialect::Cloudflare => cloudflare::purge(request),
            Dialect::Akamai => akamai::purge(request, self),
            Dialect::Webhook => webhook::purge(request),
        };
        Some(match purged {
            Ok((keys, reply)) => {
                self.purge(keys);
                reply
            }
            Err(refusal) => refusal,
        })
    }

    fn purge(self: &Arc<Cdn>, keys: Vec<String>) {
        self.calls.lock().push(keys.len());
        let keys: HashSet<String> = keys.into_iter().collect();
        let (cdn, spread) = (self.clone(), *self.spread.lock());
        if spread.is_zero() {
            return cdn.drop_everywhere(keys);
        }
        tokio::spawn(async move {
            tokio::time::sleep(spread).await;
            cdn.drop_everywhere(keys);
        });
    }

    fn drop_everywhere(&self, keys: HashSet<String>) {
        drop_tagged(&self.edge, &keys);
        match self.late.lock().as_mut() {
            Some(late) => late.push(keys),
            None => self
                .shield
                .iter()
                .for_each(|shield| drop_tagged(shield, &keys)),
        }
    }
}

fn drop_tagged(store: &Store, keys: &HashSet<String>) {
    store
        .lock()
        .retain(|_, stored| stored.tags.is_disjoint(keys));
}

/// T8: an empty header gives no tags.
fn listed(header: &str) -> HashSet<String> {
    let tags = header.split(',').map(str::trim);
    tags.filter(|tag| !tag.is_empty())
        .map(str::to_owned)
        .collect()
}

/// The seconds of a directive.
pub fn seconds(header: &str, directive: &str) -> Option<u64> {
    let values = header
        .split(',')
        .filter_map(|one| one.trim().split_once('='));
    let mut found = values.filter(|(name, _)| *name == directive);
    found.next()?.1.trim_end_matches('s').parse().ok()
}

/// `s-maxage`, else `max-age` (RFC 9111 §4.2.1), unless shared caches may not keep it.
pub fn of_cache_control(header: &str) -> Option<u64> {
    if header.contains("private") || header.contains("no-store") {
        return None;
    }
    seconds(header, "s-maxage").or_else(|| seconds(header, "max-age"))
}

/// The list of strings under `name` in a JSON body, if there is at least one.
pub fn list(body: &[u8], name: &str) -> Option<Vec<String>> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let keys: Vec<String> = serde_json::from_value(body[name].clone()).ok()?;
    (!keys.is_empty()).then_some(keys)
}
