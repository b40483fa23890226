//! What the gateway keeps things in: the documents' database, and Redis. What is refused is not repeated, since it may
//! hold a password.

use std::path::PathBuf;

use freshet_invalidation::RedisServer;
use secrecy::{ExposeSecret, SecretString};

use super::reader::Reader;

/// Where documents live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreChoice {
    /// MongoDB, by connection string (it may hold a password: never logged).
    Mongo(String),
    /// The embedded store, in this directory.
    Embedded(PathBuf),
}

pub(super) fn read_store(r: &mut Reader<'_>) -> StoreChoice {
    let text: String = r
        .required(
            "store",
            "The database: \"mongodb://host:27017/?replicaSet=rs0\" or \"embedded:DIRECTORY\".",
        )
        .unwrap_or_default();
    if let Some(directory) = text.strip_prefix("embedded:")
        && !directory.is_empty()
    {
        return StoreChoice::Embedded(directory.into());
    }
    if !text.starts_with("mongodb://") && !text.starts_with("mongodb+srv://") && !text.is_empty() {
        r.wrong(
            "store",
            "`store` must begin with mongodb://, mongodb+srv:// or embedded:",
        );
    }
    // The driver's own message may quote the string, and with it a password.
    if text.starts_with("mongodb") && mongodb::options::ConnectionString::parse(&text).is_err() {
        r.wrong(
            "store",
            "`store` is not a connection string that MongoDB's driver can read",
        );
    }
    StoreChoice::Mongo(text)
}

pub(super) fn read_redis(r: &mut Reader<'_>) -> Option<RedisServer> {
    let url: Option<SecretString> = r.optional("redis", "Redis for the sketch, \"redis://user:password@host:6379\", with TLS \"rediss://…\"; a cluster is \"redis+cluster://user:password@host:6379,host:6379\" or \"rediss+cluster://…\", naming some of its nodes. Without it the sketch is in this process, and this is the only gateway.");
    let authority: Option<String> = r.optional("redis_ca", "A file with the certificate, in PEM form, of who signed that of Redis; without it those that the system trusts.");
    let pem = authority.as_ref().map(std::fs::read).transpose();
    let pem = pem.unwrap_or_else(|error| {
        r.wrong("redis_ca", format!("`redis_ca` cannot be read: {error}"));
        None
    });
    let Some(url) = url else {
        if authority.is_some() {
            r.wrong("redis_ca", "`redis_ca` is of no use without `redis`");
        }
        return None;
    };
    match RedisServer::parse(url.expose_secret(), pem.as_deref()) {
        Ok(server) => Some(server),
        Err(error) => {
            r.wrong("redis", format!("`redis` {error}"));
            None
        }
    }
}
