//! Makes a failing case smaller for as long as it fails: one query, fewer steps, fewer writes, records, clauses and
//! fields. What changes the answers is recorded again.

use std::rc::Rc;

use bson::{Bson, Document, RawDocumentBuf};
use freshet_invalidation::Images;

use super::case::{Asked, Case, Of, Op, What};
use super::record::{Plan, Planned, Recorder};

type Fails<'a> = &'a dyn Fn(&Case) -> bool;

/// Recordings at most.
const RECORDINGS_MAX: usize = 400;

/// The smallest case found that still fails.
pub(super) async fn shrink(
    recorder: &mut Recorder,
    case: Case,
    fails: Fails<'_>,
) -> anyhow::Result<Case> {
    eprintln!("a failure; making it smaller");
    let mut case = steps(one_query(case, fails), fails);
    let mut recordings = 0;
    loop {
        let mut smaller = None;
        for candidate in candidates(&case) {
            recordings += 1;
            if recordings > RECORDINGS_MAX {
                return Ok(case);
            }
            if let Some(recorded) = candidate.record(recorder, &case).await?
                && fails(&recorded)
            {
                smaller = Some(recorded);
                break;
            }
        }
        match smaller {
            Some(smaller) => case = steps(smaller, fails),
            None => return Ok(case),
        }
    }
}

/// Only one of the queries.
fn one_query(case: Case, fails: Fails<'_>) -> Case {
    for (number, query) in case.queries.iter().enumerate() {
        let kept = |of: usize| (of == number).then_some(0);
        let script = case.script.iter().filter_map(|op| {
            Some(match *op {
                Op::Begin(of) => Op::Begin(kept(of)?),
                Op::Read(of) => Op::Read(kept(of)?),
                Op::Settle(of, back) => Op::Settle(kept(of)?, back),
                Op::Abandon(of) => Op::Abandon(kept(of)?),
                other => other,
            })
        });
        let one = Case {
            queries: vec![query.clone()],
            script: script.collect(),
            ..case.clone()
        };
        if fails(&one) {
            return one;
        }
    }
    case
}

/// Fewer steps: ever smaller parts of the script are left out. Writes stay.
fn steps(mut case: Case, fails: Fails<'_>) -> Case {
    let mut part = case.script.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < case.script.len() {
            let end = (at + part).min(case.script.len());
            let mut script = case.script[..at].to_vec();
            let kept = case.script[at..end].iter().filter(|op| **op == Op::Write);
            script.extend(kept);
            let unchanged = script.len() == end;
            script.extend_from_slice(&case.script[end..]);
            let shorter = Case {
                script,
                ..case.clone()
            };
            if !unchanged && fails(&shorter) {
                case = shorter;
            }
            at = end;
        }
        part /= 2;
    }
    case
}

/// Something less in it.
struct Candidate {
    plan: Plan,
    asked: Vec<Asked>,
    script: Vec<Op>,
}

impl Candidate {
    async fn record(self, recorder: &mut Recorder, case: &Case) -> anyhow::Result<Option<Case>> {
        let writes = self.plan.writes.len();
        let recorded = recorder
            .record(&self.plan, &self.asked, Images::Both)
            .await?;
        let (mut history, queries) = recorded;
        if history.writes.len() != writes {
            return Ok(None); // a write became one without effect: the steps would not fit
        }
        // Images that were missing: as many writes are left, they are missing still.
        if writes == case.history.writes.len() {
            for (new, old) in history.writes.iter_mut().zip(&case.history.writes) {
                new.images.clone_from(&old.images);
            }
        }
        Ok(Some(Case {
            images: case.images,
            members_max: case.members_max,
            queries,
            history,
            script: self.script,
        }))
    }
}

/// The history as a plan of states.
fn plan(case: &Case) -> Plan {
    let document = |raw: &RawDocumentBuf| Document::try_from(&**raw).unwrap_or_default();
    let writes = case
        .history
        .writes
        .iter()
        .map(|written| match &written.after {
            Some(after) => (written.of, Planned::Replace(document(after))),
            None => {
                let id = written.id.as_raw_bson_ref().as_i32().unwrap_or_default();
                (written.of, Planned::Delete(id))
            }
        });
    let documents = |all: &[Rc<RawDocumentBuf>]| all.iter().map(|one| document(one)).collect();
    Plan {
        records: documents(&case.history.before),
        others: documents(&case.history.others),
        writes: writes.collect(),
    }
}

fn candidates(case: &Case) -> Vec<Candidate> {
    let asked: Vec<Asked> = case.queries.iter().map(|one| one.asked.clone()).collect();
    let whole = plan(case);
    let with = {
        let (asked, script) = (asked.clone(), case.script.clone());
        move |plan: Plan| Candidate {
            plan,
            asked: asked.clone(),
            script: script.clone(),
        }
    };
    let mut all = Vec::new();
    // Writes, the last ones first, then records; in ever smaller parts.
    for part in parts(whole.writes.len()) {
        for at in (0..whole.writes.len()).step_by(part).rev() {
            let taken = at..(at + part).min(whole.writes.len());
            let mut plan = whole.clone();
            plan.writes.drain(taken.clone());
            let mut candidate = with(plan);
            let mut writes = 0..;
            let mut stays =
                |op: &Op| *op != Op::Write || !taken.contains(&writes.next().unwrap_or(0));
            candidate.script.retain(&mut stays);
            all.push(candidate);
        }
    }
    for of in [Of::Records, Of::Others] {
        let there = documents(&mut whole.clone(), of).len();
        for part in parts(there) {
            for at in (0..there).step_by(part) {
                let mut plan = whole.clone();
                documents(&mut plan, of).drain(at..(at + part).min(there));
                all.push(with(plan));
            }
        }
    }
    for name in names(&whole) {
        let mut plan = whole.clone();
        each_document(&mut plan, |document| drop(document.remove(&name)));
        all.push(with(plan));
    }
    if let [one] = &asked[..] {
        let filter = Document::try_from(&*one.filter).unwrap_or_default();
        for smaller in smaller_filters(&filter) {
            let mut candidate = with(whole.clone());
            let raw = RawDocumentBuf::try_from(&smaller);
            candidate.asked[0].filter = raw.unwrap_or_default();
            all.push(candidate);
        }
        if let What::Aggregate { stages } = &one.what {
            for smaller in smaller_pipelines(stages) {
                let mut candidate = with(whole.clone());
                candidate.asked[0].what = What::Aggregate { stages: smaller };
                all.push(candidate);
            }
        }
    }
    all
}

/// Half of so many, half of that, and so on down to one.
fn parts(of: usize) -> impl Iterator<Item = usize> {
    let half = |part: &usize| (*part > 1).then(|| part.div_ceil(2));
    std::iter::successors((of > 0).then(|| of.div_ceil(2)), half)
}

fn documents(plan: &mut Plan, of: Of) -> &mut Vec<Document> {
    match of {
        Of::Records => &mut plan.records,
        Of::Others => &mut plan.others,
    }
}

fn each_document(plan: &mut Plan, mut change: impl FnMut(&mut Document)) {
    plan.records.iter_mut().for_each(&mut change);
    plan.others.iter_mut().for_each(&mut change);
    for (_, write) in &mut plan.writes {
        if let Planned::Replace(document) | Planned::Insert(document) = write {
            change(document);
        }
    }
}

fn names(plan: &Plan) -> Vec<String> {
    let mut names = Vec::new();
    let mut plan = plan.clone();
    each_document(&mut plan, |document| {
        for name in document.keys() {
            if name != "_id" && !names.contains(name) {
                names.push(name.clone());
            }
        }
    });
    names
}

/// One clause less, at the top or within a list of clauses.
fn smaller_filters(filter: &Document) -> Vec<Document> {
    let mut all = Vec::new();
    for (name, value) in filter {
        let mut less = filter.clone();
        less.remove(name);
        all.push(less);
        let parts = match value {
            bson::Bson::Array(clauses) if name.starts_with('$') => clauses.len(),
            bson::Bson::Document(operators) => operators.len(),
            _ => 0,
        };
        for at in (0..parts).filter(|_| parts > 1) {
            let mut less = filter.clone();
            match less.get_mut(name) {
                Some(bson::Bson::Array(clauses)) => drop(clauses.remove(at)),
                Some(bson::Bson::Document(operators)) => {
                    let key = operators.keys().nth(at).cloned();
                    key.and_then(|key| operators.remove(key));
                }
                _ => {}
            }
            all.push(less);
        }
    }
    all
}

/// One stage less, or one part of a stage, those of branches included. Not every one of them is a pipeline.
fn smaller_pipelines(stages: &[RawDocumentBuf]) -> Vec<Vec<RawDocumentBuf>> {
    let decoded = stages.iter().map(|stage| Document::try_from(&**stage));
    let stages = decoded.map(|stage| stage.unwrap_or_default().into());
    let smaller = smaller_values(&Bson::Array(stages.collect()));
    let encoded = smaller.into_iter().filter_map(|stages| {
        let stages = stages.as_array()?.iter();
        let raw = stages.map(|stage| RawDocumentBuf::try_from(stage.as_document()?).ok());
        raw.collect()
    });
    encoded.collect()
}

/// Without one of its parts, or of the parts of a part.
fn smaller_values(value: &Bson) -> Vec<Bson> {
    let mut all = Vec::new();
    match value {
        Bson::Array(members) => {
            for at in 0..members.len() {
                let mut less = members.clone();
                less.remove(at);
                all.push(less.into());
                for smaller in smaller_values(&members[at]) {
                    let mut less = members.clone();
                    less[at] = smaller;
                    all.push(less.into());
                }
            }
        }
        Bson::Document(fields) => {
            for (name, field) in fields {
                if fields.len() > 1 {
                    let mut less = fields.clone();
                    less.remove(name);
                    all.push(less.into());
                }
                for smaller in smaller_values(field) {
                    let mut less = fields.clone();
                    less.insert(name.clone(), smaller);
                    all.push(less.into());
                }
            }
        }
        _ => {}
    }
    all
}
