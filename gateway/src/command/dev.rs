//! `freshet dev`: everything in one process on this machine, open to whoever can reach it, hence on loopback only.

use std::io::Cursor;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use freshet_core::name::Namespace;
use freshet_core::time::{Clock, Position};
use tokio_util::sync::CancellationToken;

use super::{layers, mistaken, say, serve};
use crate::assemble;
use crate::cli::Dev;
use crate::clock::SystemClock;
use crate::config::{self, Layers};
use crate::import::{self, Options};
use crate::store::Store;
use crate::telemetry::activity::Activity;
use crate::telemetry::log;

/// The database that the sample data is in.
const DATABASE: &str = "demo";
/// The sample data; see `data/NOTICE` for its source and licence.
const SAMPLES: [(&str, &str); 2] = [
    ("cities", include_str!("../../data/cities.ndjson")),
    ("countries", include_str!("../../data/countries.ndjson")),
];

/// Serves for development.
///
/// # Errors
/// What keeps it from starting.
pub async fn run(dev: Dev) -> anyhow::Result<ExitCode> {
    let settings = match config::parse("", "", &defaults(&dev)) {
        Ok(settings) => settings,
        Err(mistakes) => return Ok(mistaken(&mistakes)),
    };
    anyhow::ensure!(
        settings.server.listen.ip().is_loopback(),
        "freshet dev is open to everybody who can reach it, so it listens on loopback only; use freshet serve"
    );
    log::start(&settings.log);
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let stop = CancellationToken::new();
    let activity = Some(Arc::new(Activity::default()));
    let assembled = assemble::assemble(settings, clock, super::entropy(), activity, &stop).await?;
    if !dev.empty {
        load_samples(&*assembled.app.store).await?;
    }
    serve::serve_app(assembled, stop, |address| {
        greet(address, &dev.data, dev.empty)
    })
    .await
}

/// What `--set` leaves open. Variables are left out: a production environment must not open a development server.
fn defaults(dev: &Dev) -> Layers {
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, dev.port));
    let settings = [
        ("store", format!("embedded:{}", dev.data.display())),
        ("server.listen", listen.to_string()),
        (
            "access",
            r#"[{collection = "*", read = "public", write = "public", database_only = "allow"}]"#
                .to_owned(),
        ),
        ("admission.doorkeeper", "false".to_owned()),
        // A restart does not know which copies are about until the longest lifetime has passed (C8).
        ("policy.max_age_max", "1m".to_owned()),
        ("policy.shared_max_age_max", "1m".to_owned()),
        ("log.format", "pretty".to_owned()),
        ("log.level", "warn,freshet_gateway=warn".to_owned()),
    ];
    let flags = settings
        .map(|(path, value)| (path.to_owned(), value))
        .into_iter();
    let mut layers = layers(flags.chain(dev.set.iter().cloned()).collect());
    layers.variables.clear();
    layers
}

/// Fills the sample collections that are empty.
async fn load_samples(store: &dyn Store) -> anyhow::Result<()> {
    for (collection, text) in SAMPLES {
        let namespace = Namespace::new(DATABASE, collection).context("a sample's name")?;
        let all = bson::rawdoc! {};
        let counted = store
            .count(&namespace, &all, Position::ZERO)
            .await
            .context("the embedded database")?;
        if counted.count > 0 {
            continue;
        }
        let options = Options {
            batch: 1000,
            skip_bad: false,
            after: import::Mark::default(),
            first_id: bson::oid::ObjectId::new(),
            stop: tokio_util::sync::CancellationToken::new(),
        };
        let outcome = import::import(store, &namespace, Cursor::new(text), options, |_, _| ())
            .await
            .with_context(|| format!("loading the sample data into {namespace}"))?;
        say(&format!(
            "loaded {} documents into {namespace}",
            outcome.stored
        ));
    }
    Ok(())
}

fn greet(address: SocketAddr, data: &Path, empty: bool) {
    let base = format!("http://{address}");
    say(&format!(
        "\n  Freshet is running.   {base}/\n\n  data   {}",
        data.display()
    ));
    say("  access open, on loopback only\n");
    if empty {
        return;
    }
    say("  The largest cities of Switzerland; ask twice and look at Cache-Status:\n");
    say(&format!(
        "    curl -iG {base}/v1/demo/cities --data-urlencode 'filter={{\"country\":\"CH\"}}' -d sort=-population -d limit=3\n"
    ));
    say("  One record, and a change to it. The record and the query are fresh at once:\n");
    say(&format!("    curl -i {base}/v1/demo/cities/zurich-ch"));
    say(&format!(
        "    curl -i -X PATCH -H 'content-type: application/merge-patch+json' -d '{{\"population\":450000}}' {base}/v1/demo/cities/zurich-ch\n"
    ));
    say("  Follow a query while it changes:\n");
    say(&format!(
        "    curl -NG {base}/v1/demo/cities/_live --data-urlencode 'filter={{\"country\":\"CH\"}}' -d sort=-population -d limit=3\n"
    ));
    say("  What a client needs to know about freshness, and everything else there is:\n");
    say(&format!("    curl -s {base}/v1/demo/_sketch | xxd | head"));
    say(&format!("    curl -s {base}/openapi.json\n"));
    say("  The sample data is from GeoNames (geonames.org), CC BY 4.0. Ctrl-C ends.\n");
}
