//! The tables of the embedded store's file, and what is read from them under one snapshot.

use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition,
};

use super::super::port::StoreError;

/// Storage key → record, raw BSON.
pub(super) const DOCUMENTS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("documents");
/// Sequence and number within it → change (`log.rs`).
pub(super) const CHANGES: TableDefinition<'_, (u64, u32), &[u8]> = TableDefinition::new("changes");
/// Name → value, 8-byte big-endian for the numbers below.
pub(super) const META: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("meta");

/// The newest sequence.
pub(super) const SEQUENCE: &str = "store.sequence";
/// The newest sequence whose changes were let go.
pub(super) const PRUNED: &str = "store.pruned";
/// When the store was made, in wall-clock milliseconds: tells a resume token of another store.
pub(super) const BIRTH: &str = "store.birth";
/// What every name of the gateway's own values begins with.
pub(super) const OWN: &str = "own.";

/// A consistent view of everything that was committed when it was taken.
pub(super) struct Snapshot {
    pub(super) documents: ReadOnlyTable<&'static [u8], &'static [u8]>,
    pub(super) sequence: u64,
    transaction: ReadTransaction,
}

impl Snapshot {
    pub(super) fn of(database: &Database) -> Result<Snapshot, StoreError> {
        let transaction = database.begin_read().map_err(broken)?;
        let sequence = number(&transaction.open_table(META).map_err(broken)?, SEQUENCE)?;
        Ok(Snapshot {
            documents: transaction.open_table(DOCUMENTS).map_err(broken)?,
            sequence,
            transaction,
        })
    }

    pub(super) fn meta(&self) -> Result<ReadOnlyTable<&'static str, &'static [u8]>, StoreError> {
        self.transaction.open_table(META).map_err(broken)
    }

    pub(super) fn changes(&self) -> Result<ReadOnlyTable<(u64, u32), &'static [u8]>, StoreError> {
        self.transaction.open_table(CHANGES).map_err(broken)
    }
}

/// A number of the meta table; 0 when it is not there.
pub(super) fn number(
    meta: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<u64, StoreError> {
    let value = meta.get(name).map_err(broken)?;
    let bytes = value.and_then(|value| <[u8; 8]>::try_from(value.value()).ok());
    Ok(bytes.map_or(0, u64::from_be_bytes))
}

/// A failure of the file or the disk under it.
pub(super) fn broken(error: impl Into<redb::Error>) -> StoreError {
    match error.into() {
        redb::Error::Io(error) => StoreError::Unavailable(format!("the store's disk: {error}")),
        redb::Error::PreviousIo => StoreError::Unavailable(
            "the store's disk failed before: what was acknowledged is there, writing goes on after a restart"
                .to_owned(),
        ),
        redb::Error::DatabaseAlreadyOpen => {
            StoreError::Unavailable("another process has the store open".to_owned())
        }
        error => StoreError::Internal(error.to_string()),
    }
}
