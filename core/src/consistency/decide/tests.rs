//! The table of `sdk-ts/SPEC.md`: every situation in which a read can find its session, held against the rules written
//! once more as a list of which the first that applies counts.

use super::super::held::tests::Stated;
use super::*;
use crate::sketch::wire::INVALIDATION_UNBOUNDED_MS;

const KEY: &str = "/v1/db/c?filter=%7B%22a%22:1%7D";
const COLLECTION: &str = "/v1/db/c";
const NOW: u64 = 1_000_000;
const DELTA: u32 = 60_000;

const SKETCHES: [&str; 7] = [
    "none",
    "unlisted",
    "listed",
    "saturated",
    "old",
    "edge slow",
    "edge unbounded",
];
/// Own write in the collection: none; not in the sketch's watermark; in it; not in it, but a newer answer was shown.
const WRITES: [&str; 4] = ["none", "ahead", "covered", "shown"];
const SESSIONS: [&str; 4] = ["plain", "causal", "causal, ahead", "no staleness"];

#[derive(Clone, Copy, Debug)]
struct Situation {
    sketch: &'static str,
    write: &'static str,
    session: &'static str,
    revalidated: bool,
    linearizable: bool,
}

fn situations() -> Vec<Situation> {
    let mut all = Vec::new();
    for sketch in SKETCHES {
        for write in WRITES {
            for session in SESSIONS {
                for (revalidated, linearizable) in
                    [(false, false), (false, true), (true, false), (true, true)]
                {
                    all.push(Situation {
                        sketch,
                        write,
                        session,
                        revalidated,
                        linearizable,
                    });
                }
            }
        }
    }
    all
}

fn decided(situation: Situation) -> Decision {
    let mut session = Session::default();
    if situation.sketch != "none" {
        let listed = [KEY];
        let stated = Stated {
            keys: match situation.sketch {
                "unlisted" => &[],
                _ => &listed,
            },
            saturated: situation.sketch == "saturated",
            age_ms: if situation.sketch == "old" {
                59_001
            } else {
                500
            },
            invalidation_ms: match situation.sketch {
                "edge slow" => DELTA,
                "edge unbounded" => INVALIDATION_UNBOUNDED_MS,
                _ => 1_000,
            },
            watermark: 100,
        };
        session.sketch_arrived(stated.sent(NOW));
    }
    if situation.write != "none" {
        let position = if situation.write == "covered" {
            90
        } else {
            110
        };
        session.write_acknowledged(&[COLLECTION], Some(Position(position)));
    }
    if situation.write == "shown" {
        session.answer_shown(KEY, Some(Position(110)), Some("x".into()));
    }
    if situation.session == "causal, ahead" {
        session.answer_shown("/v1/db/other/1", Some(Position(120)), None);
    }
    if situation.revalidated {
        session.key_revalidated(KEY, session.held().cloned());
    }
    let target = Target {
        key: KEY,
        scope: COLLECTION,
        record: false,
        linearizable: situation.linearizable,
    };
    let policy = Policy {
        delta_ms: if situation.session == "no staleness" {
            0
        } else {
            DELTA.into()
        },
        causal: situation.session.starts_with("causal"),
    };
    decide(&session, &target, &policy, Moment(NOW))
}

fn expected(situation: Situation) -> (Mode, Reason) {
    let Situation {
        sketch,
        write,
        session,
        revalidated,
        linearizable,
    } = situation;
    let listed = matches!(sketch, "listed" | "saturated");
    let causal = session.starts_with("causal");
    let ahead = session == "causal, ahead" || (causal && matches!(write, "ahead" | "shown"));
    let rules = [
        (linearizable, Mode::Reload, Reason::Linearizable),
        (session == "no staleness", Mode::Reload, Reason::NoStaleness),
        (sketch == "none", Mode::Reload, Reason::NoSketch),
        (
            sketch.starts_with("edge"),
            Mode::Reload,
            Reason::EdgeTooSlow,
        ),
        (sketch == "old", Mode::Reload, Reason::SketchTooOld),
        (
            write == "ahead" || (write == "covered" && listed),
            Mode::Reload,
            Reason::OwnWrite,
        ),
        (ahead, Mode::Reload, Reason::AheadOfSketch),
        (!listed, Mode::Default, Reason::Fresh),
        (revalidated, Mode::Default, Reason::Revalidated),
        (
            causal && sketch == "saturated",
            Mode::Reload,
            Reason::Saturated,
        ),
        (causal, Mode::Reload, Reason::InSketch),
        (sketch == "saturated", Mode::NoCache, Reason::Saturated),
        (true, Mode::NoCache, Reason::InSketch),
    ];
    let (_, mode, reason) = rules
        .into_iter()
        .find(|(applies, ..)| *applies)
        .expect("the last always does");
    (mode, reason)
}

#[test]
fn the_table_is_total() {
    let all = situations();
    assert_eq!(all.len(), 448);
    for situation in all {
        let Decision { mode, reason } = decided(situation);
        assert_eq!((mode, reason), expected(situation), "{situation:?}");
    }
}

#[test]
fn c7_at_delta_prime_of_age_no_cache_answers() {
    let stated = Stated {
        age_ms: 500,
        invalidation_ms: 1_000,
        ..Stated::default()
    };
    let mut session = Session::default();
    session.sketch_arrived(stated.sent(NOW));
    let mode_after = |passed| {
        let target = Target {
            key: KEY,
            scope: COLLECTION,
            record: false,
            linearizable: false,
        };
        let policy = Policy {
            delta_ms: 10_000,
            causal: false,
        };
        decide(&session, &target, &policy, Moment(NOW + passed)).mode
    };
    assert_eq!(mode_after(8_499), Mode::Default);
    assert_eq!(mode_after(8_500), Mode::Reload);
}

#[test]
fn c10_what_was_revalidated_under_one_sketch_is_not_known_to_be_fresh_under_the_next() {
    let listed = Stated {
        keys: &[KEY],
        ..Stated::default()
    };
    let target = Target {
        key: KEY,
        scope: COLLECTION,
        record: false,
        linearizable: false,
    };
    let policy = Policy {
        delta_ms: 10_000,
        causal: false,
    };
    let mut session = Session::default();
    session.sketch_arrived(listed.sent(NOW));
    let first = session.held().cloned();
    session.key_revalidated(KEY, first.clone());
    let reason = |session: &Session| decide(session, &target, &policy, Moment(NOW + 1)).reason;
    assert_eq!(reason(&session), Reason::Revalidated);
    session.sketch_arrived(listed.sent(NOW + 1));
    assert_eq!(reason(&session), Reason::InSketch);
    // An answer that was asked for under the first and comes after the second.
    session.key_revalidated(KEY, first);
    assert_eq!(reason(&session), Reason::InSketch);
}
