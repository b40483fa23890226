//! Surrogate keys: at most four short tags of `[a-z0-9-]`, which every CDN's limits allow. A response
//! is named by its own key, its collection and its database; members are not listed, since the matcher
//! knows which query a change touches.

use std::fmt;

use crate::key::{Key, KeyHash, encode_segment};
use crate::name::Namespace;

/// One surrogate key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SurrogateKey {
    letter: char,
    hash: KeyHash,
}

impl fmt::Display for SurrogateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.letter, self.hash)
    }
}

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResourceKind {
    /// One record: `r-…`.
    Record,
    /// A query or a count: `q-…`.
    Query,
}

impl SurrogateKey {
    /// The resource's own: `r-{hash}` or `q-{hash}` of its key.
    #[must_use]
    pub fn resource(kind: ResourceKind, key: &Key) -> SurrogateKey {
        SurrogateKey {
            letter: match kind {
                ResourceKind::Record => 'r',
                ResourceKind::Query => 'q',
            },
            hash: key.hash(),
        }
    }
}

/// `c-{hash of /v1/db/coll}`: everything of a collection.
#[must_use]
pub fn collection_surrogate(namespace: &Namespace) -> SurrogateKey {
    SurrogateKey {
        letter: 'c',
        hash: KeyHash::of(namespace.path().as_bytes()),
    }
}

/// `a-{hash of /v1/db}`: everything of a database.
#[must_use]
pub fn database_surrogate(db: &str) -> SurrogateKey {
    SurrogateKey {
        letter: 'a',
        hash: KeyHash::of(format!("/v1/{}", encode_segment(db)).as_bytes()),
    }
}

/// The keys of an answer, its own first: a cache that cuts the list off still has that one.
#[must_use]
pub fn resource_surrogates(
    kind: ResourceKind,
    namespace: &Namespace,
    key: &Key,
) -> [SurrogateKey; 3] {
    [
        SurrogateKey::resource(kind, key),
        collection_surrogate(namespace),
        database_surrogate(namespace.db()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_short_and_of_the_safe_alphabet() {
        let namespace = Namespace::new("shop", "ärtikel").expect("valid");
        let key = namespace.record_key("ü");
        let keys =
            resource_surrogates(ResourceKind::Record, &namespace, &key).map(|k| k.to_string());
        for (key, letter) in keys.iter().zip(["r-", "c-", "a-"]) {
            assert!(key.starts_with(letter));
            assert_eq!(key.len(), 34);
            assert!(
                key.bytes()
                    .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
            );
        }
        assert_eq!(keys[1], format!("c-{}", Key::from(namespace.path()).hash()));
        assert_eq!(keys[2], format!("a-{}", KeyHash::of(b"/v1/shop")));
    }
}
