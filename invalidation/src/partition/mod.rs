//! The grid: matching spread over cells, one for each query partition (row) and write partition (column). Every change
//! goes to all cells of its column, every query to all cells of its row; so each pair of a change and a query meets in
//! exactly one cell (InvaliDB's two-dimensional partitioning: `docs/scaling.md`).
//!
//! A cell is a [`crate::Pipeline`] of its own: it matches, reports to the sketch, purges. What a gateway does is
//! register the queries whose answers it gives out ([`Client`]), and drop from its tier what cells tell it changed.
//! Between them are streams ([`streams`]): in Redis, or in one process.
//!
//! Who loses what makes exactly its own queries stale (rule C8, for one row): the row's generation grows, which refuses
//! reads under way; then every copy of it that is out is made stale and purged.

mod client;
mod feed;
pub mod ingest;
mod notices;
mod page;
mod requests;
mod retained;
pub mod streams;
mod wire;

use std::fmt;
use std::str::FromStr;

use bson::RawBsonRef;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::value::id::RecordId;

use crate::registry::Resource;

pub use client::Client;
pub use feed::CellSource;
pub(crate) use notices::{Board, Heard, Notice};
pub(crate) use requests::{Request, Verdict, answer_requests};
pub(crate) use retained::Retained;

/// Rows or columns at most.
pub const PARTITIONS_MAX: u32 = 1_024;

/// How many cells there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows: query partitions.
    pub queries: u32,
    /// Columns: write partitions.
    pub writes: u32,
}

/// One cell's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Of how many.
    pub shape: Shape,
    /// Its query partition, from 0.
    pub row: u32,
    /// Its write partition, from 0.
    pub column: u32,
}

impl Shape {
    /// The query partition of a resource. A record's forms are where the record is.
    #[must_use]
    pub fn row_of(&self, resource: &Resource) -> u32 {
        self.row_of_key(&resource.form_of().unwrap_or_else(|| resource.key.clone()))
    }

    /// The query partition of a query's or a record's own key.
    #[must_use]
    pub fn row_of_key(&self, key: &Key) -> u32 {
        part(key, self.queries)
    }

    /// The write partition of a record. One whose `_id` no key can name is in the first.
    #[must_use]
    pub fn column_of(&self, namespace: &Namespace, id: RawBsonRef<'_>) -> u32 {
        let named = RecordId::of(id).ok();
        named.map_or(0, |id| {
            part(&namespace.record_key(id.segment()), self.writes)
        })
    }
}

/// The same for all who ask, whatever their machine and version.
fn part(key: &Key, parts: u32) -> u32 {
    let [a, b, c, d, ..] = key.hash().0;
    u32::from_le_bytes([a, b, c, d]) % parts.max(1)
}

impl Cell {
    /// Whether the cell answers for what becomes of a record's own resource: one of its column does.
    #[must_use]
    pub fn names(&self, record: &Key) -> bool {
        self.shape.row_of_key(record) == self.row
    }

    /// Its name among those that feed the sketch.
    #[must_use]
    pub fn member(&self) -> String {
        format!("{MEMBER}{self}")
    }

    /// The cell with this name; `None`: it is no cell's.
    #[must_use]
    pub fn of_member(member: &str) -> Option<Cell> {
        member.strip_prefix(MEMBER)?.parse().ok()
    }
}

/// What a cell's name begins with. The sketch's functions know it: a cell that is gone takes its row with it and not
/// everything.
const MEMBER: &str = "cell:";

/// `ROW/ROWS:COLUMN/COLUMNS`.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shape { queries, writes } = self.shape;
        write!(f, "{}/{queries}:{}/{writes}", self.row, self.column)
    }
}

impl FromStr for Cell {
    type Err = String;

    fn from_str(text: &str) -> Result<Cell, String> {
        let (row, column) = text.split_once(':').ok_or("no `:`")?;
        let (Part { index: row, of }, column) = (row.parse()?, column.parse::<Part>()?);
        let shape = Shape {
            queries: of,
            writes: column.of,
        };
        Ok(Cell {
            shape,
            row,
            column: column.index,
        })
    }
}

/// One of several partitions: `INDEX/COUNT`, the first is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub index: u32,
    /// Of how many.
    pub of: u32,
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let form = || format!("{text:?} is not of the form INDEX/COUNT, as in 0/2");
        let (index, of) = text.split_once('/').ok_or_else(form)?;
        let (Ok(index), Ok(of)) = (index.parse(), of.parse()) else {
            return Err(form());
        };
        match index < of && of <= PARTITIONS_MAX {
            true => Ok(Part { index, of }),
            false => Err(format!(
                "{text}: there are 1 to {PARTITIONS_MAX} partitions, and the first is 0"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_named_and_read_again() {
        let cell: Cell = "1/2:3/4".parse().expect("a cell");
        assert_eq!((cell.row, cell.column), (1, 3));
        assert_eq!(Cell::of_member(&cell.member()), Some(cell));
        assert_eq!(Cell::of_member("host:8080"), None);
        for wrong in ["", "1", "2/2", "0/0", "-1/2", "1/9999", "1:2"] {
            assert!(wrong.parse::<Part>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_key_is_in_one_row_and_all_rows_are_used() {
        let shape = Shape {
            queries: 4,
            writes: 1,
        };
        let mut seen = [0; 4];
        for n in 0..400 {
            let key = Key::from(format!("/v1/d/c?filter={n}"));
            seen[shape.row_of_key(&key) as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    }
}
