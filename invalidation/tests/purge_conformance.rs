//! One suite for every purge adapter (rules C5 and C15, bugs T1, T2, T4, T6, T8, T20): a real Varnish with the shipped
//! policy, and stubs of the APIs that cannot be had here, which refuse what the real ones refuse.

mod conformance;
mod edges;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use conformance::SystemClock;
use edges::{Bench, Real, Running, order, run, signing};
use freshet_core::freshness::{Edge, SurrogateKey};
use freshet_core::time::{Clock, Moment, Position};
use freshet_invalidation::purge::port::PurgeError;
use rstest::rstest;

const PATIENCE: Duration = Duration::from_secs(30);

/// Asks until the condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, asking).await;
    in_time.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn confirmed(running: &mut Running) -> Vec<Position> {
    let confirmed = tokio::time::timeout(PATIENCE, running.confirmed.recv()).await;
    let confirmed = confirmed.expect("in time").expect("confirmed");
    confirmed.iter().map(|one| one.position).collect()
}

#[rstest]
#[case(Edge::Varnish)]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn purges_what_is_tagged_and_nothing_else(#[case] edge: Edge) {
    let bench = Bench::start(edge).await;
    let [a, b] = ["/v1/d/c/1", "/v1/d/c/2"];
    assert_eq!((bench.get(a).await, bench.get(b).await), (1, 2));
    assert_eq!((bench.get(a).await, bench.get(b).await), (1, 2), "kept");
    let purger = &bench.purger;
    purger.purge(&[order(a, 1).surrogate]).await.expect("done");
    assert_eq!((bench.get(a).await, bench.get(b).await), (3, 2));
    purger.purge(&[]).await.expect("T8: nothing to do");
    assert_eq!((bench.get(a).await, bench.get(b).await), (3, 2));
    let fill = |i| order(&format!("/v1/d/c/x{i}"), 1).surrogate;
    let many: Vec<SurrogateKey> = (1..purger.keys_max())
        .map(fill)
        .chain([order(b, 1).surrogate])
        .collect();
    purger.purge(&many).await.expect("T6: as many as it takes");
    assert_eq!((bench.get(a).await, bench.get(b).await), (3, 4));
}

#[rstest]
#[case(Edge::Varnish, PurgeError::Refused(403))]
#[case(Edge::Fastly, PurgeError::Refused(401))]
#[case(Edge::Cloudflare, PurgeError::Refused(403))]
#[case(Edge::Akamai, PurgeError::Refused(401))]
#[case(Edge::Webhook, PurgeError::Refused(401))]
#[tokio::test]
async fn t4_t20_a_purge_that_is_refused_or_gets_nowhere_is_an_error(
    #[case] edge: Edge,
    #[case] refusal: PurgeError,
) {
    let bench = Bench::start(edge).await;
    let key = [order("/v1/d/c/1", 1).surrogate];
    assert_eq!(bench.get("/v1/d/c/1").await, 1);
    assert_eq!(bench.stranger().purge(&key).await, Err(refusal));
    assert_eq!(bench.get("/v1/d/c/1").await, 1, "nothing was purged");
    bench.break_down().await;
    let unreachable = bench.purger.purge(&key).await;
    assert!(
        matches!(unreachable, Err(PurgeError::Unreachable(_))),
        "{unreachable:?}"
    );
}

#[rstest]
#[case(Edge::Varnish)]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn t6_orders_go_together_in_batches_no_larger_than_the_edge_takes(#[case] edge: Edge) {
    let bench = Bench::start(edge).await;
    let keys_max = bench.purger.keys_max();
    assert_eq!(bench.get("/v1/d/c/last").await, 1);
    let mut running = run(vec![bench.purger.clone()], 100);
    let orders = keys_max * 2 + 1;
    let fill = (1..orders).map(|i| order(&format!("/v1/d/c/x{i}"), 1));
    let all: Vec<_> = fill.chain([order("/v1/d/c/last", 1)]).collect();
    running.outbox.order(all);
    let mut done = 0;
    while done < orders {
        done += confirmed(&mut running).await.len();
    }
    assert_eq!((done, running.outbox.pending()), (orders, 0));
    assert_eq!(bench.get("/v1/d/c/last").await, 2);
    // All were ordered at once, so each turn is three calls: the purge and its repeat, or, where the edge takes its
    // time, one that is both.
    let (sent, failed) = running.outbox.requests();
    assert!((3..=6).contains(&sent) && failed == 0, "{sent} {failed}");
    if let Real::Stub(cdn) = &bench.edge {
        let calls = cdn.calls.lock().clone();
        assert!(calls.iter().all(|keys| *keys <= keys_max), "{calls:?}");
    }
}

#[rstest]
#[case(Edge::Varnish)]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn t1_c5_the_repeat_drops_what_was_filled_across_the_purge(#[case] edge: Edge) {
    let bench = Arc::new(Bench::start(edge).await);
    let mut running = run(vec![bench.purger.clone()], 4_000);
    // The origin reads version 1, slowly; meanwhile the record changes and is purged.
    let filling = tokio::spawn({
        let bench = bench.clone();
        async move { bench.get("/v1/d/c/slow").await }
    });
    let requests = &bench.origin.requests;
    until("a read", async || requests.load(Ordering::SeqCst) > 0).await;
    running.outbox.order([order("/v1/d/c/slow", 5)]);
    until("a purge", async || running.outbox.requests().0 > 0).await;
    bench.origin.go.add_permits(10);
    assert_eq!(filling.await.expect("no panic"), 1);
    let kept = bench.get("/v1/d/c/slow").await;
    assert_eq!(kept, 1, "the first purge came too early for it");
    assert_eq!(confirmed(&mut running).await, [Position(5)]);
    assert_eq!(bench.get("/v1/d/c/slow").await, 2);
    assert_eq!(running.outbox.pending(), 0);
    let bound = running.outbox.invalidation_ms();
    assert!((4_000..30_000).contains(&bound), "{bound}");
}

#[rstest]
#[case(Edge::Varnish)]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn t2_c15_what_is_not_shared_is_not_kept(#[case] edge: Edge) {
    let bench = Bench::start(edge).await;
    for path in ["private", "error", "absent", "zero"] {
        let path = format!("/v1/d/c/{path}");
        let first = bench.get(&path).await;
        for more in 1..=2 {
            assert_eq!(bench.get(&path).await, first + more, "{path}");
        }
    }
}

#[rstest]
#[case(Edge::Varnish)]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn c5_an_edge_that_was_down_is_purged_when_it_is_back_and_holds_up_no_other(
    #[case] edge: Edge,
) {
    let up = Bench::start(Edge::Varnish).await;
    let down = Bench::start(edge).await;
    let path = "/v1/d/c/1";
    assert_eq!((up.get(path).await, down.get(path).await), (1, 1));
    down.break_down().await;
    let mut running = run(vec![up.purger.clone(), down.purger.clone()], 300);
    running.outbox.order([order(path, 5)]);
    until("the healthy one is purged", async || up.get(path).await > 1).await;
    let outbox = &running.outbox;
    until("the other failed", async || outbox.edges()[1].failed > 1).await;
    let early = tokio::time::timeout(Duration::from_millis(600), running.confirmed.recv()).await;
    early.expect_err("not confirmed while one is down");
    let [healthy, sick] = &running.outbox.edges()[..] else {
        panic!("two edges");
    };
    let idle = (healthy.pending, healthy.failing_ms, healthy.failed);
    assert_eq!(idle, (0, None, 0));
    assert_eq!((sick.pending, sick.sent), (1, 0));
    assert!(sick.unconfirmed_ms >= Some(600) && sick.failing_ms >= Some(500));
    assert_eq!(sick.name, down.purger.name());
    down.come_back().await;
    assert_eq!(confirmed(&mut running).await, [Position(5)]);
    assert_eq!(down.get(path).await, 2);
    let sick = &running.outbox.edges()[1];
    assert_eq!((sick.pending, sick.failing_ms, sick.down), (0, None, false));
}

#[rstest]
#[case(Edge::Fastly)]
#[case(Edge::Cloudflare)]
#[case(Edge::Akamai)]
#[case(Edge::Webhook)]
#[tokio::test]
async fn an_api_that_asks_to_wait_is_left_alone_for_as_long_as_it_says(#[case] edge: Edge) {
    let bench = Bench::start(edge).await;
    let key = [order("/v1/d/c/1", 1).surrogate];
    bench.stub().set_busy(&[2]);
    let busy = PurgeError::Busy {
        status: 429,
        retry_after_ms: Some(2_000),
    };
    assert_eq!(bench.purger.purge(&key).await, Err(busy));

    bench.stub().set_busy(&[2]);
    let mut running = run(vec![bench.purger.clone()], 100);
    running.outbox.order([order("/v1/d/c/1", 5)]);
    let outbox = running.outbox.clone();
    until("it is refused", async || outbox.requests().1 == 1).await;
    let clock = SystemClock::new();
    running.outbox.order([order("/v1/d/c/2", 6)]);
    let mut done = Vec::new();
    while done.len() < 2 {
        done.extend(confirmed(&mut running).await);
    }
    let waited = clock.now();
    assert!(waited >= Moment(1_900), "{waited:?}");
    assert_eq!(running.outbox.requests().1, 1, "not asked meanwhile");
    // Both went with the first call after it.
    assert_eq!(bench.stub().calls.lock()[0], 2);
}

#[tokio::test]
async fn fastly_refuses_more_than_256_keys_and_purges_none() {
    let bench = Bench::start(Edge::Fastly).await;
    assert_eq!(bench.get("/v1/d/c/0").await, 1);
    let many: Vec<SurrogateKey> = (0..257)
        .map(|i| order(&format!("/v1/d/c/{i}"), 1).surrogate)
        .collect();
    let refused = bench.purger.purge(&many).await;
    assert_eq!(refused, Err(PurgeError::Refused(400)));
    assert_eq!(bench.get("/v1/d/c/0").await, 1);
}

#[tokio::test]
async fn fastly_answers_a_client_that_says_no_cache_from_its_copy() {
    let bench = Bench::start(Edge::Fastly).await;
    assert_eq!(bench.get("/v1/d/c/1").await, 1);
    let asked = reqwest::Client::new()
        .get(bench.url("/v1/d/c/1"))
        .header("cache-control", "no-cache")
        .send()
        .await
        .expect("answered");
    assert_eq!(asked.headers().get("surrogate-control"), None);
    assert_eq!(asked.text().await.expect("a body"), "1");
}

#[tokio::test]
async fn fastly_may_refill_from_a_shield_that_is_purged_later_and_the_repeat_drops_that_too() {
    let bench = Bench::start(Edge::Fastly).await;
    let path = "/v1/d/c/1";
    assert_eq!(bench.get(path).await, 1);
    bench.stub().hold_shield();
    let mut running = run(vec![bench.purger.clone()], 4_000);
    running.outbox.order([order(path, 5)]);
    until("a purge", async || running.outbox.requests().0 > 0).await;
    assert_eq!(bench.get(path).await, 1, "from the shield");
    bench.stub().release_shield();
    assert_eq!(bench.get(path).await, 1, "and it stays");
    assert_eq!(confirmed(&mut running).await, [Position(5)]);
    assert_eq!(bench.get(path).await, 2);
}

#[tokio::test]
async fn akamai_has_done_it_only_when_the_time_it_estimates_has_passed() {
    let bench = Bench::start(Edge::Akamai).await;
    assert_eq!(bench.get("/v1/d/c/1").await, 1);
    *bench.stub().spread.lock() = Duration::from_millis(700);
    let key = [order("/v1/d/c/1", 1).surrogate];
    bench.purger.purge(&key).await.expect("done");
    assert_eq!(bench.get("/v1/d/c/1").await, 2);
}

#[tokio::test]
async fn akamai_takes_as_many_tags_as_fit_into_its_body_and_no_nonce_twice() {
    let bench = Bench::start(Edge::Akamai).await;
    let many: Vec<SurrogateKey> = (0..1_400)
        .map(|i| order(&format!("/v1/d/c/{i}"), 1).surrogate)
        .collect();
    let refused = bench.purger.purge(&many).await;
    assert_eq!(refused, Err(PurgeError::Refused(413)));
    for _ in 0..3 {
        bench.purger.purge(&many[..1_000]).await.expect("done");
    }
    assert_eq!(bench.stub().nonces.lock().len(), 3);
}

#[tokio::test]
async fn the_webhook_can_be_signed_instead() {
    let bench = Bench::start(Edge::Webhook).await;
    assert_eq!(bench.get("/v1/d/c/1").await, 1);
    let key = [order("/v1/d/c/1", 1).surrogate];
    let refused = signing(&bench, false).purge(&key).await;
    assert_eq!(refused, Err(PurgeError::Refused(401)));
    signing(&bench, true).purge(&key).await.expect("done");
    assert_eq!(bench.get("/v1/d/c/1").await, 2);
}
