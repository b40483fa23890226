//! The records of a live window in their order, and what follows for the list that is shown when one of them comes,
//! goes or moves.

use std::cmp::Ordering;

use bson::{RawBson, RawBsonRef, RawDocumentBuf};
use freshet_core::value::compare::compare;
use freshet_core::value::path::Path;
use freshet_core::value::sort::{Direction, SortError, compare_keys, sort_key};

/// A record and its place. The place's last value is its `_id`.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) id: RawBson,
    pub(super) document: RawDocumentBuf,
}

/// An order, `_id` its last field.
pub(super) type Order = Vec<(Path, Direction)>;

impl Row {
    pub(super) fn is(&self, id: RawBsonRef<'_>) -> bool {
        compare(self.id.as_raw_bson_ref(), id) == Ordering::Equal
    }
}

/// Where among `rows`, which are in order, `row` belongs.
pub(super) fn place(rows: &[Row], row: &Row, order: &Order) -> Result<usize, SortError> {
    let key = sort_key(&row.document, order)?;
    let (mut low, mut high) = (0, rows.len());
    while low < high {
        let middle = low.midpoint(high);
        let other = sort_key(&rows[middle].document, order)?;
        match compare_keys(&other, &key, order) {
            Ordering::Less => low = middle + 1,
            _ => high = middle,
        }
    }
    Ok(low)
}

/// The part of the rows that is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) skip: usize,
    pub(super) limit: usize,
}

/// What happens to the shown list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shift {
    /// The place in the list that falls out of it.
    pub(super) leaves: Option<usize>,
    /// The place that is new in it, once the other is gone.
    pub(super) enters: Option<usize>,
    /// Whether both are the record that was written.
    pub(super) own: bool,
}

impl Frame {
    pub(super) fn end(self) -> usize {
        self.skip.saturating_add(self.limit)
    }

    /// How many of `rows` rows are shown.
    pub(super) fn shown(self, rows: usize) -> usize {
        rows.min(self.end()).saturating_sub(self.skip)
    }

    /// Those of the rows that are shown.
    pub(super) fn cut(self, rows: &[Row]) -> &[Row] {
        let shown = self.shown(rows.len());
        rows.get(self.skip..self.skip + shown).unwrap_or(&[])
    }

    /// A record was at row `from` of `before` rows, and is at row `to` of `after` rows now; `None`: beyond all rows.
    pub(super) fn shift(
        self,
        (from, before): (Option<usize>, usize),
        (to, after): (Option<usize>, usize),
    ) -> Shift {
        let side = |row: Option<usize>| match row {
            Some(row) if row < self.skip => Ordering::Less,
            Some(row) if row < self.end() => Ordering::Equal,
            _ => Ordering::Greater,
        };
        if self.limit == 0 || side(from) == side(to) && side(from) != Ordering::Equal {
            return Shift::default();
        }
        // The place in the list that opens or closes: the record's own, or the edge that the others are shifted over.
        let edge = |row: Option<usize>| match (side(row), row) {
            (Ordering::Less, _) => 0,
            (Ordering::Equal, Some(row)) => row - self.skip,
            _ => self.limit - 1,
        };
        let leaves = edge(from);
        let enters = edge(to);
        Shift {
            leaves: (leaves < self.shown(before)).then_some(leaves),
            enters: (enters < self.shown(after)).then_some(enters),
            own: side(from) == Ordering::Equal && side(to) == Ordering::Equal,
        }
    }
}
