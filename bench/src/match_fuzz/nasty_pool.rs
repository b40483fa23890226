//! Records and filters that are meant to hurt, from the pool of the differential tests (`core/tests/nasty`): every type,
//! nearly equal numbers, arrays in arrays, paths that end in the wrong place.

#[path = "../../../core/tests/nasty/mod.rs"]
mod nasty;

use bson::{Document, RawDocumentBuf, doc};

use self::nasty::Nasty;
use super::case::{Asked, Of, What};
use super::pipelines::raw;
use super::pool::Choice;
use super::record::{Plan, Planned};

const RECORDS: i32 = 30;
const WRITES: usize = 100;
const FILTERS: usize = 40;
/// The other collection's.
const OTHERS: i32 = 12;
const WRITES_OF_OTHERS: usize = 30;
const PIPELINES: usize = 8;

/// A history and its queries.
pub(super) fn plan(choice: &mut Choice) -> (Plan, Vec<Asked>) {
    let mut nasty = Nasty::of(choice.seed());
    let records: Vec<Document> = (0..RECORDS)
        .filter_map(|id| record(&mut nasty, id))
        .collect();
    let mut plan = Plan {
        records,
        ..Plan::default()
    };
    for _ in 0..WRITES {
        let write = write(choice, &mut nasty, 45);
        plan.writes.extend(write.map(|write| (Of::Records, write)));
    }
    let asked = (0..FILTERS).map(|_| {
        let filter = nasty.filter();
        asked(choice, filter)
    });
    let asked = asked.collect();
    (plan, asked)
}

/// What joins take: another collection, and pipelines.
pub(super) fn with_joins(choice: &mut Choice, plan: &mut Plan, all: &mut Vec<Asked>) {
    let mut nasty = Nasty::of(choice.seed());
    plan.others = (0..OTHERS)
        .filter_map(|id| record(&mut nasty, id))
        .collect();
    for _ in 0..WRITES_OF_OTHERS {
        let at = choice.below(plan.writes.len() + 1);
        if let Some(write) = write(choice, &mut nasty, 16) {
            plan.writes.insert(at, (Of::Others, write));
        }
    }
    for _ in 0..PIPELINES {
        let filter = match choice.percent(40) {
            true => RawDocumentBuf::new(),
            false => nasty.filter(),
        };
        all.push(computed(choice, filter));
    }
}

fn record(nasty: &mut Nasty, id: i32) -> Option<Document> {
    Document::try_from(&*nasty.stored(id)).ok()
}

fn write(choice: &mut Choice, nasty: &mut Nasty, ids: usize) -> Option<Planned> {
    let id = i32::try_from(choice.below(ids)).unwrap_or(0);
    match choice.percent(80) {
        true => record(nasty, id).map(Planned::Replace),
        false => Some(Planned::Delete(id)),
    }
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
            other => other,
        },
    };
    Asked { filter, what }
}

/// A join as a rule.
fn computed(choice: &mut Choice, filter: RawDocumentBuf) -> Asked {
    let path =
        |choice: &mut Choice| choice.one(&["a", "b", "c", "a.b", "b.a", "b.c", "a.0", "_id"]);
    let (here, there) = (path(choice), path(choice));
    let field = format!("${}", path(choice));
    let join = doc! { "$lookup": {
        "from": choice.one(&["others", "others", "records"]),
        "localField": here,
        "foreignField": there,
        "as": choice.one(&["found", "found", "b", "a.b"]),
    } };
    let stages = match choice.below(8) {
        0 => vec![doc! { "$group": {
            "_id": &field, "n": { "$count": {} }, "all": { "$addToSet": "$b" },
        } }],
        1 => vec![doc! { "$group": {
            "_id": null, "n": { "$sum": &field }, "low": { "$min": "$a" }, "high": { "$max": "$b.a" },
        } }],
        2 => vec![
            doc! { "$unwind": { "path": "$a", "preserveNullAndEmptyArrays": choice.percent(50) } },
            join,
        ],
        3 => vec![
            join,
            doc! { "$project": { "n": { "$size": { "$ifNull": ["$found", []] } } } },
        ],
        4 => vec![doc! { "$project": { "a": 1, "b": &field } }, join],
        _ => vec![join],
    };
    Asked {
        filter,
        what: What::Aggregate {
            stages: raw(&stages),
        },
    }
}
