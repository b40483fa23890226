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
const DELTA_MS: u64 = 15_000;

/// Seconds from the end of a fault; `None`: not within the limit.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Recovery {
    /// Until each gateway's answer may be cached, and each Varnish node hands out a copy.
    pub(super) seconds_until_caching: Option<f64>,
    /// Until, beside that, the sketch lists single keys, and its age and the purges' delay are within a Δ of 15 s.
    pub(super) seconds_until_trusted: Option<f64>,
}

impl World {
    /// Waits until everything is back, or until the limit.
    pub(super) async fn recover(&self, limit: Duration) -> Recovery {
        let began = self.load.clock.us();
        let mut recovery = Recovery::default();
        loop {
            let seconds = (self.load.clock.us() - began) as f64 / 1e6;
            if recovery.seconds_until_caching.is_none() && self.is_caching().await {
                recovery.seconds_until_caching = Some(seconds);
            }
            if recovery.seconds_until_caching.is_some() && self.is_trusted().await {
                recovery.seconds_until_trusted = Some(seconds);
                return recovery;
            }
            if seconds > limit.as_secs_f64() {
                return recovery;
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn is_caching(&self) -> bool {
        let path = Place {
            collection: PICTURED,
            number: STILL,
        }
        .path();
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

fn is_cacheable(answer: &Answer) -> bool {
    let control = answer.header(&CACHE_CONTROL);
    !control.contains("no-store") && !control.contains("max-age=0")
}
