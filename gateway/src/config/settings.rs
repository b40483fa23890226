//! All settings, each with its default and what it does. Read from top to bottom this is the reference.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use freshet_invalidation::RedisServer;

pub use super::edges::{AkamaiNetwork, Edge, EdgeKind, WebhookAuth};
pub use super::grid::Grid;
use super::policy::Policy;
use super::reader::Reader;
pub use super::rules::{AccessRule, Clients, DatabaseOnly, Grant, Queries};
use super::stores;
pub use super::stores::StoreChoice;
use super::units::{Bytes, choice};

/// Everything the gateway was told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The database.
    pub store: StoreChoice,
    /// Redis for the sketch, when several gateways share one.
    pub redis: Option<RedisServer>,
    /// This gateway's name among those that share a Redis; none: host name and listening address.
    pub name: Option<String>,
    /// A grid of workers that match; none: each gateway matches for itself.
    pub grid: Option<Grid>,
    /// The listening side.
    pub server: Server,
    /// What one request may ask for.
    pub limits: Limits,
    /// Live queries.
    pub live: Live,
    /// How long answers may live.
    pub policy: Policy,
    /// The gateway's own cache.
    pub tier: Tier,
    /// Which answers enter caches at all.
    pub admission: Admission,
    /// Who may do what.
    pub access: Vec<AccessRule>,
    /// Caches in front of the gateway that must be purged.
    pub edges: Vec<Edge>,
    /// Logs.
    pub log: Log,
}

/// The listening side: addresses, timeouts, limits of connections.
#[derive(Clone, Debug)]
pub struct Server {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Open connections at once.
    pub connections_max: u64,
    /// HTTP/2 streams at once on one connection.
    pub streams_max: u32,
    /// Bytes of one request's head.
    pub header_bytes_max: Bytes,
    /// Time for one request's head to arrive; also how long an idle HTTP/1.1 connection is kept.
    pub header_read_timeout: Duration,
    /// An idle HTTP/2 connection is closed after this.
    pub idle_timeout: Duration,
    /// Time for a request's body to arrive.
    pub body_read_timeout: Duration,
    /// F: time in which a cacheable answer must have been handed over (C5).
    pub fill_timeout: Duration,
    /// Time for any other answer to be taken by the client.
    pub write_timeout: Duration,
    /// Time that SIGTERM leaves to requests in flight.
    pub drain_timeout: Duration,
}

/// What one request may ask for.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request target.
    pub url_bytes_max: Bytes,
    /// Bytes of a request body.
    pub body_bytes_max: Bytes,
    /// Documents in one insert.
    pub insert_documents_max: u64,
    /// Time the database may take for one read.
    pub read_timeout: Duration,
    /// Reads that wait for the database at once; more are refused with 503.
    pub reads_in_flight_max: u64,
    /// Writes under way at once; more are refused with 429.
    pub writes_in_flight_max: u64,
    /// Stored queries of one database.
    pub stored_queries_max: u64,
    /// Bytes of a stored query's key.
    pub stored_query_bytes_max: Bytes,
}

/// Live queries.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Different ones at once; more are refused with 503.
    pub queries_max: u64,
    /// Streams of them at once; more are refused with 503.
    pub followers_max: u64,
}

/// The gateway's own cache.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its size; 0 turns it off.
    pub bytes_max: Bytes,
    /// Answers larger than this are not kept.
    pub entry_bytes_max: Bytes,
}

/// Which answers enter caches at all.
#[derive(Clone, Debug)]
pub struct Admission {
    /// Cache an answer only from the second request for it on.
    pub doorkeeper: bool,
    /// How long a first request is remembered.
    pub window: Duration,
    /// How many first requests are remembered.
    pub keys_max: u64,
}

choice! {
    /// How logs look.
    LogFormat {
        /// One JSON object per line.
        Json = "json",
        /// For people.
        Pretty = "pretty",
    }
}

/// Logs, to stderr.
#[derive(Clone, Debug)]
pub struct Log {
    /// How they look.
    pub format: LogFormat,
    /// What is logged.
    pub level: String,
}

impl Settings {
    /// Reads all settings; mistakes go to the reader's report.
    pub fn read(r: &mut Reader<'_>) -> Settings {
        let store = stores::read_store(r);
        let redis = stores::read_redis(r);
        let purged = RefCell::default();
        let name = r.optional("name", "This gateway's name among those that share a Redis: unique, and the same after a restart; without it host name and listening address.");
        let grid = r.table("grid", Grid::read);
        let is_shared = matches!(store, StoreChoice::Mongo(_)) && redis.is_some();
        if grid.is_some() && !is_shared {
            r.wrong("grid", "a grid needs MongoDB as `store`, and `redis`");
        }
        Settings {
            store,
            redis,
            name,
            grid,
            server: r.table("server", Server::read),
            limits: r.table("limits", Limits::read),
            live: r.table("live", Live::read),
            policy: r.table("policy", Policy::read),
            tier: r.table("tier", Tier::read),
            admission: r.table("admission", Admission::read),
            log: r.table("log", Log::read),
            access: r.tables("access", AccessRule::read),
            edges: r.tables("edge", |r| Edge::read(r, &purged)),
        }
    }
}

/// Settings that at zero would refuse or cut off every request.
pub(super) fn positive(r: &mut Reader<'_>, table: &str, settings: &[(&str, bool)]) {
    for (name, positive) in settings {
        if !positive {
            r.wrong(name, format!("`{table}.{name}` must be above zero"));
        }
    }
}

impl Server {
    fn read(r: &mut Reader<'_>) -> Server {
        let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
        let server = Server {
            listen: r.get("listen", loopback, "Where to listen; port 0 takes a free one."),
            connections_max: r.get("connections_max", 10_000, "Open connections at once; more wait in the kernel's queue."),
            streams_max: r.get("streams_max", 128, "HTTP/2 streams at once on one connection."),
            header_bytes_max: r.get("header_bytes_max", Bytes(32 << 10), "Bytes of one request's head, 16KiB to 64KiB; more is 431."),
            header_read_timeout: r.get("header_read_timeout", secs(15), "Time for a request's head to arrive, for a new connection to begin one, and for an idle HTTP/1.1 connection to begin the next."),
            idle_timeout: r.get("idle_timeout", secs(120), "A connection without a request for this long is closed."),
            body_read_timeout: r.get("body_read_timeout", secs(30), "Time for a request's body to arrive; longer is 408."),
            fill_timeout: r.get("fill_timeout", secs(2), "Time in which a cacheable answer must have been taken; longer and the connection is cut, so that no cache stores what was purged meanwhile."),
            write_timeout: r.get("write_timeout", secs(60), "Time for any other answer to be taken."),
            drain_timeout: r.get("drain_timeout", secs(25), "Time that SIGTERM leaves to requests in flight."),
        };
        if !(16 << 10..=64 << 10).contains(&server.header_bytes_max.0) {
            r.wrong(
                "header_bytes_max",
                "`server.header_bytes_max` must be from 16KiB to 64KiB",
            );
        }
        let positives = [
            ("connections_max", server.connections_max > 0),
            ("streams_max", server.streams_max > 0),
            ("header_read_timeout", !server.header_read_timeout.is_zero()),
            ("idle_timeout", !server.idle_timeout.is_zero()),
            ("body_read_timeout", !server.body_read_timeout.is_zero()),
            ("fill_timeout", !server.fill_timeout.is_zero()),
            ("write_timeout", !server.write_timeout.is_zero()),
        ];
        positive(r, "server", &positives);
        if server.fill_timeout > secs(60) {
            r.wrong("fill_timeout", "`server.fill_timeout` must be at most 60s");
        }
        server
    }
}

impl Live {
    fn read(r: &mut Reader<'_>) -> Live {
        Live {
            queries_max: r.get(
                "queries_max",
                10_000,
                "Different live queries at once; more are 503.",
            ),
            followers_max: r.get(
                "followers_max",
                20_000,
                "Streams of live queries at once; more are 503.",
            ),
        }
    }
}

impl Limits {
    fn read(r: &mut Reader<'_>) -> Limits {
        let limits = Limits {
            url_bytes_max: r.get(
                "url_bytes_max",
                Bytes(8 << 10),
                "Bytes of a request target; more is 414.",
            ),
            body_bytes_max: r.get(
                "body_bytes_max",
                Bytes(16 << 20),
                "Bytes of a request body; more is 413.",
            ),
            insert_documents_max: r.get(
                "insert_documents_max",
                1000,
                "Documents in one insert; more is 413.",
            ),
            read_timeout: r.get(
                "read_timeout",
                secs(10),
                "Time the database may take for one read; longer is 503.",
            ),
            reads_in_flight_max: r.get(
                "reads_in_flight_max",
                512,
                "Reads that wait for the database at once; more are 503.",
            ),
            writes_in_flight_max: r.get(
                "writes_in_flight_max",
                256,
                "Writes under way at once; more are 429.",
            ),
            stored_queries_max: r.get(
                "stored_queries_max",
                10_000,
                "Stored queries of one database, about; more are 429.",
            ),
            stored_query_bytes_max: r.get(
                "stored_query_bytes_max",
                Bytes(64 << 10),
                "Bytes of a stored query in canonical form, at most 1MiB; more is 413.",
            ),
        };
        let positives = [
            ("body_bytes_max", limits.body_bytes_max.0 > 0),
            ("insert_documents_max", limits.insert_documents_max > 0),
            ("read_timeout", !limits.read_timeout.is_zero()),
        ];
        positive(r, "limits", &positives);
        if limits.url_bytes_max.0 > 16 << 10 || limits.url_bytes_max.0 < 256 {
            r.wrong(
                "url_bytes_max",
                "`limits.url_bytes_max` must be from 256B to 16KiB",
            );
        }
        if limits.stored_query_bytes_max.0 > 1 << 20 {
            r.wrong(
                "stored_query_bytes_max",
                "`limits.stored_query_bytes_max` must be at most 1MiB",
            );
        }
        if limits.read_timeout > READ_TIMEOUT_MAX || limits.read_timeout.is_zero() {
            r.wrong(
                "read_timeout",
                "`limits.read_timeout` must be above 0 and at most 20s: a read must end before its changes are forgotten",
            );
        }
        limits
    }
}

/// Well below the time for which changes are remembered for reads under way (C2).
const READ_TIMEOUT_MAX: Duration = secs(20);

impl Tier {
    fn read(r: &mut Reader<'_>) -> Tier {
        Tier {
            bytes_max: r.get(
                "bytes_max",
                Bytes(64 << 20),
                "Size of the gateway's own cache; \"0B\" turns it off.",
            ),
            entry_bytes_max: r.get(
                "entry_bytes_max",
                Bytes(1 << 20),
                "Answers larger than this are not kept in it.",
            ),
        }
    }
}

impl Admission {
    fn read(r: &mut Reader<'_>) -> Admission {
        Admission {
            doorkeeper: r.get("doorkeeper", true, "Cache an answer only from the second request for it on: one-off queries are not watched."),
            window: r.get("window", secs(600), "How long a first request is remembered, at least."),
            keys_max: r.get("keys_max", 1_000_000, "How many first requests are remembered."),
        }
    }
}

impl Log {
    fn read(r: &mut Reader<'_>) -> Log {
        let log = Log {
            format: r.get("format", LogFormat::Json, "How logs on stderr look."),
            level: r.get("level", "info".to_owned(), "What is logged: error, warn, info, debug, trace, or per module as in \"info,freshet_gateway=debug\"."),
        };
        if tracing_subscriber::EnvFilter::try_new(&log.level).is_err() {
            r.wrong("level", format!("{:?} is not a log level", log.level));
        }
        log
    }
}

pub(super) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}
