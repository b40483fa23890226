//! `Idempotency-Key`: a repeat within 24 hours gets the first answer again and has no second effect.
//!
//! The first answer is kept in the database, written in the same transaction as the change itself: either both
//! are there or neither, whichever gateway is asked and whatever crashed in between. It lives in a collection of
//! the same database that no request can name for reading or writing.

use bson::spec::BinarySubtype;
use bson::{RawBson, RawBsonRef, RawDocument, RawDocumentBuf, rawdoc};
use bytes::Bytes;
use freshet_core::key::KeyHash;
use freshet_core::name::Namespace;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Method};

use crate::error::{Kind, Problem};
use crate::store::{Store, StoreError};

/// The collection that first answers are kept in.
pub const COLLECTION: &str = "freshet.idempotency";

/// How long a first answer is kept, in milliseconds: 24 h.
pub const KEPT_MS: u64 = 24 * 60 * 60 * 1000;

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 255;

/// An idempotent request: under which name its answer is kept, and what it was.
#[derive(Clone, Debug)]
pub struct Repeatable {
    /// Where answers are kept.
    pub namespace: Namespace,
    /// The name: the key, for this caller.
    pub name: String,
    fingerprint: String,
}

/// A first answer.
#[derive(Clone, Debug, PartialEq)]
pub struct First {
    /// Its status.
    pub status: u16,
    /// `ETag`.
    pub etag: Option<String>,
    /// `Location`.
    pub location: Option<String>,
    /// The body.
    pub body: Bytes,
}

impl Repeatable {
    /// The request's key, if it has one.
    ///
    /// # Errors
    /// 400 for an empty or too long key.
    pub fn parse(
        namespace: &Namespace,
        method: &Method,
        target: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Option<Repeatable>, Problem> {
        let Some(key) = headers.get("idempotency-key") else {
            return Ok(None);
        };
        let key = key.as_bytes();
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(Problem::malformed(
                "Idempotency-Key must have 1 to 255 bytes",
            ));
        }
        let caller = headers
            .get(AUTHORIZATION)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let condition = ["content-type", "if-match", "if-none-match"]
            .map(|name| headers.get(name).map_or(&b""[..], HeaderValue::as_bytes));
        let parts = [
            method.as_str().as_bytes(),
            target.as_bytes(),
            condition[0],
            condition[1],
            condition[2],
            body,
        ];
        Ok(Some(Repeatable {
            namespace: Namespace::new(namespace.db(), COLLECTION).map_err(|error| {
                Problem::new(Kind::Internal, "no place for idempotency keys")
                    .because(error.to_string())
            })?,
            name: digest(&[caller, key]),
            fingerprint: digest(&parts),
        }))
    }

    /// The name as an `_id`.
    #[must_use]
    pub fn id(&self) -> RawBson {
        RawBson::String(self.name.clone())
    }

    /// The record that keeps a first answer.
    #[must_use]
    pub fn record(&self, first: &First, now_ms: u64) -> RawDocumentBuf {
        let mut record = rawdoc! {
            "_id": self.name.as_str(),
            "fingerprint": self.fingerprint.as_str(),
            "at": bson::DateTime::from_millis(i64::try_from(now_ms).unwrap_or(i64::MAX)),
            "status": i32::from(first.status),
            "body": bson::Binary { subtype: BinarySubtype::Generic, bytes: first.body.to_vec() },
        };
        if let Some(etag) = &first.etag {
            record.append(bson::cstr!("etag"), etag.as_str());
        }
        if let Some(location) = &first.location {
            record.append(bson::cstr!("location"), location.as_str());
        }
        record
    }

    /// The first answer that a record keeps; `None` when it is too old.
    ///
    /// # Errors
    /// 422 when the first request was another one.
    pub fn again(&self, record: &RawDocument, now_ms: u64) -> Result<Option<First>, Problem> {
        let at = record
            .get_datetime("at")
            .map_or(0, |at| at.timestamp_millis());
        if now_ms.saturating_sub(u64::try_from(at).unwrap_or(0)) > KEPT_MS {
            return Ok(None);
        }
        if record.get_str("fingerprint").ok() != Some(self.fingerprint.as_str()) {
            return Err(Problem::new(
                Kind::IdempotencyMismatch,
                "this Idempotency-Key came with another request before",
            ));
        }
        let body = match record.get("body") {
            Ok(Some(RawBsonRef::Binary(binary))) => Bytes::copy_from_slice(binary.bytes),
            _ => Bytes::new(),
        };
        Ok(Some(First {
            status: record
                .get_i32("status")
                .ok()
                .and_then(|status| u16::try_from(status).ok())
                .unwrap_or(200),
            etag: record.get_str("etag").ok().map(str::to_owned),
            location: record.get_str("location").ok().map(str::to_owned),
            body,
        }))
    }
}

/// Removes answers that are no longer kept, a bounded number per call. Returns how many.
///
/// # Errors
/// The store's.
pub async fn sweep(store: &dyn Store, db: &str, now_ms: u64) -> Result<usize, StoreError> {
    let Ok(namespace) = Namespace::new(db, COLLECTION) else {
        return Ok(0);
    };
    let before = i64::try_from(now_ms.saturating_sub(KEPT_MS)).unwrap_or(0);
    let filter = rawdoc! { "at": { "$lt": bson::DateTime::from_millis(before) } };
    let found = store
        .find(&crate::store::Find {
            namespace: &namespace,
            filter: &filter,
            sort: None,
            skip: 0,
            limit: 1000,
            projection: None,
            at_least: freshet_core::time::Position::ZERO,
        })
        .await?;
    for record in found.documents.iter() {
        if let Ok(Some(id)) = record.get("_id") {
            store.delete(&namespace, id).await?;
        }
    }
    Ok(found.documents.len())
}

/// A digest of parts that cannot be confused with another division of the same bytes.
fn digest(parts: &[&[u8]]) -> String {
    let mut joined = Vec::new();
    for part in parts {
        joined.extend_from_slice(&(part.len() as u64).to_le_bytes());
        joined.extend_from_slice(part);
    }
    KeyHash::of(&joined).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeatable(body: &[u8]) -> Repeatable {
        let namespace = Namespace::new("db", "c").expect("valid");
        let mut headers = HeaderMap::new();
        headers.insert("idempotency-key", HeaderValue::from_static("k"));
        Repeatable::parse(&namespace, &Method::POST, "/v1/db/c", &headers, body)
            .expect("valid")
            .expect("present")
    }

    #[test]
    fn a_repeat_gets_the_first_answer_another_request_does_not() {
        let first = First {
            status: 201,
            etag: Some("W/\"x\"".into()),
            location: Some("/v1/db/c/1".into()),
            body: Bytes::from_static(b"{}"),
        };
        let record = repeatable(b"1").record(&first, 1000);
        assert_eq!(
            repeatable(b"1").again(&record, 2000).expect("the same"),
            Some(first)
        );
        let other = repeatable(b"2")
            .again(&record, 2000)
            .expect_err("another body");
        assert_eq!(other.kind, Kind::IdempotencyMismatch);
        assert_eq!(
            repeatable(b"1")
                .again(&record, 1001 + KEPT_MS)
                .expect("old"),
            None
        );
    }
}
