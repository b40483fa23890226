//! Cases that the match fuzzer (`bench/src/match_fuzz`) found and shrank, each with the database's answers: nothing may
//! be missed in any of them any more, and no live window and no kept count or group be wrong.

mod match_case;

use std::path::Path;

use match_case::{judge::judge, kept::judge_kept, live::judge_live, text};

#[test]
fn what_was_missed_once_is_not_missed_again() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/regressions");
    let mut cases = 0;
    for entry in std::fs::read_dir(directory).expect("the cases are there") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a case can be read");
        let json = serde_json::from_slice(&bytes).expect("a case is JSON");
        let case = text::parse(&json).expect("a case is a case");
        assert_eq!(text::write(&case), json, "{}", path.display());
        let verdict = judge(&case);
        assert_eq!(verdict.missed, [], "{}", path.display());
        let held = verdict.checks + verdict.notified();
        assert!(held > 0, "{}: nothing was held", path.display());
        for lag in [1, 3] {
            let live = judge_live(&case, 1, lag);
            assert_eq!(live.wrong, [], "{}: live, lag {lag}", path.display());
        }
        assert_eq!(judge_kept(&case).wrong, [], "{}: kept", path.display());
        cases += 1;
    }
    assert!(cases > 0);
}
