//! Where Redis is, and a connection to it that comes back by itself: one server or a cluster, in the open or over TLS.
//! All keys of a deployment share one hash tag, so a cluster keeps them on one of its nodes. Operations fail in bounded
//! time while there is no connection. What is refused here never repeats the URL, which may hold a password.

use std::fmt;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClient, ClusterConfig};
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, SlotAddr};
use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline, RedisFuture,
    RedisResult, TlsCertificates, Value,
};

/// Where Redis is, and as whom it is used.
#[derive(Clone)]
pub struct RedisServer(Place);

#[derive(Clone)]
enum Place {
    One(Box<Client>),
    Cluster(Box<ClusterClient>),
}

/// Why a URL is not one of Redis.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// Another scheme, or none.
    #[error(
        "must be redis://host:port, rediss://host:port (TLS), redis+unix:///path, or a cluster's redis+cluster://host:port,host:port or rediss+cluster://…"
    )]
    Scheme,
    /// Hosts separated by commas, without saying that they are a cluster.
    #[error("names several hosts: a cluster is written redis+cluster:// or rediss+cluster://")]
    Hosts,
    /// A cluster has one database.
    #[error("must end with the hosts: a cluster has neither databases nor options")]
    Rest,
    /// A connection that anyone could have answered.
    #[error("cannot be #insecure: name the authority that signed the server's certificate instead")]
    Unchecked,
    /// An authority where there is no TLS.
    #[error("needs rediss:// or rediss+cluster://, since an authority is named for it")]
    NoTls,
    /// No certificate was found in what should hold the authority's.
    #[error("comes with an authority that is not a certificate in PEM form")]
    Authority,
    /// What the driver says.
    #[error("cannot be read: {0}")]
    Other(String),
}

const CLUSTER: &str = "redis+cluster://";
const CLUSTER_TLS: &str = "rediss+cluster://";

impl RedisServer {
    /// Reads a URL. `authority` is the certificate, in PEM form, of who signed the server's; the system's are trusted
    /// without it.
    ///
    /// # Errors
    /// It is not one, in words that do not repeat it.
    pub fn parse(url: &str, authority: Option<&[u8]>) -> Result<RedisServer, RedisUrlError> {
        if url.ends_with("#insecure") {
            return Err(RedisUrlError::Unchecked);
        }
        let certificates = authority.map(certificates).transpose()?;
        let place = if let Some(rest) = url.strip_prefix(CLUSTER) {
            cluster("redis", rest, certificates)?
        } else if let Some(rest) = url.strip_prefix(CLUSTER_TLS) {
            cluster("rediss", rest, certificates)?
        } else {
            one(url, certificates)?
        };
        Ok(RedisServer(place))
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::One(client) => write!(f, "Redis at {}", client.get_connection_info().addr()),
            Place::Cluster(_) => f.write_str("a cluster of Redis"),
        }
    }
}

fn certificates(authority: &[u8]) -> Result<TlsCertificates, RedisUrlError> {
    let begins = b"-----BEGIN CERTIFICATE-----";
    if !authority.windows(begins.len()).any(|some| some == begins) {
        return Err(RedisUrlError::Authority);
    }
    Ok(TlsCertificates {
        client_tls: None,
        root_cert: Some(authority.to_vec()),
    })
}

fn one(url: &str, certificates: Option<TlsCertificates>) -> Result<Place, RedisUrlError> {
    let hosts = url.rsplit('@').next().unwrap_or_default();
    if hosts.contains(',') && !url.starts_with("redis+unix://") {
        return Err(RedisUrlError::Hosts);
    }
    let info = info(url)?;
    let client = match certificates {
        Some(_) if !is_tls(&info) => return Err(RedisUrlError::NoTls),
        Some(certificates) => Client::build_with_tls(info, certificates),
        None => Client::open(info),
    };
    let client = client.map_err(other)?;
    Ok(Place::One(Box::new(client)))
}

/// `[user:password@]host[:port],host[:port]…`
fn cluster(
    scheme: &str,
    rest: &str,
    certificates: Option<TlsCertificates>,
) -> Result<Place, RedisUrlError> {
    let (who, hosts) = match rest.rsplit_once('@') {
        Some((who, hosts)) => (format!("{who}@"), hosts),
        None => (String::new(), rest),
    };
    if hosts.contains(['/', '?', '#']) {
        return Err(RedisUrlError::Rest);
    }
    let nodes: Result<Vec<_>, _> = hosts
        .split(',')
        .map(|host| info(&format!("{scheme}://{who}{host}")))
        .collect();
    let mut builder = ClusterClient::builder(nodes?);
    if let Some(certificates) = certificates {
        if scheme != "rediss" {
            return Err(RedisUrlError::NoTls);
        }
        builder = builder.certs(certificates);
    }
    let client = builder.build().map_err(other)?;
    Ok(Place::Cluster(Box::new(client)))
}

fn info(url: &str) -> Result<ConnectionInfo, RedisUrlError> {
    let schemes = ["redis://", "rediss://", "redis+unix://"];
    if !schemes.iter().any(|scheme| url.starts_with(scheme)) {
        return Err(RedisUrlError::Scheme);
    }
    url.into_connection_info().map_err(other)
}

fn is_tls(info: &ConnectionInfo) -> bool {
    matches!(info.addr(), ConnectionAddr::TcpTls { .. })
}

fn other(error: redis::RedisError) -> RedisUrlError {
    RedisUrlError::Other(error.to_string())
}

/// A connection; clones of it are the same one.
#[derive(Clone)]
pub(crate) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// Connects in the background and for ever after.
///
/// # Errors
/// The settings contradict each other.
pub(crate) fn connect(server: &RedisServer, operation_max: Duration) -> RedisResult<Connection> {
    match &server.0 {
        Place::One(client) => {
            let config = ConnectionManagerConfig::new()
                .set_min_delay(Duration::from_millis(50))
                .set_max_delay(Duration::from_secs(2))
                .set_number_of_retries(0)
                .set_connection_timeout(Some(operation_max))
                .set_response_timeout(Some(operation_max));
            ConnectionManager::new_lazy_with_config(Client::clone(client), config)
                .map(Connection::One)
        }
        Place::Cluster(client) => {
            let config = ClusterConfig::new()
                .set_connection_timeout(operation_max)
                .set_response_timeout(operation_max);
            let connection = client.get_pending_async_connection_with_config(config);
            Ok(Connection::Cluster(connection))
        }
    }
}

impl Connection {
    /// Sends a command that names no key to the node that has `key`: functions are loaded where they are called, and
    /// do not wait for nodes that have no part in it.
    pub(crate) async fn query_where(&mut self, key: &str, command: &Cmd) -> RedisResult<Value> {
        match self {
            Connection::One(connection) => command.query_async(connection).await,
            Connection::Cluster(connection) => {
                let route = Route::with_key(key, SlotAddr::Master);
                let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::SpecificNode(route));
                let reply = connection.route_command(command.clone(), node).await?;
                reply.extract_error()
            }
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Connection::One(connection) => connection.req_packed_command(command),
            Connection::Cluster(connection) => connection.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Connection::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Connection::Cluster(connection) => {
                connection.req_packed_commands(pipeline, offset, count)
            }
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Connection::One(connection) => connection.get_db(),
            Connection::Cluster(connection) => connection.get_db(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str, authority: Option<&[u8]>) -> RedisUrlError {
        RedisServer::parse(url, authority).expect_err("refused")
    }

    #[test]
    fn what_users_write_is_read() {
        for url in [
            "redis://h",
            "redis://h:6380/3",
            "redis://user:pa%3Ass@h:1",
            "rediss://:secret@h:1",
            "redis+unix:///run/redis.sock",
            "redis+cluster://a:1",
            "redis+cluster://a:1,b:2,[::1]:3",
            "rediss+cluster://user:p,%40ss@a:1,b",
        ] {
            let server = RedisServer::parse(url, None);
            assert!(server.is_ok(), "{url}: {server:?}");
        }
    }

    #[test]
    fn what_is_refused_is_named_and_no_password_is_shown() {
        use RedisUrlError::*;
        for (url, why) in [
            ("", Scheme),
            ("h:6379", Scheme),
            ("http://h", Scheme),
            ("redis://u:hunter2@a:1,b:2", Hosts),
            ("redis+cluster://u:hunter2@a:1,b:2/0", Rest),
            ("rediss://u:hunter2@h#insecure", Unchecked),
            ("rediss+cluster://u:hunter2@h#insecure", Unchecked),
        ] {
            assert_eq!(refused(url, None), why, "{url}");
        }
        for url in [
            "redis://u:hunter2@h:port",
            "redis://u:hunter2@h/db",
            "redis+cluster://u:hunter2@",
            "redis+cluster://u:hunter2@a,,b",
            "redis+cluster://",
        ] {
            let why = refused(url, None);
            assert!(matches!(why, Other(_)), "{url}: {why}");
            assert!(!why.to_string().contains("hunter2"), "{why}");
        }
        let server = RedisServer::parse("redis://u:hunter2@h", None).expect("a URL");
        assert_eq!(format!("{server:?}"), "Redis at h:6379");
    }

    #[test]
    fn an_authority_is_a_certificate_and_for_tls() {
        use RedisUrlError::*;
        assert_eq!(refused("rediss://h", Some(b"rubbish")), Authority);
        let pem = b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n";
        assert_eq!(refused("redis://h", Some(pem)), NoTls);
        assert_eq!(refused("redis+cluster://h", Some(pem)), NoTls);
    }
}
