//! Records and filters that are meant to hurt, from the pool of the differential tests (`core/tests/nasty`): every type,
//! nearly equal numbers, arrays in arrays, paths that end in the wrong place.

#[path = "../../../core/tests/nasty/mod.rs"]
mod nasty;

use bson::{Document, RawDocumentBuf};

use self::nasty::Nasty;
use super::case::{Asked, What};
use super::pool::Choice;
use super::record::{Plan, Planned};

const RECORDS: i32 = 30;
const WRITES: usize = 100;
const FILTERS: usize = 40;

/// A history and its queries.
pub(super) fn plan(choice: &mut Choice) -> (Plan, Vec<Asked>) {
    let mut nasty = Nasty::of(choice.seed());
    let mut record = |id: i32| Document::try_from(&*nasty.stored(id)).ok();
    let records: Vec<Document> = (0..RECORDS).filter_map(&mut record).collect();
    let mut writes = Vec::new();
    for _ in 0..WRITES {
        let id = i32::try_from(choice.below(45)).unwrap_or(0);
        writes.extend(match choice.percent(80) {
            true => record(id).map(Planned::Replace),
            false => Some(Planned::Delete(id)),
        });
    }
    let asked = (0..FILTERS).map(|_| {
        let filter = nasty.filter();
        asked(choice, filter)
    });
    (Plan { writes, records }, asked.collect())
}

fn asked(choice: &mut Choice, filter: RawDocumentBuf) -> Asked {
    let sort = choice.one(&["", "", "a", "-a", "b", "-b.a", "c", "a.b", "a.0", "-c,_id"]);
    let what = match choice.percent(15) {
        true => What::Count,
        false => match choice.page(sort) {
            What::Page {
                skip, limit, ids, ..
            } => What::Page {
                sort: sort.to_owned(),
                skip,
                limit,
                fields: choice
                    .one(&["", "", "a", "-a", "a.b", "-b.a", "b.c"])
                    .to_owned(),
                ids,
            },
            What::Count => What::Count,
        },
    };
    Asked { filter, what }
}
