//! The other commands of the binary: `check`, `settings`, `dev`.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use tempfile::TempDir;

use crate::support::freshet;

#[test]
fn check_reports_every_mistake_with_its_place() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("freshet.toml");
    let text = "store = \"mysql://x\"\nstroe = 1\n[server]\nidle_timeout = 5\n[[access]]\ncollection = \"a.b\"\nread = \"all\"\n[[edge]]\nkind = \"varnish\"\nurls = [\"nonsense\"]\n";
    std::fs::write(&file, text).expect("written");
    let output = freshet()
        .args(["check", "--config"])
        .arg(&file)
        .env("FRESHET_LISTN", "x")
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(64));
    let errors = String::from_utf8(output.stderr).expect("UTF-8");
    for place in [
        ":1:9:",
        ":2:1:",
        ":4:16:",
        ":7:8:",
        ":10:8:",
        "FRESHET_LISTN",
    ] {
        assert!(errors.contains(place), "{place} in\n{errors}");
    }
    assert!(
        errors.ends_with("freshet: 6 mistakes in the settings\n"),
        "{errors}"
    );
}

#[test]
fn check_refuses_what_would_refuse_every_request() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("freshet.toml");
    let text = "store = \"mongodb://user:hunter2@\"\n[server]\nidle_timeout = \"0s\"\nstreams_max = 0\n[limits]\nbody_bytes_max = \"0B\"\n";
    std::fs::write(&file, text).expect("written");
    let output = freshet()
        .args(["check", "--config"])
        .arg(&file)
        .output()
        .expect("it runs");
    let errors = String::from_utf8(output.stderr).expect("UTF-8");
    for place in [":1:9:", ":3:16:", ":4:15:", ":6:18:"] {
        assert!(errors.contains(place), "{place} in\n{errors}");
    }
    assert!(
        errors.ends_with("freshet: 4 mistakes in the settings\n"),
        "{errors}"
    );
    assert!(!errors.contains("hunter2"), "{errors}");
}

#[test]
fn check_knows_who_may_store_queries_and_how_many_are_watched() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("freshet.toml");
    let check = |text: &str| {
        std::fs::write(&file, text).expect("written");
        let output = freshet().args(["check", "--config"]).arg(&file).output();
        let output = output.expect("it runs");
        let said = |bytes| String::from_utf8(bytes).expect("UTF-8");
        (
            output.status.code(),
            said(output.stdout) + &said(output.stderr),
        )
    };
    let rule = "store = \"embedded:x\"\n[policy]\ndatabase_active_max = 5\n[[access]]\ncollection = \"a.b\"\nread = \"public\"\nhinted = true\nqueries = \"stored\"\n";
    let (code, said) = check(rule);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nobody may store one"), "{said}");
    let by_token = format!("{rule}store_queries = \"token\"\n");
    let (code, said) = check(&by_token);
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains("needs `token`"), "{said}");
    let (code, said) = check(&format!("{by_token}token = \"t0ken\"\n"));
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("nobody"), "{said}");
    let (code, said) = check(&rule.replace("\"stored\"", "\"some\""));
    assert_eq!(code, Some(64), "{said}");
    assert!(said.contains(":8:11:"), "{said}");
}

#[test]
fn check_says_what_is_wrong_with_redis_and_shows_no_password() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("freshet.toml");
    let check = |redis: &str| {
        std::fs::write(&file, format!("store = \"embedded:x\"\n{redis}")).expect("written");
        let output = freshet().args(["check", "--config"]).arg(&file).output();
        let output = output.expect("it runs");
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        (output.status.code(), said)
    };
    let fine = check("redis = \"rediss+cluster://u:hunter2@a:1,b:2\"\n");
    assert_eq!(fine.0, Some(0), "{}", fine.1);
    for (redis, place, words) in [
        (
            "redis = \"http://u:hunter2@h\"\n",
            ":2:9:",
            "`redis` must be redis://",
        ),
        (
            "redis = \"redis://u:hunter2@a,b\"\n",
            ":2:9:",
            "names several hosts",
        ),
        ("redis = \"redis://u:hunter2@h/x\"\n", ":2:9:", "database"),
        (
            "redis = \"rediss://h\"\nredis_ca = \"/nowhere\"\n",
            ":3:12:",
            "cannot be read",
        ),
        ("redis_ca = \"/nowhere\"\n", ":2:12:", "without `redis`"),
    ] {
        let (code, said) = check(redis);
        assert_eq!(code, Some(64), "{redis}: {said}");
        assert!(said.contains(place) && said.contains(words), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn the_reference_is_a_valid_file() {
    let dir = TempDir::new().expect("a directory");
    let file = dir.path().join("freshet.toml");
    let output = freshet().arg("settings").output().expect("it runs");
    let text = format!(
        "store = \"embedded:data\"\n{}",
        String::from_utf8(output.stdout).expect("UTF-8")
    );
    std::fs::write(&file, text).expect("written");
    let checked = freshet()
        .args(["check", "--config"])
        .arg(&file)
        .output()
        .expect("it runs");
    assert!(
        checked.status.success(),
        "{}",
        String::from_utf8_lossy(&checked.stderr)
    );
}

#[test]
fn dev_serves_the_sample_data_on_loopback() {
    let dir = TempDir::new().expect("a directory");
    let data = dir.path().join("data");
    let mut child = freshet()
        .args(["dev", "--port", "0", "--data"])
        .arg(&data)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let stdout = BufReader::new(child.stdout.take().expect("piped"));
    let base = stdout
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            line.split_once("http://")
                .map(|(_, rest)| rest.trim_end_matches('/').to_owned())
        })
        .expect("it says where it is");
    assert!(base.starts_with("127.0.0.1:"), "{base}");
    let get = |target: &str| {
        use std::io::Read;
        let mut stream = std::net::TcpStream::connect(&base).expect("it accepts");
        write!(
            stream,
            "GET {target} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    assert!(get("/v1/demo/cities/_count").contains("{\"count\":4028}"));
    assert!(get("/v1/demo/countries/CH").contains("Switzerland"));
    assert!(get("/").contains("<h1>Freshet</h1>"));
    assert!(get("/_console/").contains("307"));
    assert!(get("/_console/activity.json").contains("\"events\""));
    let refused = freshet()
        .args(["dev", "--set", "server.listen=0.0.0.0:0", "--data"])
        .arg(dir.path().join("other"))
        .output();
    let refused = refused.expect("it runs");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("loopback only"));
    child.kill().expect("it runs still");
    child.wait().expect("it ends");
}
