//! The command line. `--help` teaches: what each command is for, and what to type first.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use freshet_invalidation::partition::Part;

/// Cacheable REST over MongoDB, with a bound on staleness.
#[derive(Debug, Parser)]
#[command(
    name = "freshet",
    version,
    about = "A REST gateway over MongoDB whose answers may be cached everywhere, and stay fresh.",
    after_help = "Try it, with nothing else installed:\n\n  freshet dev\n  curl -iG http://127.0.0.1:8080/v1/demo/cities --data-urlencode 'filter={\"country\":\"CH\"}' -d sort=-population -d limit=3\n\nProduction:\n\n  freshet settings > freshet.toml    every setting, with its default and what it does\n  freshet check --config freshet.toml\n  freshet serve --config freshet.toml\n\nLogs go to stderr. SIGTERM finishes the requests in flight and ends."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve, with an embedded database, sample data and a page to look at: loopback only, open to all who can reach it
    Dev(Dev),
    /// Serve, as the settings say
    Serve(Configured),
    /// Match a part of the queries with a part of the writes, for gateways whose settings have a grid
    Worker(Worker),
    /// Look for mistakes in the settings, and report every one with its place
    Check(Configured),
    /// Print every setting with its form, its default and what it does
    Settings,
    /// Load a file of documents into a collection
    Import(Import),
}

/// `freshet dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    /// Where the embedded database lives
    #[arg(long, value_name = "DIRECTORY", default_value = "./freshet-data")]
    pub data: PathBuf,
    /// Leave the sample data out
    #[arg(long)]
    pub empty: bool,
    /// A setting over the defaults, as in `--set log.format=json`
    #[arg(long = "set", value_name = "SETTING=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
}

/// Commands that take settings.
#[derive(Debug, Args)]
pub struct Configured {
    /// The settings file (TOML)
    #[arg(long, short, value_name = "FILE", env = "FRESHET_CONFIG")]
    pub config: Option<PathBuf>,
    /// The database: mongodb://… or embedded:DIRECTORY
    #[arg(long, value_name = "STORE")]
    pub store: Option<String>,
    /// Redis for the sketch: redis://…, rediss://… or redis+cluster://…
    #[arg(long, value_name = "URL")]
    pub redis: Option<String>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<String>,
    /// Any other setting, as in `--set limits.body_bytes_max=1MiB`; over variables and file
    #[arg(long = "set", value_name = "SETTING=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
}

impl Configured {
    /// The flags as settings.
    #[must_use]
    pub fn flags(&self) -> Vec<(String, String)> {
        let named = [
            ("store", &self.store),
            ("redis", &self.redis),
            ("server.listen", &self.listen),
        ];
        named
            .into_iter()
            .filter_map(|(path, value)| Some((path.to_owned(), value.clone()?)))
            .chain(self.set.iter().cloned())
            .collect()
    }
}

/// `freshet worker`.
#[derive(Debug, Args)]
#[command(
    after_help = "One worker runs for each pair of a query partition and a write partition; all of them and the gateways have the same \
settings. A grid of two by two:\n\n\
  freshet worker --query-partition 0/2 --write-partition 0/2 --config freshet.toml --listen 127.0.0.1:9100\n  \
freshet worker --query-partition 0/2 --write-partition 1/2 --config freshet.toml --listen 127.0.0.1:9101\n  \
freshet worker --query-partition 1/2 --write-partition 0/2 --config freshet.toml --listen 127.0.0.1:9102\n  \
freshet worker --query-partition 1/2 --write-partition 1/2 --config freshet.toml --listen 127.0.0.1:9103\n  \
freshet serve --config freshet.toml --set grid.query_partitions=2 --set grid.write_partitions=2\n\n\
At --listen a worker answers /healthz, /readyz and /metrics. Of all workers one reads the database's changes; when it ends, \
another takes over."
)]
pub struct Worker {
    /// Which part of the queries, of how many; the first is 0
    #[arg(long, value_name = "I/N")]
    pub query_partition: Part,
    /// Which part of the writes, of how many; the first is 0
    #[arg(long, value_name = "J/M")]
    pub write_partition: Part,
    /// The settings
    #[command(flatten)]
    pub configured: Configured,
}

/// `freshet import`.
#[derive(Debug, Args)]
#[command(
    after_help = "The file is NDJSON (one document per line) or one JSON array; Extended JSON in both. A document without \
`_id` gets one. With `--resume`, the documents that an earlier, broken-off import of the same file has finished are left \
out; what follows them may have been repaired. Ctrl-C finishes the write under way and keeps the progress.\n\n\
  freshet import cities.ndjson --into shop.cities --store embedded:./freshet-data\n  freshet import dump.json --into shop.items --store mongodb://localhost/?replicaSet=rs0 --skip-bad"
)]
pub struct Import {
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The collection
    #[arg(long, value_name = "DATABASE.COLLECTION")]
    pub into: String,
    /// The database: mongodb://… or embedded:DIRECTORY
    #[arg(
        long,
        value_name = "STORE",
        env = "FRESHET_STORE",
        default_value = "embedded:./freshet-data"
    )]
    pub store: String,
    /// Go on after a document that cannot be read or stored; without it the first one ends the import
    #[arg(long)]
    pub skip_bad: bool,
    /// Leave out what an earlier import of the same file finished (kept in FILE.freshet-progress)
    #[arg(long)]
    pub resume: bool,
    /// Documents per write
    #[arg(long, value_name = "COUNT", default_value_t = 500, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub batch: u16,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(path, value)| (path.trim().to_owned(), value.to_owned()))
        .ok_or_else(|| "must be SETTING=VALUE".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
