//! A server under measurement: a child process, its address, and checks that it does what is measured.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};

/// How often a gateway is asked whether it caches, 50 ms apart.
const CACHING_POLLS_MAX: usize = 1200;

/// A running server; it is killed when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _child: Child,
}

impl Server {
    /// The gateway over MongoDB, with this much of its own tier and every answer admitted.
    pub(crate) async fn gateway(binary: &Path, uri: &str, tier: &str) -> anyhow::Result<Server> {
        let mut settings = tempfile::NamedTempFile::with_suffix(".toml")?;
        settings.write_all(
            format!(
                "store = \"{uri}\"\n[server]\nlisten = \"127.0.0.1:0\"\n[admission]\ndoorkeeper = false\n\
                 [tier]\nbytes_max = \"{tier}\"\n[[access]]\ncollection = \"bench.*\"\nread = \"public\"\n"
            )
            .as_bytes(),
        )?;
        let mut command = Command::new(binary);
        command
            .arg("serve")
            .arg("--config")
            .arg(settings.path())
            .stderr(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let log = child.stderr.take().context("no stderr")?;
        let address = listening(log).await?;
        let server = Server {
            address,
            _child: child,
        };
        server.wait_until_caching().await?;
        Ok(server)
    }

    /// A baseline: this program again.
    pub(crate) async fn baseline(bench: &Path, arguments: &[&str]) -> anyhow::Result<Server> {
        let mut command = Command::new(bench);
        command
            .arg("baseline")
            .args(arguments)
            .stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no stdout")?).lines();
        let line = lines
            .next_line()
            .await?
            .context("the baseline ended before it listened")?;
        Ok(Server {
            address: line.parse()?,
            _child: child,
        })
    }

    async fn wait_until_caching(&self) -> anyhow::Result<()> {
        for _ in 0..CACHING_POLLS_MAX {
            if self
                .ask("/readyz")
                .await
                .is_ok_and(|answer| answer.body.contains("\"caching\":true"))
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("the gateway did not begin to cache")
    }

    /// Asks twice and checks that the second answer came from the tier.
    ///
    /// # Errors
    /// It did not: then hits would not be what is measured.
    pub(crate) async fn expect_tier_hit(&self, path: &str) -> anyhow::Result<usize> {
        self.ask(path).await?;
        let answer = self.ask(path).await?;
        let status = &answer.cache_status;
        ensure!(
            status.contains("hit"),
            "the second answer was no hit: {status}"
        );
        Ok(answer.body.len())
    }

    /// Asks twice and checks that neither answer came from the tier.
    ///
    /// # Errors
    /// One did.
    pub(crate) async fn expect_no_hit(&self, path: &str) -> anyhow::Result<()> {
        for _ in 0..2 {
            let status = self.ask(path).await?.cache_status;
            ensure!(
                !status.contains("hit"),
                "an answer came from the tier: {status}"
            );
        }
        Ok(())
    }

    async fn ask(&self, path: &str) -> anyhow::Result<Answer> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
        let uri = format!("http://{}{path}", self.address);
        let answer = client
            .request(Request::get(uri).body(Empty::new())?)
            .await?;
        ensure!(
            answer.status() == 200,
            "{path} answered {}",
            answer.status()
        );
        let cache_status = answer
            .headers()
            .get("cache-status")
            .map(|value| value.to_str().unwrap_or_default());
        let cache_status = cache_status.unwrap_or_default().to_owned();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok(Answer {
            cache_status,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}

/// What a check looks at.
struct Answer {
    cache_status: String,
    body: String,
}

/// The gateway logs JSON lines; one says where it listens. The rest is read away, so that the pipe never fills.
async fn listening(log: ChildStderr) -> anyhow::Result<SocketAddr> {
    let mut lines = BufReader::new(log).lines();
    while let Some(line) = lines.next_line().await? {
        let entry: serde_json::Value = serde_json::from_str(&line).unwrap_or_default();
        if entry["message"] == "listening" {
            let address = entry["address"].as_str().context("no address")?.parse()?;
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return Ok(address);
        }
        eprintln!("gateway: {line}");
    }
    bail!("the gateway ended before it listened")
}
