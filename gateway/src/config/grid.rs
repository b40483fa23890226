//! The settings of a grid of workers that match for the gateways (`docs/scaling.md`).

use std::time::Duration;

use freshet_invalidation::partition::{PARTITIONS_MAX, Shape};

use super::reader::Reader;
use super::settings::secs;

/// The grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// How many cells there are.
    pub shape: Shape,
    /// How long the streams in Redis keep what is written to them.
    pub retention: Duration,
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
        let retention = r.get(
            "retention",
            secs(30),
            "How long the grid's streams in Redis keep what is written to them, 10s to 10m: memory for as many seconds of changes. A worker that was away for longer has lost its part.",
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
        if !(secs(10)..=secs(600)).contains(&retention) {
            r.wrong("retention", "`grid.retention` must be from 10s to 10m");
        }
        (queries > 0).then_some(Grid {
            shape: Shape { queries, writes },
            retention,
        })
    }
}
