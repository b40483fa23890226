//! A browser's cache, one for each client: what it answers by itself, what it asks and with which headers, and what it
//! keeps (RFC 9111; the Fetch standard's cache modes). Pure: moments are arguments, milliseconds.
//!
//! Where the standards leave a choice, a copy is kept and used for as long as they allow: an answer that may not be
//! stored leaves an older copy in place. `Date` is left out of the age: all clocks here are one.

use std::collections::HashMap;

use bytes::Bytes;
use freshet_core::consistency::Mode;
use freshet_core::time::Moment;
use hyper::HeaderMap;
use hyper::header::{AGE, CACHE_CONTROL, ETAG, HeaderName};

/// An answer of success.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn header(&self, name: &HeaderName) -> &str {
        let value = self.headers.get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    /// The freshness lifetime that it was given, seconds; `None` where no cache may keep it.
    fn lifetime_s(&self) -> Option<u64> {
        let mut lifetime = None;
        for directive in self.header(&CACHE_CONTROL).split(',') {
            match directive.trim().split_once('=') {
                Some(("max-age", seconds)) => lifetime = seconds.parse().ok(),
                _ if directive.trim() == "no-store" => return None,
                _ => {}
            }
        }
        lifetime
    }
}

/// A copy.
#[derive(Debug)]
struct Copy {
    answer: Answer,
    /// It is fresh before this moment.
    until: Moment,
}

/// What becomes of a request.
#[derive(Debug)]
pub(super) enum Plan {
    /// The cache answers.
    Hit(Answer),
    /// The network is asked, with these headers.
    Ask(Vec<(HeaderName, String)>),
}

/// The cache.
#[derive(Debug, Default)]
pub(super) struct Browser(HashMap<String, Copy>);

impl Browser {
    /// How a request for `url` in this mode is made.
    pub(super) fn plan(&self, url: &str, mode: Mode, now: Moment) -> Plan {
        let copy = self.0.get(url);
        let condition = || {
            let tag = copy.map(|copy| copy.answer.header(&ETAG)).unwrap_or("");
            (!tag.is_empty()).then(|| (hyper::header::IF_NONE_MATCH, tag.to_owned()))
        };
        let says = |text: &str| Some((CACHE_CONTROL, text.to_owned()));
        let headers = match (mode, copy) {
            (Mode::Default, Some(copy)) if now < copy.until => {
                return Plan::Hit(copy.answer.clone());
            }
            (Mode::Default, _) => [None, condition()],
            (Mode::NoCache, _) => [says("max-age=0"), condition()],
            // Past the caches, and no question whether the copy will do.
            (Mode::Reload, _) => [says("no-cache"), None],
        };
        Plan::Ask(headers.into_iter().flatten().collect())
    }

    /// An answer of success came over the network; the request was sent at `sent`. Keeps it if that is allowed.
    pub(super) fn keep(&mut self, url: &str, answer: &Answer, sent: Moment, now: Moment) {
        let Some(lifetime_s) = answer.lifetime_s() else {
            return;
        };
        // RFC 9111 §4.2.3: corrected_age_value = age_value + response_delay.
        let age_s: u64 = answer.header(&AGE).parse().unwrap_or(0);
        let left_ms = (lifetime_s * 1_000).saturating_sub(age_s * 1_000 + now.since(sent));
        let copy = Copy {
            answer: answer.clone(),
            until: now.after_ms(left_ms),
        };
        self.0.insert(url.to_owned(), copy);
    }

    /// The answer was 304: the copy is what it says, and as fresh as the new headers say (RFC 9111 §4.3.4). `None` where
    /// nothing was asked that a 304 could answer.
    pub(super) fn freshen(
        &mut self,
        url: &str,
        headers: &HeaderMap,
        sent: Moment,
        now: Moment,
    ) -> Option<Answer> {
        let mut answer = self.0.get(url)?.answer.clone();
        answer.headers.remove(AGE);
        for (name, value) in headers {
            answer.headers.insert(name, value.clone());
        }
        self.keep(url, &answer, sent, now);
        Some(answer)
    }

    /// What a write to `url` that succeeded does to its copy (RFC 9111 §4.4).
    pub(super) fn invalidate(&mut self, url: &str) {
        self.0.remove(url);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(control: &str, age: &str, body: &'static str) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(CACHE_CONTROL, control.parse().expect("a header"));
        headers.insert(AGE, age.parse().expect("a header"));
        headers.insert(ETAG, format!("\"{body}\"").parse().expect("a header"));
        Answer {
            headers,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    fn asked(plan: Plan) -> Vec<String> {
        match plan {
            Plan::Ask(headers) => headers
                .iter()
                .map(|(name, value)| format!("{name}: {value}"))
                .collect(),
            Plan::Hit(answer) => panic!("a hit: {answer:?}"),
        }
    }

    #[test]
    fn a_copy_is_fresh_for_max_age_less_its_age_and_its_way() {
        let mut browser = Browser::default();
        let kept = answer("public, max-age=10", "3", "a");
        browser.keep("/k", &kept, Moment(1_000), Moment(1_500));
        let at = |now| browser.plan("/k", Mode::Default, Moment(now));
        assert!(matches!(at(7_999), Plan::Hit(_)));
        assert_eq!(asked(at(8_000)), ["if-none-match: \"a\""]);
    }

    #[test]
    fn modes_say_what_browsers_say() {
        let mut browser = Browser::default();
        let url = "/k";
        let now = Moment(0);
        assert!(asked(browser.plan(url, Mode::Default, now)).is_empty());
        browser.keep(url, &answer("private, max-age=9", "0", "a"), now, now);
        assert_eq!(
            asked(browser.plan(url, Mode::NoCache, now)),
            ["cache-control: max-age=0", "if-none-match: \"a\""]
        );
        assert_eq!(
            asked(browser.plan(url, Mode::Reload, now)),
            ["cache-control: no-cache"]
        );
    }

    #[test]
    fn a_304_renews_a_copy_and_what_may_not_be_stored_is_not() {
        let mut browser = Browser::default();
        let url = "/k";
        let none = HeaderMap::new();
        assert!(browser.freshen(url, &none, Moment(0), Moment(0)).is_none());
        browser.keep(url, &answer("max-age=1", "0", "a"), Moment(0), Moment(0));
        let renewed = answer("max-age=5", "0", "a").headers;
        let shown = browser.freshen(url, &renewed, Moment(2_000), Moment(2_000));
        assert_eq!(shown.expect("a copy").body, "a");
        let control = "private, no-store, max-age=0";
        browser.keep(
            url,
            &answer(control, "0", "b"),
            Moment(2_000),
            Moment(2_000),
        );
        match browser.plan(url, Mode::Default, Moment(6_000)) {
            Plan::Hit(answer) => assert_eq!(answer.body, "a"),
            Plan::Ask(headers) => panic!("{headers:?}"),
        }
        browser.invalidate(url);
        assert!(asked(browser.plan(url, Mode::Default, Moment(6_000))).is_empty());
    }
}
