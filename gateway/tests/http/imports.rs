//! `freshet import`, run as users run it: what is stored, what is reported, and what a second run makes of the first.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::freshet;

/// A file to import, and an embedded store to take it.
struct Bench {
    dir: TempDir,
    file: PathBuf,
}

impl Bench {
    fn new(text: impl AsRef<[u8]>) -> Bench {
        let dir = TempDir::new().expect("a directory");
        let file = dir.path().join("data.json");
        let bench = Bench { dir, file };
        bench.rewrite(text);
        bench
    }

    fn rewrite(&self, text: impl AsRef<[u8]>) {
        std::fs::write(&self.file, text).expect("written");
    }

    fn command(&self, more: &[&str]) -> Command {
        let store = format!("embedded:{}", self.dir.path().join("data").display());
        let mut command = freshet();
        command.arg("import").arg(&self.file);
        command.args(["--into", "db.c", "--store", &store]);
        command.args(more);
        command
    }

    /// Exit code, stdout, stderr.
    fn import(&self, more: &[&str]) -> (Option<i32>, String, String) {
        let output = self.command(more).output().expect("it runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    }

    fn progress(&self) -> PathBuf {
        let mut path = self.file.clone().into_os_string();
        path.push(".freshet-progress");
        path.into()
    }
}

fn stored(said: &str) -> u64 {
    said.lines()
        .find_map(|line| line.split_once(" documents stored"))
        .and_then(|(count, _)| count.parse().ok())
        .unwrap_or_else(|| panic!("no count in {said}"))
}

#[test]
fn bad_lines_are_reported_and_an_import_goes_on() {
    let bench = Bench::new("{\"_id\":1}\n{\"_id\":2}\nnonsense\n{\"_id\":1}\n{\"_id\":3}\n");
    let (code, _, errors) = bench.import(&["--batch", "2"]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("line 3"), "{errors}");
    let (code, said, errors) = bench.import(&["--batch", "2", "--resume", "--skip-bad"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        said.contains("went on after document 2") && said.contains("1 documents stored"),
        "{said}"
    );
    assert!(
        errors.contains("line 3:") && errors.contains("line 4: a record with this _id exists"),
        "{errors}"
    );
}

#[test]
fn import_takes_an_array_from_standard_input() {
    let dir = TempDir::new().expect("a directory");
    let store = format!("embedded:{}", dir.path().join("data").display());
    let mut child = freshet()
        .args(["import", "-", "--into", "db.c", "--store", &store])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let text = b"[{\"n\":{\"$numberLong\":\"5\"}},\n {\"d\":{\"$date\":\"2020-01-01T00:00:00Z\"}}]";
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(text)
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("2 documents stored in db.c"));
}

#[test]
fn an_array_on_one_line_goes_on_where_it_stopped() {
    let members = |bad: &str| {
        let all: Vec<String> = (1..=1200)
            .map(|n| match n {
                700 => bad.to_owned(),
                n => format!("{{\"_id\":{n}}}"),
            })
            .collect();
        format!("[{}]", all.join(","))
    };
    let bench = Bench::new(members("{\"_id\" 700}"));
    let (code, _, errors) = bench.import(&[]);
    assert_eq!(code, Some(1));
    assert!(errors.contains("member 700 (line 1):"), "{errors}");
    bench.rewrite(members("{\"_id\":700}"));
    let (code, said, errors) = bench.import(&["--resume"]);
    assert_eq!((code, stored(&said)), (Some(0), 501), "{errors}");
    assert!(said.contains("went on after document 699"), "{said}");
    assert!(!bench.progress().exists(), "a complete import is forgotten");
}

#[test]
fn what_the_store_refuses_does_not_make_a_second_run_store_twice() {
    // The fourth is refused by the store; three before it, without an _id, are stored one by one.
    let text = |fourth: u32| {
        format!("{{\"_id\":1}}\n{{\"a\":1}}\n{{\"a\":2}}\n{{\"_id\":{fourth}}}\n{{\"a\":3}}\n")
    };
    let bench = Bench::new(text(1));
    let (code, _, errors) = bench.import(&[]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("line 4: a record with this _id exists"),
        "{errors}"
    );
    bench.rewrite(text(22));
    let (code, said, errors) = bench.import(&["--resume"]);
    assert_eq!((code, stored(&said)), (Some(0), 2), "{errors}");
}

#[test]
fn the_write_in_doubt_is_not_made_twice() {
    let bench = Bench::new("{\"a\":1}\n{\"a\":2,\"_id\":7}\n{\"a\":3}\nnonsense\n");
    let (code, _, _) = bench.import(&["--batch", "3"]);
    assert_eq!(code, Some(1));
    // As a process leaves it that is killed between the write and the mark.
    let kept = std::fs::read(bench.progress()).expect("kept");
    let mut kept: serde_json::Value = serde_json::from_slice(&kept).expect("JSON");
    kept["mark"] = serde_json::json!({"done": 0, "digest": 0, "attempted": 3});
    std::fs::write(bench.progress(), kept.to_string()).expect("written");
    bench.rewrite("{\"a\":1}\n{\"a\":2,\"_id\":7}\n{\"a\":3}\n{\"_id\":7,\"a\":2}\n");
    let (code, said, errors) = bench.import(&["--batch", "3", "--resume", "--skip-bad"]);
    assert_eq!((code, stored(&said)), (Some(2), 3), "{errors}");
    assert!(
        errors.contains("line 4: a record with this _id"),
        "{errors}"
    );
}

#[test]
fn a_file_that_changed_before_the_mark_is_not_gone_on_with() {
    let bench = Bench::new("{\"_id\":1}\n{\"_id\":2}\nnonsense\n");
    bench.import(&[]);
    bench.rewrite("{\"_id\":9}\n{\"_id\":2}\n{\"_id\":3}\n");
    let (code, _, errors) = bench.import(&["--resume"]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("first 2 documents of the file are not those"),
        "{errors}"
    );
}

#[test]
fn an_array_must_end_and_nothing_may_follow() {
    let bench = Bench::new("[{\"a\":1}]\ngarbage");
    let (code, _, errors) = bench.import(&[]);
    assert_eq!(code, Some(1));
    assert!(
        errors.contains("line 2: text after the end of the array"),
        "{errors}"
    );
    bench.rewrite("[{\"a\":1}");
    let (code, said, errors) = bench.import(&["--skip-bad"]);
    assert_eq!((code, stored(&said)), (Some(2), 1));
    assert!(errors.contains("the array is not closed"), "{errors}");
}

#[test]
fn batch_sizes_are_bounded() {
    let bench = Bench::new("{}");
    for size in ["0", "10001", "18446744073709551615"] {
        let (code, _, errors) = bench.import(&["--batch", size]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains("--batch"), "{errors}");
    }
    let (code, said, _) = bench.import(&["--batch", "10000"]);
    assert_eq!((code, stored(&said)), (Some(0), 1));
}

#[test]
fn progress_that_cannot_be_kept_is_said_once() {
    let bench = Bench::new("{\"_id\":1}\n{\"_id\":2}\nnonsense\n");
    std::fs::create_dir(bench.progress()).expect("in its place");
    let (code, _, errors) = bench.import(&["--batch", "1"]);
    assert_eq!(code, Some(1));
    assert_eq!(errors.matches("--resume").count(), 1, "{errors}");
    assert!(errors.contains("--resume will not know"), "{errors}");
}

#[test]
fn empty_files_marks_and_line_ends() {
    for (text, count) in [
        ("", 0),
        ("\u{feff}", 0),
        ("\r\n\r\n", 0),
        ("\u{feff}{\"a\":1}\r\n\r\n{\"a\":2}\r\n", 2),
        ("\n{\"a\":1}\n   \n{\"a\":2}", 2),
        ("\u{feff}[\r\n{\"a\":1},\r\n{\"a\":2}\r\n]\r\n", 2),
    ] {
        let (code, said, errors) = Bench::new(text).import(&[]);
        assert_eq!(
            (code, stored(&said)),
            (Some(0), count),
            "{text:?}: {errors}"
        );
    }
}

#[test]
fn a_document_of_more_than_16_mib_is_bad_and_the_next_is_not() {
    let long = "x".repeat(17 << 20);
    let bench = Bench::new(format!("{{\"a\":1}}\n{{\"a\":\"{long}\"}}\n{{\"a\":3}}\n"));
    let (code, said, errors) = bench.import(&["--skip-bad"]);
    assert_eq!((code, stored(&said)), (Some(2), 2), "{errors}");
    assert!(errors.contains("line 2:"), "{errors}");
}

#[test]
fn an_interrupted_import_keeps_its_progress() {
    const COUNT: u64 = 5000;
    let text: String = (1..=COUNT).map(|n| format!("{{\"_id\":{n}}}\n")).collect();
    let bench = Bench::new(text);
    let mut child = bench
        .command(&["--batch", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    while !bench.progress().exists() {
        assert!(child.try_wait().expect("a child").is_none(), "no progress");
        std::thread::yield_now();
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.expect("it runs").success());
    let output = child.wait_with_output().expect("it ends");
    let (said, errors) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert_eq!(output.status.code(), Some(130), "{errors}");
    assert!(errors.contains("go on with --resume"), "{errors}");
    let (code, more, errors) = bench.import(&["--resume"]);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(stored(&said) + stored(&more), COUNT);
}
