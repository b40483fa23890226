//! How long it takes until answers are cached again, and until clients trust caches again.

use std::time::Duration;

use freshet_core::consistency::Held;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, HeaderName};
use serde::Serialize;

use super::browser::Answer;
use super::http::Ask;
use super::universe::{DATABASE, PICTURED, Place, STILL};
use super::world::World;

/// Between two looks.
const POLL: Duration = Duration::from_millis(100);
/// A client with Δ at this bound is to trust the sketch again.
const DELTA_MS: u64 = 20_000;

/// Seconds from the end of a fault; `None`: not within the limit.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Recovery {
    /// Until each gateway's answer may be cached, and each Varnish node hands out a copy.
    pub(super) seconds_until_caching: Option<f64>,
    /// Until, beside that, the sketch lists single keys, and its age and the purges' delay are within a Δ of 20 s.
    pub(super) seconds_until_trusted: Option<f64>,
}

impl World {
    /// Waits until answers are cached again, and then until caches are trusted; each no longer than its limit.
    pub(super) async fn recover(&self, caching: Duration, trusted: Duration) -> Recovery {
        let began = self.load.clock.us();
        let passed = || Duration::from_micros(self.load.clock.us() - began);
        let until_caching = until(caching, async || self.is_caching().await);
        let is_caching = until_caching.await.is_some();
        let seconds_until_caching = is_caching.then(|| passed().as_secs_f64());
        let until_trusted = until(trusted, async || is_caching && self.is_trusted().await);
        let is_trusted = until_trusted.await.is_some();
        if !is_trusted {
            self.say_why().await;
        }
        Recovery {
            seconds_until_caching,
            seconds_until_trusted: is_trusted.then(|| passed().as_secs_f64()),
        }
    }

    async fn is_caching(&self) -> bool {
        for number in STILL {
            let collection = PICTURED;
            let place = Place { collection, number };
            if !self.is_cached(&place.path()).await {
                return false;
            }
        }
        true
    }

    async fn is_cached(&self, path: &str) -> bool {
        for gateway in &self.gateways {
            let url = format!("http://127.0.0.1:{}{path}", gateway.node.port());
            // Past the gateway's own cache: it has to read, to register and to settle.
            if !self
                .get(url, Some("no-cache"))
                .await
                .is_some_and(|answer| is_cacheable(&answer))
            {
                return false;
            }
        }
        for edge in &self.edges {
            let hit = |answer: Answer| {
                let name = HeaderName::from_static("cache-status");
                answer.header(&name).contains("varnish; hit")
            };
            if !self
                .get(format!("{}{path}", edge.url), None)
                .await
                .is_some_and(hit)
            {
                return false;
            }
        }
        true
    }

    async fn is_trusted(&self) -> bool {
        for gateway in &self.gateways {
            let url = format!(
                "http://127.0.0.1:{}/v1/{DATABASE}/_sketch",
                gateway.node.port()
            );
            let sent = self.load.now();
            let answer = self.get(url, Some("no-cache")).await;
            let Some(held) = answer.and_then(|answer| Held::read(&answer.body, sent).ok()) else {
                return false;
            };
            let bound = held.edge_bound_ms(DELTA_MS);
            let young = bound.is_some_and(|bound| held.age_ms(self.load.now()) < bound);
            if held.saturated() || !young {
                return false;
            }
        }
        true
    }

    /// What gateways and workers know of it.
    async fn say_why(&self) {
        for program in self.programs() {
            let url = format!("http://127.0.0.1:{}/readyz", program.node.port());
            let ready = self.get(url, None).await.map(|answer| answer.body);
            eprintln!("not trusted: {}: {ready:?}", program.name);
        }
    }

    async fn get(&self, url: String, control: Option<&str>) -> Option<Answer> {
        let headers: Vec<_> = control
            .map(|control| (CACHE_CONTROL, control.to_owned()))
            .into_iter()
            .collect();
        let asked = self.load.http.send(Ask::get(url, &headers));
        match tokio::time::timeout(Duration::from_secs(2), asked).await {
            Ok(Ok((StatusCode::OK, answer))) => Some(answer),
            _ => None,
        }
    }
}

/// Waits until it is so; `None` when it is not within the limit.
async fn until(limit: Duration, is_so: impl AsyncFn() -> bool) -> Option<()> {
    let waiting = async {
        while !is_so().await {
            tokio::time::sleep(POLL).await;
        }
    };
    tokio::time::timeout(limit, waiting).await.ok()
}

fn is_cacheable(answer: &Answer) -> bool {
    let control = answer.header(&CACHE_CONTROL);
    !control.contains("no-store") && !control.contains("max-age=0")
}
