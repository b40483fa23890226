//! The house rules that a machine can check, over the whole repository: which crate may know which, what the pure
//! core may not touch, how long a file may be, what may not be left lying about (`CONTRIBUTING.md`).
//!
//! It reads files, not history: it works in an unpacked archive too.

use std::fs;
use std::path::{Path, PathBuf};

/// A file over this holds two ideas. Its unit tests are not counted.
const FILE_LINES_MAX: usize = 400;

/// Made by tools, or not ours.
const SKIPPED: [&str; 8] = [
    "target",
    "node_modules",
    "dist",
    "freshet-data",
    "corpus",
    "artifacts",
    "coverage",
    "runs",
];
/// Hidden directories are skipped, but for these.
const HIDDEN_KEPT: [&str; 2] = [".ci", ".github"];

/// Files whose text is checked. The lock files are not written by hand.
const TEXT: [&str; 15] = [
    "rs", "ts", "js", "html", "css", "toml", "md", "json", "yaml", "yml", "lua", "vcl", "vtc",
    "sh", "",
];
const LOCKS: [&str; 2] = ["Cargo.lock", "package-lock.json"];

fn root() -> PathBuf {
    let core = Path::new(env!("CARGO_MANIFEST_DIR"));
    core.parent()
        .expect("core lies in the repository")
        .to_path_buf()
}

/// Every file of the repository, relative to its root, in order.
fn files() -> Vec<PathBuf> {
    let root = root();
    let mut found = Vec::new();
    let mut open = vec![root.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).expect("a directory can be read") {
            let entry = entry.expect("an entry can be read");
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().expect("an entry has a type").is_dir() {
                let hidden = name.starts_with('.') && !HIDDEN_KEPT.contains(&name.as_str());
                if !hidden && !SKIPPED.contains(&name.as_str()) {
                    open.push(entry.path());
                }
            } else if name != ".git" {
                found.push(
                    entry
                        .path()
                        .strip_prefix(&root)
                        .expect("below the root")
                        .to_path_buf(),
                );
            }
        }
    }
    found.sort();
    found
}

fn extension(path: &Path) -> &str {
    path.extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("")
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("")
}

fn in_tests(path: &Path) -> bool {
    path.components()
        .any(|part| matches!(part.as_os_str().to_str(), Some("tests" | "test")))
}

/// The text of every file whose text is ours. Files that are not UTF-8 hold no text.
fn texts() -> Vec<(PathBuf, String)> {
    files()
        .into_iter()
        .filter(|path| TEXT.contains(&extension(path)) && !LOCKS.contains(&name(path)))
        .filter_map(|path| {
            fs::read_to_string(root().join(&path))
                .ok()
                .map(|text| (path, text))
        })
        .collect()
}

fn sources(wanted: &str) -> Vec<(PathBuf, String)> {
    texts()
        .into_iter()
        .filter(|(path, _)| extension(path) == wanted)
        .collect()
}

/// The lines before the unit tests, which come last in a file.
fn product(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .take_while(|line| line.trim() != "#[cfg(test)]")
}

#[track_caller]
fn assert_none(rule: &str, offences: &[String]) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

/// Whether `text` holds `word` with no word character on either side.
fn has_word(text: &str, word: &str) -> bool {
    let part_of_word =
        |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        !part_of_word(text[..at].chars().next_back())
            && !part_of_word(text[at + word.len()..].chars().next())
    })
}

/// The lines of one kind of dependency table, `[dependencies]` or `[dev-dependencies]`, that name our crates.
fn own_dependencies(manifest: &str, table: &str) -> Vec<String> {
    let lines = manifest
        .lines()
        .skip_while(|line| line.trim() != format!("[{table}]"))
        .skip(1);
    lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| name.starts_with("freshet-"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let (core, invalidation, fixture) = ("freshet-core", "freshet-invalidation", "freshet-fixture");
    let rules: [(&str, &[&str], &[&str]); 4] = [
        ("core", &[], &[fixture]),
        ("invalidation", &[core], &[core, fixture]),
        (
            "gateway",
            &[core, invalidation],
            &[core, invalidation, fixture],
        ),
        ("infra/fixture", &[], &[]),
    ];
    let mut offences = Vec::new();
    for (place, product, tests) in rules {
        let manifest = fs::read_to_string(root().join(place).join("Cargo.toml"))
            .expect("each crate has a manifest");
        for (table, allowed) in [
            ("dependencies", product),
            ("dev-dependencies", tests),
            ("build-dependencies", &[]),
        ] {
            for used in own_dependencies(&manifest, table) {
                if !allowed.contains(&used.as_str()) {
                    offences.push(format!("{place}/Cargo.toml: {used} in [{table}]"));
                }
            }
        }
    }
    assert_none(
        "core <- invalidation <- gateway; the fixture serves tests only",
        &offences,
    );
}

#[test]
fn the_core_does_no_io_and_reads_no_clock() {
    const BANNED: [&str; 10] = [
        "std::fs",
        "std::net",
        "std::env",
        "std::thread",
        "std::process",
        "tokio",
        "Instant::now",
        "SystemTime",
        "rand",
        "async fn",
    ];
    let mut offences = Vec::new();
    for (path, text) in sources("rs") {
        if !path.starts_with("core/src") || in_tests(&path) || name(&path) == "tests.rs" {
            continue;
        }
        // Unit tests come last in a file.
        let product = text
            .lines()
            .take_while(|line| line.trim() != "#[cfg(test)]");
        for (number, line) in product.enumerate() {
            let code = line.split("//").next().unwrap_or("");
            for word in BANNED.iter().filter(|word| has_word(code, word)) {
                offences.push(format!("{}:{}: {word}", path.display(), number + 1));
            }
        }
    }
    assert_none("the core is pure", &offences);
}

#[test]
fn files_are_short() {
    let mut offences = Vec::new();
    for (path, text) in texts() {
        let lines = product(&text).count();
        let code = matches!(extension(&path), "rs" | "ts" | "js" | "lua" | "vcl");
        if code && !in_tests(&path) && lines > FILE_LINES_MAX {
            offences.push(format!("{}: {lines} lines", path.display()));
        }
    }
    assert_none("a file holds one idea", &offences);
}

#[test]
fn files_open_with_their_reason() {
    let bare = sources("rs")
        .into_iter()
        .filter(|(_, text)| !text.starts_with("//! "));
    let offences: Vec<String> = bare.map(|(path, _)| path.display().to_string()).collect();
    assert_none("each Rust file opens with what it is for", &offences);
}

#[test]
fn nothing_is_left_over() {
    // Spelled in two pieces, or this file would be the first offender.
    let leftovers = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("todo", "!"),
        concat!("dbg", "!"),
        concat!("unimplemented", "!"),
        concat!("#[", "ignore"),
        concat!("describe", ".only"),
        concat!("it", ".only"),
        concat!("test", ".only"),
        concat!("<<<<", "<<<"),
    ];
    let mut offences = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for word in leftovers {
                let found = if word.starts_with(char::is_alphabetic) {
                    has_word(line, word)
                } else {
                    line.contains(word)
                };
                if found {
                    offences.push(format!("{}:{}: {word}", path.display(), number + 1));
                }
            }
        }
    }
    assert_none("what is not done is not in the tree", &offences);
}

#[test]
fn names_say_something() {
    const EMPTY: [&str; 10] = [
        "util",
        "utils",
        "helper",
        "helpers",
        "common",
        "manager",
        "managers",
        "misc",
        "shared_utils",
        "test_helpers",
    ];
    let mut offences = Vec::new();
    for path in files() {
        for part in path.components() {
            let part = part.as_os_str().to_string_lossy();
            let stem = part.split('.').next().unwrap_or("");
            if EMPTY.contains(&stem) {
                offences.push(path.display().to_string());
            }
        }
    }
    for (path, text) in sources("rs") {
        for (number, line) in text.lines().enumerate() {
            let declared = line
                .trim_start()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ");
            if let Some(module) = declared
                .strip_prefix("mod ")
                .and_then(|rest| rest.split([';', ' ']).next())
                && EMPTY.contains(&module)
            {
                offences.push(format!("{}:{}: mod {module}", path.display(), number + 1));
            }
        }
    }
    assert_none("a module is named after what it decides", &offences);
}

#[test]
fn nothing_points_at_one_machine() {
    // Spelled in two pieces, as above.
    let private = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/tm", "p/"),
        concat!("/Us", "ers/"),
    ];
    let mut offences = Vec::new();
    for (path, text) in texts() {
        for (number, line) in text.lines().enumerate() {
            for prefix in private {
                let absolute = line.match_indices(prefix).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    !before.is_some_and(|c| {
                        c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | ')' | '*')
                    })
                });
                if absolute {
                    offences.push(format!("{}:{}: {prefix}", path.display(), number + 1));
                }
            }
        }
    }
    let lock = fs::read_to_string(root().join("sdk-ts/package-lock.json")).unwrap_or_default();
    for line in lock.lines().filter(|line| line.contains("\"resolved\":")) {
        if !line.contains("\"https://registry.npmjs.org/") {
            offences.push(format!("sdk-ts/package-lock.json: {}", line.trim()));
        }
    }
    for path in files()
        .into_iter()
        .filter(|path| matches!(name(path), ".npmrc" | ".pypirc" | "pip.conf"))
    {
        let text = fs::read_to_string(root().join(&path)).unwrap_or_default();
        if ["://", "_auth"].iter().any(|word| text.contains(word)) {
            offences.push(format!("{}: names a registry", path.display()));
        }
    }
    assert_none("the project runs anywhere", &offences);
}

#[test]
fn documents_name_files_that_exist() {
    let mut offences = Vec::new();
    for (path, text) in sources("md") {
        if !(path.starts_with("docs") || path.parent() == Some(Path::new("")))
            || name(&path) == "CHANGELOG.md"
        {
            continue;
        }
        for mentioned in text
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|span| looks_like_path(span))
        {
            let target = mentioned
                .split([':', '#'])
                .next()
                .unwrap_or("")
                .trim_end_matches('/');
            if !target.starts_with("sdk-ts/dist") && !root().join(target).exists() {
                offences.push(format!("{}: `{mentioned}`", path.display()));
            }
        }
    }
    assert_none("documents follow the code", &offences);
}

/// Begins with a directory of this repository and holds nothing that a path here never does.
fn looks_like_path(span: &str) -> bool {
    const TOP: [&str; 8] = [
        "core",
        "invalidation",
        "gateway",
        "sdk-ts",
        "bench",
        "infra",
        "docs",
        ".ci",
    ];
    let first = span.split('/').next().unwrap_or("");
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | ':' | '#');
    span.contains('/') && TOP.contains(&first) && span.chars().all(plain)
}
