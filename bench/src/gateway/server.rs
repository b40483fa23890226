//! A server under measurement: a child process, its address, and checks that it does what is measured.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, ensure};
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdout, Command};

/// A running server; it is killed when this is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _child: Child,
}

impl Server {
    /// The gateway over MongoDB, with this much of its own tier and every answer admitted.
    pub(crate) async fn gateway(binary: &Path, uri: &str, tier: &str) -> anyhow::Result<Server> {
        let mut command = Command::new(binary);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--store", uri])
            .args(["--set", "admission.doorkeeper=false", "--set", "log.level=warn"])
            .args(["--set", &format!("tier.bytes_max={tier}")])
            .args(["--set", "access.0.collection=bench.*", "--set", "access.0.read=public"]);
        Server::start(command, |line| {
            let announced: serde_json::Value = serde_json::from_str(line)?;
            let address = announced["listening"].as_str().context("no address announced")?;
            Ok(address.trim_start_matches("http://").parse()?)
        })
        .await
    }

    /// A baseline: this program again.
    pub(crate) async fn baseline(arguments: &[&str]) -> anyhow::Result<Server> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("baseline").args(arguments);
        Server::start(command, |line| Ok(line.parse()?)).await
    }

    async fn start(
        mut command: Command,
        address: impl Fn(&str) -> anyhow::Result<SocketAddr>,
    ) -> anyhow::Result<Server> {
        let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let stdout = child.stdout.take().context("no stdout")?;
        let line = first_line(stdout).await?;
        let address = address(line.trim()).with_context(|| format!("announced: {line}"))?;
        Ok(Server { address, _child: child })
    }

    /// Asks twice and checks that the second answer came from the tier.
    ///
    /// # Errors
    /// It did not: then hits would not be what is measured.
    pub(crate) async fn expect_tier_hit(&self, path: &str) -> anyhow::Result<usize> {
        self.ask(path).await?;
        let (status, bytes) = self.ask(path).await?;
        ensure!(status.contains("hit"), "the second answer was no hit: {status}");
        Ok(bytes)
    }

    /// Asks twice and checks that neither answer came from the tier.
    ///
    /// # Errors
    /// One did.
    pub(crate) async fn expect_no_hit(&self, path: &str) -> anyhow::Result<()> {
        for _ in 0..2 {
            let (status, _) = self.ask(path).await?;
            ensure!(!status.contains("hit"), "an answer came from the tier: {status}");
        }
        Ok(())
    }

    /// The `Cache-Status` and the size of an answer.
    async fn ask(&self, path: &str) -> anyhow::Result<(String, usize)> {
        let client = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
        let uri = format!("http://{}{path}", self.address);
        let answer = client.request(Request::get(uri).body(Empty::new())?).await?;
        ensure!(answer.status() == 200, "{path} answered {}", answer.status());
        let status = answer.headers().get("cache-status").context("no Cache-Status")?.to_str()?.to_owned();
        Ok((status, answer.into_body().collect().await?.to_bytes().len()))
    }
}

async fn first_line(stdout: ChildStdout) -> anyhow::Result<String> {
    let mut lines = BufReader::new(stdout);
    let mut line = String::new();
    lines.read_line(&mut line).await.context("reading the address")?;
    ensure!(!line.is_empty(), "the server ended before it announced its address");
    Ok(line)
}
