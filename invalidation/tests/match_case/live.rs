//! Live windows beside the answers of a case's history: each page is kept live, its events are replayed as a client
//! would, and the list is compared with what the database found after every write.

use freshet_core::predicate::Predicate;
use freshet_core::query::Query;
use freshet_core::time::Moment;
use freshet_invalidation::View;
use freshet_invalidation::matcher::live::{Event, EventKind, LiveWindow, Step};

use super::{Case, Found, Of, Watching};
use bson::RawDocumentBuf;

/// What it came to.
#[derive(Clone, Debug, Default)]
pub struct LiveVerdict {
    pub checks: u64,
    pub renewals: u64,
    /// Query and state where the list was not the answer.
    pub wrong: Vec<(usize, usize)>,
}

/// Between two writes, milliseconds.
const STEP_MS: u64 = 200;

/// `lag`: the window is told of so many writes at once, and read between while it has not been told of them yet.
pub fn judge_live(case: &Case, every: usize, lag: usize) -> LiveVerdict {
    let mut verdict = LiveVerdict::default();
    for (number, watching) in case.queries.iter().enumerate().step_by(every.max(1)) {
        let Some(query) = watching.asked.query() else {
            continue;
        };
        if let Some(state) = wrong(case, watching, &query, lag.max(1), &mut verdict) {
            verdict.wrong.push((number, state));
        }
    }
    verdict
}

struct Client<'a> {
    watching: &'a Watching,
    window: LiveWindow,
    list: Vec<RawDocumentBuf>,
    /// The window's own time: a renewal is waited for.
    now: u64,
}

impl Client<'_> {
    /// Follows a step; a renewal reads the answer at `state`. False: the database refuses.
    fn follow(&mut self, mut step: Step, state: usize, verdict: &mut LiveVerdict) -> bool {
        loop {
            match step {
                Step::Events(events) => {
                    events.into_iter().for_each(|event| self.replay(event));
                    return true;
                }
                Step::Renew(not_before) => {
                    let Found::Records(all) = &self.watching.found[state] else {
                        return false;
                    };
                    verdict.renewals += 1;
                    self.now = self.now.max(not_before.0);
                    let wanted = self.window.read(Moment(self.now));
                    let found = all.iter().take(wanted).map(|one| (**one).clone());
                    step = self.window.load(found.collect(), all.len() > wanted);
                }
            }
        }
    }

    fn replay(&mut self, event: Event) {
        let list = &mut self.list;
        match (event.kind, event.document) {
            (EventKind::Add, Some(document)) => list.insert(event.index, document),
            (EventKind::Change, Some(document)) => list[event.index] = document,
            (EventKind::Move { from }, Some(document)) => {
                list.remove(from);
                list.insert(event.index, document);
            }
            _ => drop(list.remove(event.index)),
        }
    }

    fn shows(&self, query: &Query, state: usize) -> bool {
        let Found::Records(all) = &self.watching.found[state] else {
            return true;
        };
        let (skip, limit) = (query.skip as usize, query.limit as usize);
        let expected: Vec<_> = all.iter().skip(skip).take(limit).collect();
        let same = |a: &RawDocumentBuf, b: &RawDocumentBuf| match (
            query.projection.apply(a),
            query.projection.apply(b),
        ) {
            (Ok(a), Ok(b)) => a.as_bytes() == b.as_bytes(),
            _ => false,
        };
        let pairs = self.list.iter().zip(&expected);
        self.list.len() == expected.len() && pairs.into_iter().all(|(a, b)| same(a, b))
    }
}

/// The first state at which the list was wrong.
fn wrong(
    case: &Case,
    watching: &Watching,
    query: &Query,
    lag: usize,
    verdict: &mut LiveVerdict,
) -> Option<usize> {
    let predicate = Predicate::compile(&query.effective_filter()).ok()?;
    let view = View::Projection(query.projection.clone());
    let (skip, limit) = (query.skip as usize, query.limit as usize);
    let mut client = Client {
        watching,
        window: LiveWindow::new(&query.sort, skip, limit, view),
        list: Vec::new(),
        now: 0,
    };
    let mut current = client.follow(Step::Renew(Moment(0)), 0, verdict);
    let writes = &case.history.writes;
    for start in (0..writes.len()).step_by(lag) {
        let end = writes.len().min(start + lag);
        for written in &writes[start..end] {
            client.now += STEP_MS;
            if written.of == Of::Others {
                continue;
            }
            let after = written.after.as_deref();
            let matching = after.filter(|document| predicate.matches(document));
            let id = written.id.as_raw_bson_ref();
            let step = client.window.apply(id, matching.map(|one| &**one));
            // What it reads has seen writes that it is told of only afterwards.
            current = client.follow(step, end, verdict);
        }
        if !current {
            continue; // the database refuses, and so the window stays lapsed
        }
        verdict.checks += 1;
        if !client.shows(query, end) {
            return Some(end);
        }
    }
    None
}
