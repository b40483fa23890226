//! Purges at a real Varnish with the shipped policy (rule C5, bugs T1, T4, T8).

mod conformance;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use conformance::SystemClock;
use freshet_core::freshness::{
    Edge, Lifetimes, ResourceKind, SurrogateKey, cacheable, resource_surrogates,
};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::{Position, Ttl};
use freshet_fixture::{Parts, Varnish as Node};
use freshet_invalidation::purge::port::{PurgeError, Purger};
use freshet_invalidation::purge::{
    Confirmed, Order, Outbox, OutboxSettings, Target, Varnish, VarnishSettings,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// An origin that answers every request with the next number, tagged with the key of its path; `/v1/d/c/slow`
/// only when it is let go.
struct Origin {
    port: u16,
    requests: Arc<AtomicUsize>,
    go: Arc<Semaphore>,
}

impl Origin {
    async fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let requests = Arc::new(AtomicUsize::new(0));
        let go = Arc::new(Semaphore::new(0));
        let (count, gate) = (requests.clone(), go.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, count.clone(), gate.clone()));
            }
        });
        Origin { port, requests, go }
    }
}

fn namespace() -> Namespace {
    Namespace::new("d", "c").expect("valid")
}

async fn serve(mut stream: TcpStream, count: Arc<AtomicUsize>, go: Arc<Semaphore>) {
    let mut head = Vec::new();
    while let Ok(byte) = stream.read_u8().await {
        head.push(byte);
        if !head.ends_with(b"\r\n\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        head.clear();
        let path = text.split(' ').nth(1).unwrap_or("/").to_owned();
        let number = count.fetch_add(1, Ordering::SeqCst) + 1;
        if path.ends_with("slow") {
            go.acquire().await.expect("open").forget();
        }
        let lifetimes = Lifetimes {
            m: Ttl(60),
            s: Ttl(600),
        };
        let keys = resource_surrogates(
            ResourceKind::Record,
            &namespace(),
            &Key::from(path.as_str()),
        );
        let body = number.to_string();
        let mut answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in cacheable(lifetimes, &keys, Edge::Varnish) {
            answer.push_str(&format!("{name}: {value}\r\n"));
        }
        answer.push_str(&format!("\r\n{body}"));
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

async fn get(node: &Node, path: &str) -> usize {
    let body = reqwest::get(format!("{}{path}", node.url))
        .await
        .expect("answered");
    let text = body.text().await.expect("a body");
    text.parse()
        .unwrap_or_else(|_| panic!("not a number: {text}"))
}

fn purger(node: &Node, secret: &str) -> Varnish {
    let settings = VarnishSettings {
        url: node.url.clone(),
        secret: secret.to_owned(),
        request_ms_max: 2_000,
    };
    Varnish::new(&settings).expect("valid")
}

fn order(path: &str, position: u64) -> Order {
    let key = Key::from(path);
    Order {
        surrogate: SurrogateKey::resource(ResourceKind::Record, &key),
        target: Target::Resource(namespace(), key),
        position: Position(position),
    }
}

#[tokio::test]
async fn purges_what_is_tagged_and_nothing_else() {
    let origin = Origin::start().await;
    let node = Parts::varnish(&[origin.port], None).await.expect("Varnish");
    let [a, b] = ["/v1/d/c/1", "/v1/d/c/2"];
    assert_eq!((get(&node, a).await, get(&node, b).await), (1, 2));
    assert_eq!(
        (get(&node, a).await, get(&node, b).await),
        (1, 2),
        "both are kept"
    );
    let purger = purger(&node, node.secret);
    purger
        .purge(&[order(a, 1).surrogate])
        .await
        .expect("purged");
    assert_eq!((get(&node, a).await, get(&node, b).await), (3, 2));
    purger.purge(&[]).await.expect("T8: nothing to do");
    assert_eq!((get(&node, a).await, get(&node, b).await), (3, 2));
    let many: Vec<SurrogateKey> = (0..255)
        .map(|i| order(&format!("/v1/d/c/x{i}"), 1).surrogate)
        .chain([order(b, 1).surrogate])
        .collect();
    purger.purge(&many).await.expect("T6: 256 keys at once");
    assert_eq!(get(&node, b).await, 4);
    assert_eq!(origin.requests.load(Ordering::SeqCst), 4);
}

#[tokio::test]
async fn t4_a_refused_purge_is_an_error() {
    let origin = Origin::start().await;
    let node = Parts::varnish(&[origin.port], None).await.expect("Varnish");
    let refused = purger(&node, "wrong")
        .purge(&[order("/v1/d/c/1", 1).surrogate])
        .await;
    assert_eq!(refused, Err(PurgeError::Refused(403)));
    node.node.kill().await.expect("killed");
    let unreachable = purger(&node, node.secret)
        .purge(&[order("/v1/d/c/1", 1).surrogate])
        .await;
    assert!(
        matches!(unreachable, Err(PurgeError::Unreachable(_))),
        "{unreachable:?}"
    );
}

struct Running {
    outbox: Arc<Outbox>,
    confirmed: mpsc::Receiver<Vec<Confirmed>>,
    stop: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

fn run(nodes: Vec<Arc<dyn Purger>>, repeat_after_ms: u64) -> Running {
    let settings = OutboxSettings {
        repeat_after_ms,
        retry_ms: 20,
        retry_ms_max: 200,
        ..OutboxSettings::default()
    };
    let outbox = Arc::new(Outbox::new(settings, nodes, Arc::new(SystemClock::new())));
    let (sender, confirmed) = mpsc::channel(8);
    let stop = CancellationToken::new();
    let (running, stopping) = (outbox.clone(), stop.clone());
    tokio::spawn(async move { running.run(sender, stopping).await });
    Running {
        outbox,
        confirmed,
        stop,
    }
}

#[tokio::test]
async fn t1_c5_the_repeat_drops_what_was_filled_across_the_purge() {
    let origin = Origin::start().await;
    let node = Arc::new(Parts::varnish(&[origin.port], None).await.expect("Varnish"));
    let mut running = run(vec![Arc::new(purger(&node, node.secret))], 4_000);
    // The origin reads version 1, slowly; meanwhile the record changes and is purged.
    let filling = tokio::spawn({
        let node = node.clone();
        async move { get(&node, "/v1/d/c/slow").await }
    });
    while origin.requests.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    running.outbox.order([order("/v1/d/c/slow", 5)]);
    while running.outbox.requests().0 == 0 {
        tokio::task::yield_now().await;
    }
    origin.go.add_permits(10);
    assert_eq!(filling.await.expect("no panic"), 1);
    assert_eq!(
        get(&node, "/v1/d/c/slow").await,
        1,
        "the first purge came too early for it"
    );
    let confirmed = running.confirmed.recv().await.expect("confirmed");
    assert_eq!(confirmed[0].position, Position(5));
    assert_eq!(get(&node, "/v1/d/c/slow").await, 2);
    assert_eq!(running.outbox.pending(), 0);
    let bound = running.outbox.invalidation_ms();
    assert!((4_000..30_000).contains(&bound), "{bound}");
}

#[tokio::test]
async fn c5_a_node_that_was_down_is_purged_when_it_is_back_and_holds_up_no_other() {
    let origin = Origin::start().await;
    let up = Parts::varnish(&[origin.port], None).await.expect("Varnish");
    let down = Parts::varnish(&[origin.port], None).await.expect("Varnish");
    get(&up, "/v1/d/c/1").await;
    down.node.kill().await.expect("killed");
    let nodes: Vec<Arc<dyn Purger>> = vec![
        Arc::new(purger(&up, up.secret)),
        Arc::new(purger(&down, down.secret)),
    ];
    let mut running = run(nodes, 300);
    running.outbox.order([order("/v1/d/c/1", 5)]);
    let mut tries = 0;
    while get(&up, "/v1/d/c/1").await == 1 {
        tries += 1;
        assert!(tries < 1_000, "the healthy node is purged");
    }
    tokio::time::timeout(Duration::from_millis(600), running.confirmed.recv())
        .await
        .expect_err("not confirmed while a node is down");
    down.node.restart().await.expect("restarted");
    let confirmed = tokio::time::timeout(Duration::from_secs(20), running.confirmed.recv()).await;
    assert_eq!(
        confirmed.expect("in time").expect("confirmed")[0].position,
        Position(5)
    );
}
