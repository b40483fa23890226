//! A client's requests: reads through its browser's cache and over an edge, sketches, writes.

use std::sync::Arc;

use anyhow::{Context, bail};
use bytes::Bytes;
use freshet_core::consistency::{Held, Mode};
use freshet_core::time::Position;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderName, IF_MATCH};
use hyper::{Method, StatusCode};

use super::super::browser::{Answer, Plan};
use super::super::history::Value;
use super::super::http::Ask;
use super::super::tally::From;
use super::super::universe::{DATABASE, Place, collection_path};
use super::{Client, Habit, Page};

const POSITION: HeaderName = HeaderName::from_static("freshet-position");
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// An answer, from wherever.
pub(super) struct Fetched {
    pub(super) found: bool,
    pub(super) position: Option<Position>,
    pub(super) etag: Option<String>,
    pub(super) answer: Answer,
    pub(super) from: From,
}

impl Client {
    /// One request: to the browser's cache, and where that does not answer to an edge.
    pub(super) async fn fetch(
        &self,
        key: &str,
        mode: Mode,
        edge: usize,
    ) -> anyhow::Result<Fetched> {
        let under = self.page.lock().session.held().cloned();
        let sent = self.load.now();
        let plan = self.browser.lock().plan(key, mode, sent);
        let headers = match plan {
            Plan::Hit(answer) => return Ok(Fetched::of(true, answer, From::Browser)),
            Plan::Ask(headers) => headers,
        };
        let url = format!("{}{key}", self.load.edges[edge]);
        let (status, answer) = self.load.http.send(Ask::get(url, &headers)).await?;
        let now = self.load.now();
        let from = origin(&answer);
        let fetched = match status {
            StatusCode::OK => {
                self.browser.lock().keep(key, &answer, sent, now);
                Fetched::of(true, answer, from)
            }
            StatusCode::NOT_MODIFIED => {
                let renewed = self.browser.lock().freshen(key, &answer.headers, sent, now);
                Fetched::of(true, renewed.context("a 304 without a copy")?, from)
            }
            StatusCode::NOT_FOUND => Fetched::of(false, answer, from),
            status => bail!("{status}"),
        };
        if fetched.found && mode != Mode::Default {
            self.page.lock().session.key_revalidated(key, under);
        }
        Ok(fetched)
    }

    /// Asks for a sketch in the background, when one is due.
    pub(super) fn refresh_if_due(self: &Arc<Client>, edge: usize, random: u64) {
        let sent = self.load.now();
        let mut page = self.page.lock();
        let Page {
            session, refresh, ..
        } = &mut *page;
        if self.manner.habit == Habit::Believing || !refresh.begin(session, &self.policy(), sent) {
            return;
        }
        drop(page);
        let client = Arc::clone(self);
        tokio::spawn(async move {
            let url = format!("{}/v1/{DATABASE}/_sketch", client.load.edges[edge]);
            let headers = [(CACHE_CONTROL, "no-cache".to_owned())];
            let asked = client.load.http.send(Ask::get(url, &headers)).await;
            let held = match asked {
                Ok((StatusCode::OK, answer)) => Held::read(&answer.body, sent).ok(),
                _ => None,
            };
            let mut page = client.page.lock();
            match held {
                Some(held) => {
                    page.session.sketch_arrived(held);
                    page.refresh.succeeded(sent);
                }
                None => page.refresh.failed(client.load.now(), random),
            }
        });
    }

    /// One write.
    pub(super) async fn put(&self, place: Place, value: Value, etag: String, edge: usize) {
        let history = self.load.universe.of(place);
        let body = serde_json::json!({ "group": value.group, "v": value.version, "by": "gateway" });
        let path = place.path();
        let headers = [
            (CONTENT_TYPE, "application/json".to_owned()),
            (IF_MATCH, etag),
        ];
        let ask = Ask {
            method: Method::PUT,
            url: format!("{}{path}", self.load.edges[edge]),
            headers: &headers,
            body: Bytes::from(body.to_string()),
        };
        let state = history.begin(Some(value), self.load.clock.us());
        match self.load.http.send(ask).await {
            Ok((status, answer)) if status.is_success() => {
                history.acknowledge(state, self.load.clock.us());
                let mut page = self.page.lock();
                let scopes = [path.as_str(), &collection_path(place.collection)];
                page.session.write_acknowledged(&scopes, position(&answer));
                page.own[place.collection].insert(place.number, state);
                drop(page);
                self.browser.lock().invalidate(&path);
                self.load.count(|tally| tally.writes += 1);
            }
            Ok((StatusCode::PRECONDITION_FAILED | StatusCode::TOO_MANY_REQUESTS, _)) => {
                history.refuse(state);
                self.load.count(|tally| tally.writes_refused += 1);
            }
            _ => self.load.count(|tally| tally.writes_unknown += 1),
        }
    }
}

impl Fetched {
    fn of(found: bool, answer: Answer, from: From) -> Fetched {
        let etag = answer.header(&ETAG);
        Fetched {
            found,
            position: position(&answer),
            etag: (!etag.is_empty()).then(|| etag.to_owned()),
            answer,
            from,
        }
    }
}

fn position(answer: &Answer) -> Option<Position> {
    answer.header(&POSITION).parse().ok().map(Position)
}

/// Who answered. The member nearest to the origin comes first (RFC 9211).
fn origin(answer: &Answer) -> From {
    let status = answer.header(&CACHE_STATUS);
    if status.contains("varnish; hit") {
        From::Varnish
    } else if status.contains("freshet; hit") {
        From::Tier
    } else {
        From::Database
    }
}
