//! The real binary on a free port, and a client that sends exactly what it is told to.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;

/// Waits for a condition; long enough that only a fault exceeds it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway; killed when dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    child: Child,
    log: Arc<Mutex<Vec<String>>>,
    _dir: TempDir,
}

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().expect("ASCII"))
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|_| panic!("not JSON: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.to_vec()).expect("UTF-8")
    }

    pub(crate) fn is_hit(&self) -> bool {
        self.header("cache-status") == "freshet; hit"
    }
}

/// Everything open, caching from the first request on.
const OPEN: &str =
    r#"[{collection = "*", read = "public", write = "public", database_only = "allow"}]"#;

impl Server {
    /// With an embedded store of its own; `settings` go over the defaults of these tests.
    pub(crate) fn start(settings: &[(&str, &str)]) -> Server {
        Server::start_in(&[], settings)
    }

    /// With variables of the environment.
    pub(crate) fn start_in(environment: &[(&str, &str)], settings: &[(&str, &str)]) -> Server {
        Server::run(&["serve"], environment, settings)
    }

    /// A cell of a grid.
    pub(crate) fn worker(queries: &str, writes: &str, settings: &[(&str, &str)]) -> Server {
        let command = [
            "worker",
            "--query-partition",
            queries,
            "--write-partition",
            writes,
        ];
        Server::run(&command, &[], settings)
    }

    fn run(arguments: &[&str], environment: &[(&str, &str)], settings: &[(&str, &str)]) -> Server {
        let dir = TempDir::new().expect("a directory");
        let store = format!("embedded:{}", dir.path().join("data").display());
        let mut all = vec![
            ("store", store.as_str()),
            ("server.listen", "127.0.0.1:0"),
            ("access", OPEN),
            ("admission.doorkeeper", "false"),
            ("log.format", "json"),
            ("log.level", "info"),
        ];
        all.extend_from_slice(settings);
        let mut command = freshet();
        command.args(arguments).envs(environment.iter().copied());
        for (path, value) in all {
            command.arg("--set").arg(format!("{path}={value}"));
        }
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = child.stderr.take().expect("piped");
        let (found, address) = std::sync::mpsc::channel();
        let log = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&log);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                said.lock().expect("not poisoned").push(line.clone());
                if let Ok(event) = serde_json::from_str::<Value>(&line)
                    && (event["message"] == "listening" || event["message"] == "working")
                {
                    let _ = found.send(event["address"].as_str().map(str::to_owned));
                }
            }
        });
        let address = address
            .recv_timeout(PATIENCE)
            .ok()
            .flatten()
            .expect("it listens");
        Server {
            address: address.parse().expect("an address"),
            child,
            log,
            _dir: dir,
        }
    }

    /// One that caches: its change feed runs.
    pub(crate) async fn caching(settings: &[(&str, &str)]) -> Server {
        let server = Server::start(settings);
        server.is_caching().await;
        server
    }

    /// Waits until the change feed runs and the sketch answers.
    pub(crate) async fn is_caching(&self) {
        self.until("/readyz", |answer| answer.json()["caching"] == true)
            .await;
    }

    /// Sends a request on a connection of its own.
    pub(crate) async fn send(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        send(self.address, method, target, headers, body).await
    }

    pub(crate) async fn get(&self, target: &str) -> Answer {
        self.send("GET", target, &[], "").await
    }

    pub(crate) async fn get_with(&self, target: &str, name: &str, value: &str) -> Answer {
        self.send("GET", target, &[(name, value)], "").await
    }

    pub(crate) async fn post(&self, target: &str, body: &str) -> Answer {
        self.send(
            "POST",
            target,
            &[("content-type", "application/json")],
            body.to_owned(),
        )
        .await
    }

    pub(crate) async fn put(&self, target: &str, body: &str) -> Answer {
        self.send(
            "PUT",
            target,
            &[("content-type", "application/json")],
            body.to_owned(),
        )
        .await
    }

    pub(crate) async fn patch(&self, target: &str, kind: &str, body: &str) -> Answer {
        let kind = match kind {
            "update" => "application/vnd.freshet.update+json",
            _ => "application/merge-patch+json",
        };
        self.send("PATCH", target, &[("content-type", kind)], body.to_owned())
            .await
    }

    /// Waits until the change feed has passed a write: what is cached from then on is not dropped because of it.
    pub(crate) async fn caught_up(&self, written: &Answer) {
        let position: u64 = written.header("freshet-position").parse().expect("a write");
        self.until("/readyz", |answer| {
            let watermark = &answer.json()["pipeline"]["watermark"];
            watermark
                .as_str()
                .and_then(|text| text.parse::<u64>().ok())
                .is_some_and(|watermark| watermark >= position)
        })
        .await;
    }

    /// Asks until the answer is as wanted.
    pub(crate) async fn until(&self, target: &str, wanted: impl Fn(&Answer) -> bool) -> Answer {
        let asking = async {
            loop {
                let answer = self.get(target).await;
                if wanted(&answer) {
                    return answer;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, asking)
            .await
            .unwrap_or_else(|_| panic!("{target} never was as wanted"))
    }

    /// What it has logged so far, to the last line that was read.
    pub(crate) fn log(&self) -> Vec<String> {
        self.log.lock().expect("not poisoned").clone()
    }

    /// Kills it outright, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it is our child");
    }

    /// Sends SIGTERM.
    pub(crate) fn terminate(&self) {
        let sent = Command::new("kill")
            .arg("-TERM")
            .arg(self.child.id().to_string())
            .status();
        assert!(sent.expect("kill").success());
    }

    /// Waits for the process to end, and says whether it did so well.
    pub(crate) async fn ended(&mut self) -> bool {
        let waiting = async {
            loop {
                if let Some(status) = self.child.try_wait().expect("it is our child") {
                    return status.success();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .expect("it ends")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The binary, without the settings of whoever runs the tests.
pub(crate) fn freshet() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_freshet"));
    command.env_clear();
    command
}

/// Sends a request to anybody, on a connection of its own.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let stream = TcpStream::connect(address).await.expect("it accepts");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .expect("HTTP/1.1");
    let driving = tokio::spawn(connection);
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).expect("a method"))
        .uri(target)
        .header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).expect("a request");
    let answer = read(sender.send_request(request).await.expect("an answer")).await;
    driving.abort();
    answer
}

pub(crate) async fn read(answer: http::Response<hyper::body::Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    Answer {
        status: parts.status,
        headers: parts.headers,
        body: body.collect().await.expect("a body").to_bytes(),
    }
}

/// Percent-encodes everything that could be in the way.
pub(crate) fn encode(text: &str) -> String {
    percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// `/v1/db/c?filter=…`.
pub(crate) fn filtered(filter: &str) -> String {
    format!("/v1/db/c?filter={}", encode(filter))
}
