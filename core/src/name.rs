//! Names of databases and collections, and ids of records, as the protocol spells them in a path.

use std::sync::Arc;

use crate::key::Key;

/// A database and a collection; cheap to clone. Built only through [`Namespace::new`], so the names are valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    db: Arc<str>,
    collection: Arc<str>,
}

/// Why a name cannot be a database or collection name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Empty.
    #[error("a name must not be empty")]
    Empty,
    /// Longer than MongoDB allows (63 bytes for a database, 120 for a collection).
    #[error("the name is too long")]
    TooLong,
    /// Begins with `_`, which the protocol reserves, or with `system.`, which MongoDB does.
    #[error("the name is reserved")]
    Reserved,
    /// Has a character that MongoDB or a path segment cannot carry.
    #[error("the name has a character that is not allowed")]
    Character,
}

/// The longest database name, in bytes (MongoDB's limit).
pub const DATABASE_NAME_BYTES_MAX: usize = 63;
/// The longest collection name, in bytes; with the database it stays below MongoDB's 255.
pub const COLLECTION_NAME_BYTES_MAX: usize = 120;

impl Namespace {
    /// Checks both names.
    ///
    /// # Errors
    /// The first rule of [`NameError`] that a name breaks.
    pub fn new(db: &str, collection: &str) -> Result<Namespace, NameError> {
        check(db, DATABASE_NAME_BYTES_MAX)?;
        check(collection, COLLECTION_NAME_BYTES_MAX)?;
        if db.contains('.') {
            return Err(NameError::Character);
        }
        if collection.starts_with("system.") || matches!(collection, "." | "..") {
            return Err(NameError::Reserved);
        }
        Ok(Namespace {
            db: db.into(),
            collection: collection.into(),
        })
    }

    /// The database.
    #[must_use]
    pub fn db(&self) -> &str {
        &self.db
    }

    /// The collection.
    #[must_use]
    pub fn collection(&self) -> &str {
        &self.collection
    }

    /// `/v1/{db}/{collection}`, percent-encoded: the key of the collection's whole query.
    #[must_use]
    pub fn path(&self) -> String {
        format!(
            "/v1/{}/{}",
            crate::key::encode_segment(&self.db),
            crate::key::encode_segment(&self.collection)
        )
    }

    /// The key of the record with this canonical id segment.
    #[must_use]
    pub fn record_key(&self, segment: &str) -> Key {
        Key::from(format!("{}/{segment}", self.path()))
    }
}

impl std::fmt::Display for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.db, self.collection)
    }
}

fn check(name: &str, bytes_max: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > bytes_max {
        return Err(NameError::TooLong);
    }
    if name.starts_with('_') {
        return Err(NameError::Reserved);
    }
    if name.chars().any(|c| {
        c.is_control()
            || matches!(
                c,
                '/' | '\\' | '$' | '"' | ' ' | '*' | '<' | '>' | ':' | '|' | '?'
            )
    }) {
        return Err(NameError::Character);
    }
    Ok(())
}
