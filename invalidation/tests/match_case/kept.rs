//! Counts and single groups that are kept from images alone, beside the answers of a case's history: after every write
//! they are what the database answers, or ask to be renewed.

use freshet_core::aggregate::{Incremental, SingleGroup, Step};
use freshet_core::predicate::Predicate;

use super::{Case, Found, Of, Watching, What};

/// What it came to.
#[derive(Clone, Debug, Default)]
pub struct KeptVerdict {
    pub checks: u64,
    pub renewals: u64,
    /// Query and state where what was kept was not the answer.
    pub wrong: Vec<(usize, usize)>,
}

/// Every count and single group among the queries.
pub fn judge_kept(case: &Case) -> KeptVerdict {
    let mut verdict = KeptVerdict::default();
    for (number, watching) in case.queries.iter().enumerate() {
        let group = watching.asked.single_group();
        if group.is_none() && watching.asked.what != What::Count {
            continue;
        }
        let state = wrong(case, watching, group.as_ref(), &mut verdict);
        verdict.wrong.extend(state.map(|state| (number, state)));
    }
    verdict
}

/// The first state at which it was wrong.
fn wrong(
    case: &Case,
    watching: &Watching,
    group: Option<&SingleGroup>,
    verdict: &mut KeptVerdict,
) -> Option<usize> {
    let filter = match group {
        Some(group) => group.filter.clone(),
        None => watching.asked.parse_filter()?,
    };
    let predicate = Predicate::compile(&filter).ok()?;
    let mut kept = renewed(group, &watching.found[0]);
    for (at, written) in case.history.writes.iter().enumerate() {
        let found = &watching.found[at + 1];
        if let Some(one) = kept.as_mut().filter(|_| written.of == Of::Records) {
            let before = written.before.as_deref().filter(|d| predicate.matches(d));
            let after = written.after.as_deref().filter(|d| predicate.matches(d));
            if one.apply(before.map(|d| &**d), after.map(|d| &**d)) == Step::Renew {
                kept = None;
            }
        }
        let Some(one) = &kept else {
            verdict.renewals += 1;
            kept = renewed(group, found);
            continue;
        };
        verdict.checks += 1;
        if !shows(one, found) {
            return Some(at + 1);
        }
    }
    None
}

/// As it is begun with; `None`: the database refuses.
fn renewed(group: Option<&SingleGroup>, found: &Found) -> Option<Incremental> {
    match (group, found) {
        (None, Found::Count(count)) => Some(Incremental::count(*count)),
        (Some(group), Found::Computed(computed)) => {
            Incremental::group(group, computed.renewal.as_deref())
        }
        _ => None,
    }
}

fn shows(kept: &Incremental, found: &Found) -> bool {
    match found {
        Found::Count(count) => kept.rows() == *count,
        Found::Computed(computed) => kept.answer().as_ref() == computed.documents.first(),
        // What it is kept from is evaluated all the same: a refusal shows there.
        Found::Records(_) | Found::Refused => false,
    }
}
