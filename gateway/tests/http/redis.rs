//! Redis as users name it: over TLS and with a password, signed by an authority of one's own or one that the system
//! trusts; a cluster.

use freshet_fixture::Parts;

use crate::support::Server;

async fn caches(server: Server) {
    server.is_caching().await;
    let written = server.put("/v1/db/c/x", r#"{"n":1}"#).await;
    server.caught_up(&written).await;
    server.until("/v1/db/c/x", |answer| answer.is_hit()).await;
    let written = server.put("/v1/db/c/x", r#"{"n":2}"#).await;
    server.caught_up(&written).await;
    assert_eq!(server.get("/v1/db/c/x").await.json()["n"], 2);
}

#[tokio::test]
async fn over_tls_for_a_user_with_the_rights_that_the_documentation_asks_for() {
    let redis = Parts::guarded_redis().await.expect("Redis over TLS");
    let authority = redis.authority.display().to_string();
    let url = ("redis", redis.url.as_str());
    caches(Server::start(&[url, ("redis_ca", &authority)])).await;
    let trusted = [("SSL_CERT_FILE", authority.as_str())];
    caches(Server::start_in(&trusted, &[url, ("name", "other")])).await;
}

#[tokio::test]
async fn a_cluster() {
    let cluster = Parts::redis_cluster().await.expect("a cluster");
    caches(Server::start(&[("redis", cluster.url.as_str())])).await;
}
