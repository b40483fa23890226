//! The header values that carry lifetimes and surrogate keys, in each kind of edge's spelling. Whatever
//! is not shared gets exactly one spelling (rule C15): anything else is stored by some cache (Varnish
//! keeps `private, no-store` when `Surrogate-Control` stands beside it; Fastly keeps `no-store` with a
//! `max-age`).

use super::{Lifetimes, SurrogateKey};

/// Whose dialect the shared-cache headers are written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Edge {
    /// No shared cache of ours, but any proxy may stand between: `s-maxage`.
    #[default]
    None,
    /// Varnish with vmod xkey: reads `s-maxage` and `xkey`.
    Varnish,
    /// Fastly: reads `Surrogate-Control` (and strips it) and `Surrogate-Key`.
    Fastly,
}

/// `Cache-Control` of every answer that is not shared and of every error; no other caching header goes
/// with it.
pub const NOT_SHARED: &str = "private, no-store, max-age=0";

/// The caching headers of a shared, cacheable answer: name and value. Lifetimes that are zero for
/// everybody give [`NOT_SHARED`] alone.
#[must_use]
pub fn cacheable(
    lifetimes: Lifetimes,
    keys: &[SurrogateKey],
    edge: Edge,
) -> Vec<(&'static str, String)> {
    if lifetimes.is_zero() {
        return vec![("cache-control", NOT_SHARED.to_owned())];
    }
    let (m, s) = (lifetimes.m.0, lifetimes.s.0);
    let tags = keys
        .iter()
        .map(SurrogateKey::to_string)
        .collect::<Vec<_>>()
        .join(" ");
    let shared = format!("public, max-age={m}, s-maxage={s}");
    match edge {
        Edge::None => vec![("cache-control", shared), ("surrogate-key", tags)],
        Edge::Varnish => vec![
            ("cache-control", shared),
            ("surrogate-key", tags.clone()),
            ("xkey", tags),
        ],
        // Fastly strips Surrogate-Control, so what lies behind it sees M alone. Were S zero beside it,
        // Fastly would fall back to max-age: s-maxage=0 stays in every spelling.
        Edge::Fastly => vec![
            ("cache-control", shared),
            ("surrogate-control", format!("max-age={s}")),
            ("surrogate-key", tags),
        ],
    }
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

    fn keys() -> [SurrogateKey; 3] {
        let namespace = Namespace::new("db", "c").expect("valid");
        resource_surrogates(ResourceKind::Query, &namespace, &namespace.record_key("1"))
    }

    #[test]
    fn c15_not_shared_is_exactly_one_header() {
        assert_eq!(NOT_SHARED, "private, no-store, max-age=0");
        for edge in [Edge::None, Edge::Varnish, Edge::Fastly] {
            assert_eq!(
                cacheable(Lifetimes::ZERO, &keys(), edge),
                vec![("cache-control", NOT_SHARED.to_owned())]
            );
        }
        assert_eq!(private(Lifetimes::ZERO), NOT_SHARED);
    }

    #[test]
    fn each_edge_has_its_spelling() {
        let lifetimes = Lifetimes {
            m: Ttl(30),
            s: Ttl(600),
        };
        let of = |edge| cacheable(lifetimes, &keys(), edge);
        for edge in [Edge::None, Edge::Varnish, Edge::Fastly] {
            assert_eq!(of(edge)[0].1, "public, max-age=30, s-maxage=600");
        }
        let varnish = of(Edge::Varnish);
        assert_eq!(varnish[2].0, "xkey");
        assert_eq!(varnish[1].1, varnish[2].1);
        assert_eq!(varnish[2].1.split(' ').count(), 3);
        assert!(of(Edge::Fastly).contains(&("surrogate-control", "max-age=600".to_owned())));
        assert!(!varnish.iter().any(|(name, _)| *name == "surrogate-control"));
        assert_eq!(private(lifetimes), "private, max-age=30");
    }
}
