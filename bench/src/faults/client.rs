//! A client: a browser's cache, and a session that decides as the SDK does. It reads through either edge, now and then
//! writes and reads again, and has every answer judged. A page that is loaded anew has a new session over the old cache.

mod request;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use freshet_core::consistency::{
    Decision, Held, Mode, Policy, Reason, Refresh, Session, Target, decide,
};
use parking_lot::Mutex;
use rand::RngExt;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use self::request::Fetched;
use super::browser::Browser;
use super::history::Value;
use super::judge::{Facts, Floor, Read, Shown, Violation, floors, judge, raise};
use super::load::Load;
use super::tally::Told;
use super::universe::{COLLECTIONS, Place, Question, RECORDS, skewed};

/// The core's clock counts whole milliseconds: an age may be that much larger than it says.
const SLACK_US: u64 = 1_000;

/// Resources that a client reads again and again: what it has in its cache matters.
const FAVOURITES: usize = 12;

/// How a client comes to its decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Habit {
    /// As the SDK does.
    Careful,
    /// It never asks for the sketch and believes every cache: what the checker has to notice.
    Believing,
}

/// What a client does, as far as chance decides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub(super) habit: Habit,
    pub(super) delta_ms: u64,
    /// Between two reads.
    pub(super) pause: Duration,
}

/// The client.
pub(super) struct Client {
    load: Arc<Load>,
    manner: Manner,
    page: Mutex<Page>,
    browser: Mutex<Browser>,
}

/// What is gone when the page is loaded anew.
#[derive(Default)]
struct Page {
    session: Session,
    refresh: Refresh,
    /// By collection: what the session wrote.
    own: [Floor; COLLECTIONS.len()],
    /// By key: what the session was shown.
    shown: HashMap<String, Floor>,
}

impl Client {
    pub(super) fn new(load: Arc<Load>, manner: Manner) -> Arc<Client> {
        Arc::new(Client {
            load,
            manner,
            page: Mutex::default(),
            browser: Mutex::default(),
        })
    }

    /// Reads and writes until `stop`.
    pub(super) async fn run(self: Arc<Client>, mut random: StdRng, stop: CancellationToken) {
        let mut favourites = [(); FAVOURITES].map(|()| Question::any(&mut random));
        while !stop.is_cancelled() {
            let pause = self.manner.pause.mul_f64(random.random_range(0.5..1.5));
            tokio::time::sleep(pause).await;
            match random.random_range(0..1_000) {
                0..2 => *self.page.lock() = Page::default(),
                2..32 if self.manner.habit == Habit::Careful => self.write(&mut random).await,
                _ => {
                    let question = next_question(&mut favourites, &mut random);
                    let linearizable = random.random_ratio(1, 50);
                    self.read(&question, linearizable, &mut random).await;
                }
            }
        }
    }

    /// Reads once, and has the answer judged. Answers what was shown, and its tag.
    async fn read(
        self: &Arc<Client>,
        question: &Question,
        linearizable: bool,
        random: &mut StdRng,
    ) -> Option<(Shown, Option<String>)> {
        let key = question.key().ok()?.as_str().to_owned();
        let (scope, record) = question.scope();
        let target = Target {
            key: &key,
            scope: &scope,
            record,
            linearizable,
        };
        let edge = random.random_range(0..self.load.edges.len());
        self.refresh_if_due(edge, random.random_range(0..1_000));
        let began = self.load.clock.us();
        let decision = self.decide(&target);
        let read = self.fetch_shown(&target, decision, edge).await;
        let ended = self.load.clock.us();
        let shown = read
            .as_ref()
            .ok()
            .and_then(|(fetched, _)| question.read(fetched.found, &fetched.answer.body));
        let (Ok((fetched, decision)), Some(shown)) = (read, shown) else {
            self.load.count(|tally| tally.reads_failed += 1);
            return None;
        };
        let bound = match linearizable || self.manner.delta_ms == 0 {
            true => 0,
            false => self.manner.delta_ms * 1_000 + SLACK_US,
        };
        let read = Read {
            began,
            ended,
            bound,
        };
        self.judge(question, &key, &shown, read, decision, &fetched);
        Some((shown, fetched.etag))
    }

    fn decide(&self, target: &Target<'_>) -> Decision {
        if self.manner.habit == Habit::Believing {
            return Decision {
                mode: Mode::Default,
                reason: Reason::Fresh,
            };
        }
        decide(
            &self.page.lock().session,
            target,
            &self.policy(),
            self.load.now(),
        )
    }

    fn policy(&self) -> Policy {
        Policy {
            delta_ms: self.manner.delta_ms,
            causal: false,
        }
    }

    /// Fetches; past the caches once more where that would take back what was shown (C12). What comes of it is shown.
    async fn fetch_shown(
        &self,
        target: &Target<'_>,
        decision: Decision,
        edge: usize,
    ) -> anyhow::Result<(Fetched, Decision)> {
        let mut mode = decision.mode;
        let mut fetched = self.fetch(target.key, mode, edge).await?;
        if self.manner.habit == Habit::Careful && self.takes_back(target, &fetched, mode) {
            mode = Mode::Reload;
            fetched = self.fetch(target.key, mode, edge).await?;
        }
        let mut page = self.page.lock();
        let watermark = page.session.held().map(Held::watermark);
        let position = match fetched.found {
            true => fetched.position,
            // Errors are not cached: what does not exist was looked for after the sketch was taken.
            false => fetched.position.max(watermark),
        };
        page.session
            .answer_shown(target.key, position, fetched.etag.clone());
        Ok((fetched, Decision { mode, ..decision }))
    }

    fn takes_back(&self, target: &Target<'_>, fetched: &Fetched, mode: Mode) -> bool {
        fetched.found
            && (mode != Mode::Reload || fetched.position.is_some())
            && self.page.lock().session.is_older(
                target,
                fetched.position,
                fetched.etag.as_deref(),
                mode,
            )
    }

    fn judge(
        &self,
        question: &Question,
        key: &str,
        shown: &Shown,
        read: Read,
        decision: Decision,
        fetched: &Fetched,
    ) {
        let mut page = self.page.lock();
        let own = &page.own[question.collection()];
        let none = Floor::new();
        let seen = page.shown.get(key).unwrap_or(&none);
        let mut facts = self
            .load
            .universe
            .facts(question, read.began.saturating_sub(read.bound));
        let mut verdict = judge(shown, &facts, read, own, seen);
        if verdict == Err(Violation::NeverTrue) {
            facts = self.load.universe.facts(question, 0);
            verdict = judge(shown, &facts, read, own, seen);
        }
        let news = floors(shown, &facts, read);
        raise(page.shown.entry(key.to_owned()).or_default(), &news);
        drop(page);
        self.load.count(|tally| {
            tally.read(fetched.from, decision.reason, self.manner.delta_ms, verdict);
            if let Err(violation) = verdict {
                tally.tell(|| self.told(key, shown, &facts, read, decision, fetched, violation));
            }
        });
    }

    #[allow(clippy::too_many_arguments)] // all that is known of a violation
    fn told(
        &self,
        key: &str,
        shown: &Shown,
        facts: &Facts,
        read: Read,
        decision: Decision,
        fetched: &Fetched,
        violation: Violation,
    ) -> Told {
        Told {
            what: format!("{violation:?}"),
            delta_ms: read.bound / 1_000,
            key: key.to_owned(),
            from: fetched.from,
            read: format!("{:?} {:?}", decision.mode, decision.reason),
            began_ms: read.began / 1_000,
            ended_ms: read.ended / 1_000,
            shown: format!("{shown:?} {:?}", fetched.answer.headers),
            facts: format!("{facts:?}"),
        }
    }

    /// Writes a record through an edge, if it still is what was read of it just now; then reads it again.
    async fn write(self: &Arc<Client>, random: &mut StdRng) {
        let place = Place {
            collection: random.random_range(0..COLLECTIONS.len()),
            number: skewed(random, RECORDS),
        };
        let _gate = self.load.gates[place.collection].read().await;
        let Some(_turn) = self.load.turn(place) else {
            return;
        };
        let question = Question::Record(place);
        let Some((Shown::Record(Some(read)), Some(etag))) =
            self.read(&question, true, random).await
        else {
            return;
        };
        let history = self.load.universe.of(place);
        if history.settled() != Some(Some(read)) {
            return;
        }
        let group = place.groups()[random.random_range(0..2)];
        let value = Value {
            version: history.next_version(),
            group,
        };
        self.put(
            place,
            value,
            etag,
            random.random_range(0..self.load.edges.len()),
        )
        .await;
        self.read(&question, false, random).await;
    }
}

/// Mostly one of the favourites, which change slowly.
fn next_question(favourites: &mut [Question; FAVOURITES], random: &mut StdRng) -> Question {
    let favourite = &mut favourites[random.random_range(0..FAVOURITES)];
    match random.random_range(0..100) {
        0..2 => *favourite = Question::any(random),
        2..30 => return Question::any(random),
        _ => {}
    }
    *favourite
}
