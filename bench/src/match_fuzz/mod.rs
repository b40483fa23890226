//! The match fuzzer: random queries over random writes to a real MongoDB. After every write the answer of every query is
//! held against the answer that its last copy shows: whoever changed must have been notified (`missed` is 0), and
//! whoever was notified should have changed (`needless`).
//!
//! A history is recorded once (`record`) and judged several times (`match_case::judge`, which needs no database):
//! with images of both sides, without those before, with some missing; at once, and with events that come late, in
//! batches and twice while reads go on. Live windows, and
//! counts and single groups, are kept beside it. A failure is shrunk (`shrink`) to one JSON
//! case, which `invalidation/tests/match_regressions.rs` replays.

mod nasty_pool;
mod pipelines;
mod pool;
mod queries;
mod questions;
mod record;
mod report;
mod script;
mod shrink;

#[path = "../../../invalidation/tests/match_case/mod.rs"]
mod case;

use std::rc::Rc;
use std::sync::Arc;

use bson::Document;
use freshet_core::change::Image;
use freshet_core::time::Clock;
use freshet_fixture::Parts;
use freshet_invalidation::Images;

use self::case::judge::judge;
use self::case::kept::judge_kept;
use self::case::live::judge_live;
use self::case::{Asked, Case, Found, History, Of, Watching, What};
use self::pool::{Choice, IDS};
use self::record::{Plan, Planned, Recorder};
use self::report::{Mode, Report};
use crate::monotonic::Monotonic;

/// Filters and orders per history.
const FAMILIES: usize = 14;
/// Writes per history, those without effect included.
const WRITES: usize = 120;
/// Of so many histories one is of a collection without images, and one of hurtful records.
const AFTER_ONLY_EVERY: u64 = 5;
const NASTY_EVERY: u64 = 4;
/// Of so many pages one is kept live.
const LIVE_EVERY: usize = 3;
/// Of the pages that begin after the last record so many are kept: a client that follows `next` does not get there.
const PAST_THE_END_PERCENT: usize = 10;
/// Histories that failed, after which it ends.
const FAILURES_MAX: usize = 3;

/// How long and from where.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print the result as one JSON object (the only form; kept for uniform command lines).
    #[arg(long)]
    json: bool,
    /// Seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The same seed makes the same histories.
    #[arg(long)]
    seed: Option<u64>,
    /// Ask for nothing else.
    #[arg(long)]
    only: Option<Only>,
}

/// A part of what is asked, for more histories in the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Only {
    /// Pages and counts.
    Queries,
    /// Aggregations and joins.
    Pipelines,
}

/// Runs the suite and prints its report on stdout.
///
/// # Errors
/// MongoDB does not come up or fails; something was missed.
pub(crate) async fn run(options: &Options) -> anyhow::Result<()> {
    let seed = options.seed.unwrap_or_else(fresh_seed);
    eprintln!("match-fuzz: seed {seed}");
    let clock = Arc::new(Monotonic::start());
    let mongo = Parts::own_mongo().await?;
    let mut recorder = Recorder::start(mongo, clock.clone()).await?;
    let mut report = Report::new(seed);
    let began = clock.now();
    let mut choice = Choice::of(seed);
    for round in 0.. {
        let elapsed = clock.now().since(began) / 1_000;
        if elapsed >= options.seconds || report.failures() >= FAILURES_MAX {
            report.seconds = elapsed;
            break;
        }
        let of_round = choice.seed();
        history(&mut recorder, &mut report, round, of_round, options.only).await?;
        if round % 10 == 9 {
            eprintln!("{elapsed} s: {}", report.progress());
        }
    }
    report.print()
}

fn fresh_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}

/// One history, in every mode.
async fn history(
    recorder: &mut Recorder,
    report: &mut Report,
    round: u64,
    seed: u64,
    only: Option<Only>,
) -> anyhow::Result<()> {
    let mut choice = Choice::of(seed);
    let nasty = round % NASTY_EVERY == NASTY_EVERY - 1;
    // Pipelines have choices of their own: what else a seed makes does not depend on them.
    let mut of_pipelines = Choice::of(!seed);
    let (mut plan, mut asked) = match nasty {
        true => nasty_pool::plan(&mut choice),
        false => (shop(&mut choice), shop_queries(&mut choice)),
    };
    if only == Some(Only::Pipelines) {
        asked.clear();
    }
    match nasty {
        _ if only == Some(Only::Queries) => {}
        true => nasty_pool::with_joins(&mut of_pipelines, &mut plan, &mut asked),
        false => pipelines::with_joins(&mut of_pipelines, &mut plan, &mut asked),
    }
    let images = match round % AFTER_ONLY_EVERY == AFTER_ONLY_EVERY - 1 {
        true => Images::AfterOnly,
        false => Images::Both,
    };
    let (history, mut queries) = recorder.record(&plan, &asked, images).await?;
    queries.retain(|query| !is_past_the_end(query) || choice.percent(PAST_THE_END_PERCENT));
    report.recorded(&history, &queries);
    for (mode, case) in cases(&mut choice, nasty, images, &history, &queries) {
        let verdict = judge(&case);
        report.judged(mode, &verdict);
        if !verdict.missed.is_empty() {
            let fails = |case: &Case| !judge(case).missed.is_empty();
            report.failed("missed", shrink::shrink(recorder, case, &fails).await?);
            return Ok(());
        }
    }
    let case = Case {
        images: Images::Both,
        members_max: 100,
        queries,
        script: script::prompt(history.writes.len()),
        history,
    };
    let kept = judge_kept(&case);
    report.kept(&kept);
    if !kept.wrong.is_empty() {
        let fails = |case: &Case| !judge_kept(case).wrong.is_empty();
        report.failed("kept", shrink::shrink(recorder, case, &fails).await?);
        return Ok(());
    }
    for lag in [1, 1 + choice.below(6)] {
        let live = judge_live(&case, LIVE_EVERY, lag);
        report.live(&live);
        if !live.wrong.is_empty() {
            let fails = |case: &Case| !judge_live(case, 1, lag).wrong.is_empty();
            report.failed("live", shrink::shrink(recorder, case, &fails).await?);
            return Ok(());
        }
    }
    Ok(())
}

/// The ways in which one history is judged.
fn cases(
    choice: &mut Choice,
    nasty: bool,
    images: Images,
    history: &History,
    queries: &[Watching],
) -> Vec<(Mode, Case)> {
    let writes = history.writes.len();
    let prompt = script::prompt(writes);
    let lagging = script::lagging(choice, writes, queries.len());
    let case = |images, members_max, script: &Vec<_>, history: &History| Case {
        images,
        members_max,
        queries: queries.to_vec(),
        history: history.clone(),
        script: script.clone(),
    };
    let members_max = choice.one(&[3, 10, 100]);
    let mut cases = vec![
        (
            Mode::AfterOnly,
            case(Images::AfterOnly, 100, &prompt, history),
        ),
        (
            Mode::Lagging,
            case(Images::AfterOnly, members_max, &lagging, history),
        ),
    ];
    if images == Images::Both {
        let gaps = with_gaps(choice, history);
        let main = if nasty { Mode::Nasty } else { Mode::Both };
        cases.extend([
            // Images that the feed does not promise come all the same, but for some.
            (
                Mode::AfterOnly,
                case(Images::AfterOnly, 100, &prompt, &gaps),
            ),
            (main, case(Images::Both, 100, &prompt, history)),
            (Mode::Lagging, case(Images::Both, 100, &lagging, history)),
            (Mode::Gaps, case(Images::Both, 100, &prompt, &gaps)),
            (Mode::Lagging, case(Images::Both, 100, &lagging, &gaps)),
        ]);
    }
    cases
}

fn is_past_the_end(query: &Watching) -> bool {
    match (&query.asked.what, query.found.first()) {
        (What::Page { skip, .. }, Some(Found::Records(all))) => {
            *skip > 0 && all.len() <= *skip as usize
        }
        _ => false,
    }
}

/// Some of the images did not come, or came late.
fn with_gaps(choice: &mut Choice, history: &History) -> History {
    let mut history = history.clone();
    for written in &mut history.writes {
        let image = |state: &Option<Rc<_>>| match state {
            Some(document) => Image::Known(bson::RawDocumentBuf::clone(document)),
            None => Image::Absent,
        };
        let (before, after) = (image(&written.before), image(&written.after));
        let is_delete = after == Image::Absent;
        written.images = match choice.below(12) {
            0 => Some((Image::Unknown, after)),
            1 if !is_delete => Some((Image::Unknown, Image::Unknown)),
            2 if !is_delete => Some((before, Image::Unknown)),
            _ => Some((before, after)),
        };
    }
    history
}

fn shop(choice: &mut Choice) -> Plan {
    let there = 25 + choice.below(25);
    let mut ids: Vec<i32> = (0..IDS).collect();
    while ids.len() > there {
        ids.swap_remove(choice.below(ids.len()));
    }
    let records: Vec<Document> = ids.iter().map(|id| choice.record(*id)).collect();
    let writes = (0..WRITES).map(|_| {
        let id = choice.id();
        let write = match choice.below(100) {
            0..66 => Planned::Update(id, choice.update()),
            66..84 => Planned::Insert(choice.record(id)),
            84..92 => Planned::Replace(choice.record(id)),
            _ => Planned::Delete(id),
        };
        (Of::Records, write)
    });
    Plan {
        writes: writes.collect(),
        records,
        ..Plan::default()
    }
}

fn shop_queries(choice: &mut Choice) -> Vec<Asked> {
    (0..FAMILIES).flat_map(|_| choice.family()).collect()
}
