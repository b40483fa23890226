//! Plays a case's script and judges it.
//!
//! Positions are counts of writes. A copy was read after `seen` writes and goes out with a position that is at most
//! that (a lower bound, rule C1). Whenever all events up to W have been matched, every copy with `seen <= W` whose
//! answer differs from the one at W must have been notified at a position after its own: else it is missed.

use std::collections::{HashMap, VecDeque};

use bson::RawDocumentBuf;
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::key::Key;
use freshet_core::notification::Effect;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::matcher::{Affected, Shown, affected};
use freshet_invalidation::registry::{Registry, RegistryLimits};
use freshet_invalidation::{Images, Resource};

use super::verdict::{Missed, Notified, Side, Verdict};
use super::{Answered, Case, Of, Op, id_of};
use std::rc::Rc;

/// Far beyond what any script takes.
const SPAN_MS: u64 = 60_000;

struct Ticket {
    from: usize,
    read: Option<usize>,
}

struct Copy {
    position: usize,
    seen: usize,
}

/// One query under judgement.
struct Tried {
    resource: Resource,
    /// The answers, by number of writes.
    answers: Rc<Vec<Option<Answered>>>,
    kind: (Side, String),
    tickets: VecDeque<Ticket>,
    copies: Vec<Copy>,
    class: &'static str,
    /// The last write that touched it, as the sketch would know it.
    touched: usize,
}

struct Judge<'a> {
    case: &'a Case,
    registry: Registry,
    queries: Vec<Option<Tried>>,
    by_key: HashMap<Key, Vec<usize>>,
    written: usize,
    delivered: usize,
    verdict: Verdict,
}

/// Plays the script.
pub fn judge(case: &Case) -> Verdict {
    let mut judge = Judge::new(case);
    for op in &case.script {
        judge.step(*op);
    }
    judge.verdict
}

impl<'a> Judge<'a> {
    fn new(case: &'a Case) -> Judge<'a> {
        let mut registry = Registry::new(RegistryLimits {
            active_max: 10_000,
            members_max: case.members_max,
            database_active_max: 10_000,
            ticket_ms: 30_000,
        });
        for of in [Of::Records, Of::Others] {
            registry.declare(&of.namespace(), case.images);
        }
        let mut by_key: HashMap<Key, Vec<usize>> = HashMap::new();
        let tried = |(number, watching): (usize, &super::Watching)| {
            let resource = watching.asked.resource()?;
            by_key.entry(resource.key.clone()).or_default().push(number);
            Some(Tried {
                resource,
                answers: watching.answers.clone(),
                kind: (watching.asked.side(), watching.asked.kind()),
                class: watching.asked.class(),
                tickets: VecDeque::new(),
                copies: Vec::new(),
                touched: 0,
            })
        };
        let queries = case.queries.iter().enumerate().map(tried).collect();
        Judge {
            case,
            registry,
            queries,
            by_key,
            written: 0,
            delivered: 0,
            verdict: Verdict::default(),
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Write => self.written = (self.written + 1).min(self.case.history.writes.len()),
            Op::Deliver(count) => {
                for _ in 0..count.min(self.written - self.delivered) {
                    self.deliver(self.delivered);
                    self.delivered += 1;
                    let through = Position(self.delivered as u64);
                    self.registry.matched_through(through);
                    self.check();
                }
            }
            Op::Again(count) => {
                (self.delivered.saturating_sub(count)..self.delivered)
                    .for_each(|write| self.deliver(write));
            }
            Op::Begin(query) => self.begin(query),
            Op::Read(query) => {
                let written = self.written;
                let mut tickets = self.tickets(query);
                if let Some(ticket) = tickets.find(|ticket| ticket.read.is_none()) {
                    ticket.read = Some(written);
                }
            }
            Op::Settle(query, back) => self.settle(query, back),
            Op::Abandon(query) => {
                if let Some(Some(tried)) = self.queries.get_mut(query)
                    && tried.tickets.pop_front().is_some()
                {
                    self.registry.release(&tried.resource, Moment(0));
                }
            }
            Op::Refresh => {
                for query in 0..self.queries.len() {
                    let bare = |q: &Tried| q.copies.is_empty() && q.tickets.is_empty();
                    if self.queries[query].as_ref().is_some_and(bare) {
                        self.begin(query);
                        self.step(Op::Read(query));
                        self.settle(query, 0);
                    }
                }
            }
        }
    }

    fn tickets(&mut self, query: usize) -> impl Iterator<Item = &mut Ticket> {
        let tried = self.queries.get_mut(query).and_then(Option::as_mut);
        tried.into_iter().flat_map(|tried| tried.tickets.iter_mut())
    }

    fn begin(&mut self, query: usize) {
        let Some(Some(tried)) = self.queries.get_mut(query) else {
            return;
        };
        match self.registry.begin(&tried.resource, Moment(0)) {
            Ok(position) => tried.tickets.push_back(Ticket {
                from: usize::try_from(position.0).expect("small"),
                read: None,
            }),
            Err(_) => {
                self.verdict.undecidable += 1;
                self.queries[query] = None;
            }
        }
    }

    /// As the pipeline does it: a read before the ticket's position, or one whose key was touched after it, is not
    /// cached (rule C2).
    fn settle(&mut self, query: usize, back: usize) {
        let Some(Some(tried)) = self.queries.get_mut(query) else {
            return;
        };
        let read = |ticket: &Ticket| ticket.read.map(|read| (ticket.from, read));
        let Some((from, seen)) = tried.tickets.front().and_then(read) else {
            return;
        };
        tried.tickets.pop_front();
        let position = seen.saturating_sub(back).max(from);
        if let Some(answer) = &tried.answers[seen] {
            // Local values are read after the answer, and may have seen more writes.
            let later = tried.answers[self.written].as_ref().unwrap_or(answer);
            let shown = Shown {
                members: Some(&answer.members),
                window: answer.window.clone(),
                joined: later.joined.clone(),
            };
            let at = Position(position as u64);
            let (resource, now) = (&tried.resource, Moment(0));
            let active = self.registry.settle(resource, shown, at, SPAN_MS, now);
            if active && tried.touched <= position {
                tried.copies.push(Copy { position, seen });
            }
        }
        self.registry.release(&tried.resource, Moment(0));
    }

    fn deliver(&mut self, write: usize) {
        let written = &self.case.history.writes[write];
        let (before, after) = match (&written.images, self.case.images) {
            (Some(images), _) => images.clone(),
            (None, Images::Both) => (
                exact(written.before.as_deref()),
                exact(written.after.as_deref()),
            ),
            (None, Images::AfterOnly) => self.looked_up(write),
        };
        let namespace = written.of.namespace();
        let event = ChangeEvent {
            namespace: namespace.clone(),
            position: Position(write as u64 + 1),
            change: Change::Record {
                id: written.id.clone(),
                before,
                after,
            },
        };
        let collection = self.registry.collection(&namespace);
        match affected(collection, &event, Moment(0)) {
            Affected::Resources(touched) => {
                for one in touched {
                    self.notify(&one.key, one.effect, write + 1);
                }
            }
            Affected::Collection(..) => {}
        }
    }

    /// As of a collection without images: nothing before, and what the record is by now.
    fn looked_up(&self, write: usize) -> (Image, Image) {
        let written = &self.case.history.writes[write];
        let before = match &written.before {
            None => Image::Absent,
            Some(_) => Image::Unknown,
        };
        let after = match &written.after {
            None => Image::Absent,
            // An insert and a replacement carry their document; an update is looked up.
            Some(after) if written.before.is_none() => Image::Known((**after).clone()),
            Some(after) => {
                let id = id_of(after);
                let later = self.case.history.writes[write..self.written].iter().rev();
                let mut last =
                    later.filter(|one| one.of == written.of && one.id.as_raw_bson_ref() == id);
                let now = last.next().and_then(|one| one.after.as_deref());
                Image::Later(now.cloned())
            }
        };
        (before, after)
    }

    fn notify(&mut self, key: &Key, effect: Effect, position: usize) {
        for query in self.by_key.get(key).into_iter().flatten() {
            let Some(tried) = &mut self.queries[*query] else {
                continue;
            };
            tried.touched = tried.touched.max(position);
            let bytes = |state: usize| tried.answers[state].as_ref().map(|answer| &answer.bytes);
            let now = bytes(position);
            let (stale, kept): (Vec<Copy>, Vec<Copy>) = std::mem::take(&mut tried.copies)
                .into_iter()
                .partition(|copy| copy.position < position);
            if !stale.is_empty() {
                let needless = stale.iter().all(|copy| bytes(copy.seen) == now);
                if needless {
                    self.verdict.examples.push((*query, position));
                }
                let notified = Notified {
                    all: 1,
                    needless: needless.into(),
                };
                let verdict = &mut self.verdict;
                let effect = format!("{} {effect:?}", tried.class);
                let kind = tried.kind.clone();
                verdict.by_kind.entry(kind).or_default().add(notified);
                verdict.by_effect.entry(effect).or_default().add(notified);
            }
            tried.copies = kept;
        }
    }

    fn check(&mut self) {
        let matched = self.delivered;
        // What was looked up may be later than the write it is taken for: only what is out once everything is matched
        // has to be right.
        let looked_up = self.case.images == Images::AfterOnly;
        if looked_up && matched < self.written {
            return;
        }
        for (number, tried) in self.queries.iter_mut().enumerate() {
            let Some(tried) = tried else { continue };
            let bytes = |state: usize| tried.answers[state].as_ref().map(|answer| &answer.bytes);
            let now = bytes(matched);
            let verdict = &mut self.verdict;
            tried.copies.retain(|copy| {
                if copy.seen > matched {
                    return true;
                }
                verdict.checks += 1;
                let fresh = bytes(copy.seen) == now;
                if !fresh {
                    verdict.missed.push(Missed {
                        query: number,
                        position: copy.position,
                        seen: copy.seen,
                        matched,
                    });
                }
                fresh
            });
        }
    }
}

fn exact(document: Option<&RawDocumentBuf>) -> Image {
    document.map_or(Image::Absent, |document| Image::Known(document.clone()))
}
