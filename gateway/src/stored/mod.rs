//! Stored queries: a query under the hash of its key, for filters too long for a URL, and as an allow-list.
//!
//! What is kept is the key: it names the whole query, and its hash is the name, so that nothing that is kept can come
//! to mean another query. It lies in a collection of the same database that no request can name for reading or writing.

pub mod keep;
mod shelf;

use bson::{RawDocument, RawDocumentBuf, rawdoc};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::query::Query;

use crate::error::{Kind, Problem};
use crate::read::asked::refused;
use crate::route::{Params, Route, is_hash, parse_params};

pub use shelf::Shelf;

/// The collection that stored queries are kept in.
pub const COLLECTION: &str = "freshet.queries";

/// What a request may add: another page, another form of the same query.
const ADDED: [&str; 3] = ["after", "rep", "view"];

/// A stored query.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The query.
    pub query: Query,
    /// Its key, whose hash it is stored under.
    pub key: Key,
    params: Params,
}

impl Stored {
    /// The query that a key names; `None`: it names none.
    #[must_use]
    pub fn of_key(key: &str) -> Option<Stored> {
        let (path, query) = match key.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (key, None),
        };
        let Ok(Route::Collection(namespace)) = Route::parse(path) else {
            return None;
        };
        let params = parse_params(query).ok()?;
        let query = Query::parse(&namespace, &params).ok()?;
        let stored = Stored {
            key: query.key(),
            query,
            params,
        };
        (stored.key.as_str() == key).then_some(stored)
    }

    /// The hash that it is stored under.
    #[must_use]
    pub fn hash(&self) -> String {
        self.key.hash().to_string()
    }

    /// The query, with what the parameters beside `qid` add.
    ///
    /// # Errors
    /// 400.
    pub fn with(&self, params: &Params) -> Result<Query, Problem> {
        let added = || params.iter().filter(|(name, _)| name != "qid");
        if let Some((name, _)) = added().find(|(name, _)| !ADDED.contains(&name.as_str())) {
            let problem = Problem::malformed("beside qid there are only after, rep and view");
            return Err(problem.of_parameter(name.clone()));
        }
        if added().next().is_none() {
            return Ok(self.query.clone());
        }
        let kept = self
            .params
            .iter()
            .filter(|(name, _)| added().all(|(other, _)| other != name));
        let all: Params = kept.chain(added()).cloned().collect();
        Query::parse(&self.query.namespace, &all).map_err(refused)
    }

    /// Where its answer is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}?qid={}", self.query.namespace.path(), self.hash())
    }

    /// The record that keeps it.
    #[must_use]
    pub fn record(&self, now_ms: u64) -> RawDocumentBuf {
        rawdoc! {
            "_id": self.hash(),
            "key": self.key.as_str(),
            "at": bson::DateTime::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX)),
        }
    }

    /// The query that a record keeps under this name; `None`: what lies there is something else.
    #[must_use]
    pub fn of_record(db: &str, hash: &str, record: &RawDocument) -> Option<Stored> {
        let stored = Stored::of_key(record.get_str("key").ok()?)?;
        (stored.hash() == hash && stored.query.namespace.db() == db).then_some(stored)
    }
}

/// Where a database's queries are stored.
///
/// # Errors
/// 500; the name is a valid one.
fn place(db: &str) -> Result<Namespace, Problem> {
    Namespace::new(db, COLLECTION).map_err(|error| {
        Problem::new(Kind::Internal, "no place for stored queries").because(error.to_string())
    })
}

/// The `qid` of a request.
///
/// # Errors
/// 400 where it is no hash.
pub fn qid(params: &Params) -> Result<Option<&str>, Problem> {
    let Some((_, hash)) = params.iter().find(|(name, _)| name == "qid") else {
        return Ok(None);
    };
    match is_hash(hash) {
        true => Ok(Some(hash)),
        false => {
            Err(Problem::malformed("must be 32 lower-case hexadecimal digits").of_parameter("qid"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(pairs: &[(&str, &str)]) -> Params {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_key_is_kept_and_read_again_and_nothing_else_is() {
        let key = "/v1/d/c?filter=%7B%22a%22:1%7D&limit=5&skip=2&sort=b";
        let stored = Stored::of_key(key).expect("a query");
        let record = stored.record(7);
        let again = Stored::of_record("d", &stored.hash(), &record).expect("the same");
        assert_eq!(again.key.as_str(), key);
        assert!(Stored::of_record("e", &stored.hash(), &record).is_none());
        assert!(Stored::of_record("d", &"0".repeat(32), &record).is_none());
        for other in [
            "/v1/d/c?limit=5&filter=%7B%22a%22:1%7D", // not canonical
            "/v1/d/c/_count",
            "/v1/d/c/x",
            "/v1/d/c?qid=00000000000000000000000000000000",
            "nothing",
        ] {
            assert!(Stored::of_key(other).is_none(), "{other}");
        }
    }

    #[test]
    fn a_page_and_a_form_of_it_can_be_asked_for_and_no_other_query() {
        let stored = Stored::of_key("/v1/d/c?limit=5&skip=2&sort=b").expect("a query");
        let with = |pairs: &[(&str, &str)]| {
            let query = stored.with(&params(pairs));
            query.map(|query| query.key().as_str().to_owned())
        };
        let qid = ("qid", "x");
        assert_eq!(with(&[qid]).ok().as_deref(), Some(stored.key.as_str()));
        assert_eq!(
            with(&[("after", "o7"), qid, ("rep", "canonical")])
                .ok()
                .as_deref(),
            Some("/v1/d/c?after=o7&limit=5&rep=canonical&sort=b")
        );
        for name in ["filter", "sort", "limit", "skip", "fields", "what"] {
            let problem = with(&[qid, (name, "1")]).expect_err(name);
            assert_eq!(problem.parameter.as_deref(), Some(name));
        }
        let problem = with(&[qid, ("after", "i1")]).expect_err("a cursor of another order");
        assert_eq!(problem.parameter.as_deref(), Some("after"));
    }
}
