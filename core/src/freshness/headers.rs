//! The header values that carry lifetimes and surrogate keys, in each kind of edge's spelling. Whatever
//! is not shared gets exactly one spelling (rule C15): anything else is stored by some cache (Varnish
//! keeps `private, no-store` when `Surrogate-Control` stands beside it; Fastly keeps `no-store` with a
//! `max-age`).

use super::{Lifetimes, SurrogateKey};

/// Whose dialect the shared-cache headers are written in, beside `s-maxage` and `Surrogate-Key`, which any proxy may
/// understand. Several edges: the union.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Varnish with vmod xkey: reads `s-maxage` and `xkey`.
    Varnish,
    /// Fastly: reads `Surrogate-Control`, before `s-maxage`, and `Surrogate-Key`; strips both.
    Fastly,
    /// Cloudflare: reads `Cloudflare-CDN-Cache-Control`, before every other, and `Cache-Tag`; strips both.
    Cloudflare,
    /// Akamai: reads `Edge-Control` and `Edge-Cache-Tag`; strips the first.
    Akamai,
    /// A cache behind a webhook: `s-maxage` and, for caches with commas, `Cache-Tag`.
    Webhook,
}

/// `Cache-Control` of every answer that is not shared and of every error; no other caching header goes
/// with it.
pub const NOT_SHARED: &str = "private, no-store, max-age=0";

/// A header's name and value.
pub type Header = (&'static str, String);

/// The headers that carry lifetimes. Lifetimes that are zero for everybody give [`NOT_SHARED`] alone.
#[must_use]
pub fn lifetime_headers(lifetimes: Lifetimes, edges: &[Edge]) -> Vec<Header> {
    if lifetimes.is_zero() {
        return vec![("cache-control", NOT_SHARED.to_owned())];
    }
    let (m, s) = (lifetimes.m.0, lifetimes.s.0);
    let revalidate = if m == 0 { ", must-revalidate" } else { "" };
    let all = format!("public, max-age={m}, s-maxage={s}{revalidate}");
    let mut headers = vec![("cache-control", all)];
    // Where S is zero each is told so in its own words too: without them, it might fall back to what it was set up
    // to do with answers that say nothing.
    if edges.contains(&Edge::Fastly) {
        headers.push(("surrogate-control", format!("max-age={s}")));
    }
    if edges.contains(&Edge::Cloudflare) {
        let value = match s {
            0 => "no-store".to_owned(),
            _ => format!("public, max-age={s}, must-revalidate"),
        };
        headers.push(("cloudflare-cdn-cache-control", value));
    }
    if edges.contains(&Edge::Akamai) {
        let value = match s {
            0 => "no-store".to_owned(),
            _ => format!("cache-maxage={s}s"),
        };
        headers.push(("edge-control", value));
    }
    headers
}

/// The headers that carry an answer's surrogate keys.
#[must_use]
pub fn tag_headers(keys: &[SurrogateKey], edges: &[Edge]) -> Vec<Header> {
    let tags: Vec<String> = keys.iter().map(SurrogateKey::to_string).collect();
    let (blanks, commas) = (tags.join(" "), tags.join(","));
    let mut headers = vec![("surrogate-key", blanks.clone())];
    if edges.contains(&Edge::Varnish) {
        headers.push(("xkey", blanks));
    }
    if edges.contains(&Edge::Cloudflare) || edges.contains(&Edge::Webhook) {
        headers.push(("cache-tag", commas.clone()));
    }
    if edges.contains(&Edge::Akamai) {
        headers.push(("edge-cache-tag", commas));
    }
    headers
}

/// The caching headers of a shared, cacheable answer.
#[must_use]
pub fn cacheable(lifetimes: Lifetimes, keys: &[SurrogateKey], edges: &[Edge]) -> Vec<Header> {
    let mut headers = lifetime_headers(lifetimes, edges);
    if !lifetimes.is_zero() {
        headers.extend(tag_headers(keys, edges));
    }
    headers
}

/// `Cache-Control` of an answer that depends on who asks but that this client may keep.
#[must_use]
pub fn private(lifetimes: Lifetimes) -> String {
    if lifetimes.m.0 == 0 {
        return NOT_SHARED.to_owned();
    }
    format!("private, max-age={}", lifetimes.m.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::freshness::{ResourceKind, resource_surrogates};
    use crate::name::Namespace;
    use crate::time::Ttl;

    const ALL: [Edge; 5] = [
        Edge::Varnish,
        Edge::Fastly,
        Edge::Cloudflare,
        Edge::Akamai,
        Edge::Webhook,
    ];

    fn keys() -> [SurrogateKey; 3] {
        let namespace = Namespace::new("db", "c").expect("valid");
        resource_surrogates(ResourceKind::Query, &namespace, &namespace.record_key("1"))
    }

    fn lifetimes(m: u32, s: u32) -> Lifetimes {
        Lifetimes {
            m: Ttl(m),
            s: Ttl(s),
        }
    }

    fn value<'h>(headers: &'h [Header], name: &str) -> Option<&'h str> {
        let mut found = headers.iter().filter(|(known, _)| *known == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert_eq!(found.next(), None, "{name} once");
        value
    }

    #[test]
    fn c15_not_shared_is_exactly_one_header() {
        assert_eq!(NOT_SHARED, "private, no-store, max-age=0");
        for edges in [&ALL[..], &ALL[1..2], &[]] {
            assert_eq!(
                cacheable(Lifetimes::ZERO, &keys(), edges),
                vec![("cache-control", NOT_SHARED.to_owned())]
            );
        }
        assert_eq!(private(Lifetimes::ZERO), NOT_SHARED);
        assert_eq!(private(lifetimes(30, 600)), "private, max-age=30");
    }

    #[test]
    fn each_edge_has_its_spelling_and_several_have_all() {
        let tags = keys().map(|key| key.to_string());
        let (blanks, commas) = (tags.join(" "), tags.join(","));
        let given = lifetimes(30, 600);
        type Fields<'f> = &'f [(&'f str, &'f str)];
        let spellings: [(&[Edge], Fields<'_>); 5] = [
            (&ALL[..1], &[("xkey", &blanks)]),
            (&ALL[1..2], &[("surrogate-control", "max-age=600")]),
            (
                &ALL[2..3],
                &[
                    (
                        "cloudflare-cdn-cache-control",
                        "public, max-age=600, must-revalidate",
                    ),
                    ("cache-tag", &commas),
                ],
            ),
            (
                &ALL[3..4],
                &[
                    ("edge-control", "cache-maxage=600s"),
                    ("edge-cache-tag", &commas),
                ],
            ),
            (&ALL[4..], &[("cache-tag", &commas)]),
        ];
        let everybody = [
            ("cache-control", "public, max-age=30, s-maxage=600"),
            ("surrogate-key", &blanks),
        ];
        let all = cacheable(given, &keys(), &ALL);
        for (edge, own) in spellings {
            let headers = cacheable(given, &keys(), edge);
            assert_eq!(headers.len(), 2 + own.len(), "{edge:?}");
            for (name, wanted) in everybody.iter().chain(own) {
                assert_eq!(value(&headers, name), Some(*wanted), "{edge:?} {name}");
                assert_eq!(value(&all, name), Some(*wanted), "{name} of all");
            }
        }
        assert_eq!(cacheable(given, &keys(), &[]).len(), 2);
    }

    #[test]
    fn c3_where_shared_caches_get_nothing_each_is_told_so() {
        let headers = cacheable(lifetimes(30, 0), &keys(), &ALL);
        for (name, wanted) in [
            ("cache-control", "public, max-age=30, s-maxage=0"),
            ("surrogate-control", "max-age=0"),
            ("cloudflare-cdn-cache-control", "no-store"),
            ("edge-control", "no-store"),
        ] {
            assert_eq!(value(&headers, name), Some(wanted));
        }
        let revalidated = cacheable(lifetimes(0, 60), &keys(), &[]);
        assert_eq!(
            value(&revalidated, "cache-control"),
            Some("public, max-age=0, s-maxage=60, must-revalidate")
        );
    }

    #[test]
    fn t7_all_tag_headers_together_are_short() {
        let headers = tag_headers(&keys(), &ALL);
        assert!(headers.iter().all(|(_, value)| value.len() <= 200));
    }
}
