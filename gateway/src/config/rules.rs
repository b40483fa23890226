//! Access rules: who may do what with which collections.

use secrecy::SecretString;

use super::reader::Reader;
use super::units::choice;

choice! {
    /// Who may use a right.
    Grant {
        /// Everybody.
        Public = "public",
        /// Bearers of the rule's token.
        Token = "token",
        /// Nobody.
        Deny = "deny",
    }
}

choice! {
    /// What browsers are told.
    Clients {
        /// Keep answers for `max-age`.
        Cache = "cache",
        /// Ask again every time; only shared caches keep answers.
        Revalidate = "revalidate",
    }
}

choice! {
    /// Queries that only the database can decide (geo, text, `$expr`).
    DatabaseOnly {
        /// Answered, uncached.
        Allow = "allow",
        /// 400.
        Deny = "deny",
    }
}

choice! {
    /// Which queries are answered.
    Queries {
        /// Whatever the URL asks.
        Any = "any",
        /// Stored ones only.
        Stored = "stored",
    }
}

/// One access rule. The first rule whose pattern matches decides.
#[derive(Clone, Debug)]
pub struct AccessRule {
    /// `database.collection`, with `*` for any part.
    pub collection: String,
    /// Who may read.
    pub read: Grant,
    /// Who may write.
    pub write: Grant,
    /// Who may store queries; none: who may write.
    pub store_queries: Option<Grant>,
    /// The bearer token for `token` grants.
    pub token: Option<SecretString>,
    /// What browsers are told.
    pub clients: Clients,
    /// Whether queries that only the database can decide are answered.
    pub database_only: DatabaseOnly,
    /// Whether a write of an existing record needs `If-Match`.
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

impl AccessRule {
    pub(super) fn read(r: &mut Reader<'_>) -> AccessRule {
        let rule = AccessRule {
            collection: r.required("collection", "Which collections: \"database.collection\", `*` for any run of characters. The first rule that matches decides.").unwrap_or_default(),
            read: r.get("read", Grant::Deny, "Who may read."),
            write: r.get("write", Grant::Deny, "Who may write."),
            store_queries: r.optional("store_queries", "Who may store queries (PUT /v1/{db}/_queries/{hash}); without it who may write."),
            token: r.optional("token", "The bearer token that \"token\" grants ask for."),
            clients: r.get("clients", Clients::Cache, "Whether browsers may keep answers, or must ask again every time."),
            database_only: r.get("database_only", DatabaseOnly::Deny, "Whether geo, $text and $expr are answered (uncached) or refused."),
            require_if_match: r.get("require_if_match", false, "Whether changing an existing record needs If-Match; without it 428."),
            limit_max: r.get("limit_max", 1000, "The largest `limit`."),
            skip_max: r.get("skip_max", 10_000, "The largest `skip`."),
            queries: r.get("queries", Queries::Any, "Whether any query is answered, or stored ones only (an allow-list); records by id are, either way."),
            hinted: r.get("hinted", false, "Whether its answers are watched, and so cached, even where `policy.active_max` leaves no room for others: up to twice as many."),
        };
        if !rule.collection.is_empty() && !rule.collection.contains('.') && rule.collection != "*" {
            r.wrong(
                "collection",
                "`collection` must be \"database.collection\", with `*` where any will do",
            );
        }
        let grants = [Some(rule.read), Some(rule.write), rule.store_queries];
        if grants.contains(&Some(Grant::Token)) && rule.token.is_none() {
            r.wrong("token", "a \"token\" grant needs `token`");
        }
        if !(1..=1000).contains(&rule.limit_max) {
            r.wrong("limit_max", "`limit_max` must be from 1 to 1000");
        }
        if rule.skip_max > 10_000 {
            r.wrong("skip_max", "`skip_max` must be at most 10000");
        }
        rule
    }
}

impl AccessRule {
    /// Who may store queries.
    #[must_use]
    pub fn stores(&self) -> Grant {
        self.store_queries.unwrap_or(self.write)
    }
}
