//! The settings of a grid of workers that match for the gateways (`docs/scaling.md`).

use freshet_invalidation::partition::{PARTITIONS_MAX, Shape};

use super::reader::Reader;

/// The grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// How many cells there are.
    pub shape: Shape,
    /// Entries that each stream in Redis keeps, about.
    pub retained_entries_max: u64,
}

impl Grid {
    /// Reads the table; mistakes go to the reader's report. `None`: each gateway matches for itself.
    pub(super) fn read(r: &mut Reader<'_>) -> Option<Grid> {
        let queries: u32 = r.get(
            "query_partitions",
            0,
            "Parts of the queries, each matched by workers of its own (`freshet worker`); 0: each gateway matches for itself.",
        );
        let writes: u32 = r.get(
            "write_partitions",
            1,
            "Parts of the writes; there is a worker for each query partition and write partition.",
        );
        let retained_entries_max = r.get(
            "retained_entries_max",
            20_000,
            "Entries that each of the grid's streams in Redis keeps, about; a worker that was away for longer has lost its part.",
        );
        let range = 1..=PARTITIONS_MAX;
        if queries > 0 && !range.contains(&queries) {
            let what = format!("`grid.query_partitions` must be at most {PARTITIONS_MAX}");
            r.wrong("query_partitions", what);
        }
        if !range.contains(&writes) {
            let what = format!("`grid.write_partitions` must be from 1 to {PARTITIONS_MAX}");
            r.wrong("write_partitions", what);
        }
        if retained_entries_max < 100 {
            r.wrong(
                "retained_entries_max",
                "`grid.retained_entries_max` must be at least 100",
            );
        }
        (queries > 0).then_some(Grid {
            shape: Shape { queries, writes },
            retained_entries_max,
        })
    }
}
