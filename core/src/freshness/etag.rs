//! Entity tags: weak, 128 bits of BLAKE3 over the answer's canonical bytes, so equal content has an
//! equal tag whoever wrote it. Weak because the gateway compresses. Comparison in preconditions
//! ignores the `W/` (RFC 9110 §8.8.3.2 weak comparison; §13.1).

use std::fmt;

use crate::key::KeyHash;

/// An entity tag. Prints as `W/"<32 hexadecimal digits>"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ETag(KeyHash);

/// The tag of an answer's canonical bytes.
#[must_use]
pub fn etag(canonical: &[u8]) -> ETag {
    ETag(KeyHash::of(canonical))
}

impl fmt::Display for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "W/\"{}\"", self.0)
    }
}

/// The value of `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagList {
    /// `*`: any current representation.
    Any,
    /// The opaque parts, without quotes and `W/`.
    Tags(Vec<String>),
}

impl TagList {
    /// Reads a field value; `None` when it is not what RFC 9110 §13.1.1 allows. Several field lines are
    /// joined with commas before (§5.3).
    #[must_use]
    pub fn parse(value: &str) -> Option<TagList> {
        let mut rest = value.trim_matches([' ', '\t']);
        if rest == "*" {
            return Some(TagList::Any);
        }
        let mut tags = Vec::new();
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                return (!tags.is_empty()).then_some(TagList::Tags(tags));
            }
            let opaque = rest.strip_prefix("W/").unwrap_or(rest).strip_prefix('"')?;
            let (tag, after) = opaque.split_once('"')?;
            if !tag.bytes().all(|b| b == 0x21 || b >= 0x23 && b != 0x7f) {
                return None;
            }
            rest = after.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(',') {
                return None;
            }
            tags.push(tag.to_owned());
        }
    }

    /// Whether the condition names the current representation. `None`: there is none, which nothing
    /// matches, not even `*`.
    #[must_use]
    pub fn matches(&self, current: Option<ETag>) -> bool {
        match (self, current) {
            (_, None) => false,
            (TagList::Any, Some(_)) => true,
            (TagList::Tags(tags), Some(current)) => {
                let current = current.0.to_string();
                tags.contains(&current)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_weak_and_has_128_bits() {
        let tag = etag(b"{}").to_string();
        assert_eq!(tag.len(), 3 + 32 + 1);
        assert!(tag.starts_with("W/\"") && tag.ends_with('"'));
        assert_eq!(etag(b"{}"), etag(b"{}"));
        assert_ne!(etag(b"{}"), etag(b"{ }"));
    }

    #[test]
    fn comparison_ignores_w_and_takes_lists() {
        let tag = etag(b"x");
        let strong = tag.to_string().trim_start_matches("W/").to_owned();
        for value in [
            tag.to_string(),
            strong.clone(),
            format!("\"a\", W/\"b\" ,{strong}"),
            format!(" , {strong},"),
        ] {
            let list = TagList::parse(&value).expect("valid");
            assert!(list.matches(Some(tag)), "{value}");
            assert!(!list.matches(None));
            assert!(!list.matches(Some(etag(b"y"))));
        }
        let commas = TagList::parse("\"a,b\"").expect("a comma may stand in a tag");
        assert_eq!(commas, TagList::Tags(vec!["a,b".into()]));
    }

    #[test]
    fn star_matches_whatever_exists() {
        let star = TagList::parse(" * ").expect("valid");
        assert!(star.matches(Some(etag(b""))));
        assert!(!star.matches(None));
    }

    #[test]
    fn malformed_is_none() {
        for value in [
            "",
            ",",
            "abc",
            "\"a",
            "\"a\"\"b\"",
            "w/\"a\"",
            "*, \"a\"",
            "\"a b\"",
        ] {
            assert_eq!(TagList::parse(value), None, "{value}");
        }
    }
}
