//! Access to collections, from the configured rules. The first rule whose pattern matches decides; where none
//! does, the answer is no, and it is the same whether or not the collection exists.
//!
//! A grant to everybody leaves the answer shareable. A grant to a token's bearer makes it private (C15).

use freshet_core::key::KeyHash;
use freshet_core::name::Namespace;
use http::{HeaderMap, header::AUTHORIZATION};
use secrecy::ExposeSecret;

use crate::config::settings::{AccessRule, Clients, DatabaseOnly, Grant, Queries};
use crate::error::{Kind, Problem};

/// Databases that belong to MongoDB itself: never opened, whatever a rule says.
const SYSTEM_DATABASES: [&str; 3] = ["admin", "config", "local"];

/// Collections that the gateway keeps for itself: never opened either.
const OWN_PREFIX: &str = "freshet.";

/// All rules.
#[derive(Clone, Debug, Default)]
pub struct Access {
    rules: Vec<Rule>,
}

/// One rule, ready to be asked.
#[derive(Clone, Debug)]
pub struct Rule {
    pattern: String,
    read: Grant,
    write: Grant,
    store: Grant,
    token: Option<KeyHash>,
    /// What browsers are told.
    pub clients: Clients,
    /// Whether queries that only the database can decide are answered.
    pub database_only: DatabaseOnly,
    /// Whether changing an existing record needs `If-Match`.
    pub require_if_match: bool,
    /// The largest `limit`.
    pub limit_max: u32,
    /// The largest `skip`.
    pub skip_max: u32,
    /// Which queries are answered.
    pub queries: Queries,
    /// Whether its queries are watched where others find no room.
    pub hinted: bool,
}

/// What is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To store queries.
    Store,
}

/// Whom an answer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everybody: the same answer whoever asks.
    Shared,
    /// The bearer of a token.
    Private,
}

impl Access {
    /// The configured rules.
    #[must_use]
    pub fn new(rules: &[AccessRule]) -> Access {
        let rules = rules
            .iter()
            .map(|rule| Rule {
                pattern: rule.collection.clone(),
                read: rule.read,
                write: rule.write,
                store: rule.stores(),
                token: rule.token.as_ref().map(|token| hash(token.expose_secret())),
                clients: rule.clients,
                database_only: rule.database_only,
                require_if_match: rule.require_if_match,
                limit_max: rule.limit_max,
                skip_max: rule.skip_max,
                queries: rule.queries,
                hinted: rule.hinted,
            })
            .collect();
        Access { rules }
    }

    /// The rule for a collection, and whom the answer will be for.
    ///
    /// # Errors
    /// 401 where a token would help, otherwise 403.
    pub fn check(
        &self,
        namespace: &Namespace,
        right: Right,
        headers: &HeaderMap,
    ) -> Result<(&Rule, Scope), Problem> {
        let denied = || Problem::new(Kind::Forbidden, "no rule permits this");
        let rule = self.rule(namespace).ok_or_else(denied)?;
        let grant = match right {
            Right::Read => rule.read,
            Right::Write => rule.write,
            Right::Store => rule.store,
        };
        match grant {
            Grant::Public => Ok((rule, Scope::Shared)),
            Grant::Deny => Err(denied()),
            Grant::Token if bearer(headers) == rule.token && rule.token.is_some() => {
                Ok((rule, Scope::Private))
            }
            Grant::Token => Err(Problem::new(
                Kind::Unauthorized,
                "a valid bearer token is needed",
            )),
        }
    }

    /// Whether everybody may read the collection.
    #[must_use]
    pub fn is_public(&self, namespace: &Namespace) -> bool {
        self.rule(namespace)
            .is_some_and(|rule| rule.read == Grant::Public)
    }

    /// Whether the collection's queries are watched where others find no room.
    #[must_use]
    pub fn is_hinted(&self, namespace: &Namespace) -> bool {
        self.rule(namespace).is_some_and(|rule| rule.hinted)
    }

    fn rule(&self, namespace: &Namespace) -> Option<&Rule> {
        if SYSTEM_DATABASES.contains(&namespace.db())
            || namespace.collection().starts_with(OWN_PREFIX)
        {
            return None;
        }
        let name = namespace.to_string();
        self.rules.iter().find(|rule| matches(&rule.pattern, &name))
    }
}

/// Compared as hashes, so that the time of the comparison says nothing about the token.
fn hash(token: &str) -> KeyHash {
    KeyHash::of(token.as_bytes())
}

fn bearer(headers: &HeaderMap) -> Option<KeyHash> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| hash(token.trim()))
}

/// `*` stands for any run of characters.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = name.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(previous) = last.replace(part) {
            match rest.find(previous) {
                Some(at) => rest = &rest[at + previous.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(last) => rest.ends_with(last),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("shop.items", "shop.items", true),
            ("shop.items", "shop.items2", false),
            ("shop.*", "shop.items", true),
            ("shop.*", "shops.items", false),
            ("*", "a.b", true),
            ("*.*", "a.b", true),
            ("*.public_*", "a.public_x", true),
            ("*.public_*", "a.private_public", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXc", false),
            ("a.*z", "a.z", true),
            ("ab*ba", "aba", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn what_no_rule_opens_is_denied_and_system_databases_always() {
        let rule = AccessRule {
            collection: "*".into(),
            read: Grant::Public,
            write: Grant::Deny,
            store_queries: None,
            token: None,
            clients: Clients::Cache,
            database_only: DatabaseOnly::Deny,
            require_if_match: false,
            limit_max: 1000,
            skip_max: 10_000,
            queries: Queries::Any,
            hinted: false,
        };
        let namespace = |db: &str| Namespace::new(db, "c").expect("valid");
        let headers = HeaderMap::new();
        let access = Access::new(&[rule]);
        assert!(access.check(&namespace("d"), Right::Read, &headers).is_ok());
        let write = access.check(&namespace("d"), Right::Write, &headers);
        assert_eq!(write.expect_err("denied").kind, Kind::Forbidden);
        assert!(
            access
                .check(&namespace("admin"), Right::Read, &headers)
                .is_err()
        );
        assert!(
            Access::default()
                .check(&namespace("d"), Right::Read, &headers)
                .is_err()
        );
    }
}
