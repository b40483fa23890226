//! Connections: draining, HTTP/2, limits, slow clients, restarts.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{PATIENCE, Server, read};

#[tokio::test]
async fn http_2_without_tls() {
    let server = Server::start(&[]);
    let stream = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .expect("h2c");
    tokio::spawn(connection);
    let asking = (0..20).map(|_| {
        let request = Request::get(format!("http://{}/v1/db/c", server.address))
            .body(Full::<Bytes>::default());
        sender.send_request(request.expect("a request"))
    });
    for answer in futures_util::future::join_all(asking).await {
        assert_eq!(read(answer.expect("an answer")).await.status, 200);
    }
    let head =
        Request::head(format!("http://{}/healthz", server.address)).body(Full::<Bytes>::default());
    let head = read(
        sender
            .send_request(head.expect("a request"))
            .await
            .expect("an answer"),
    )
    .await;
    assert_eq!((head.header("content-length"), head.body.len()), ("15", 0));
}

#[tokio::test]
async fn sigterm_finishes_what_is_in_flight_and_ends() {
    let mut server = Server::start(&[]);
    let mut slow = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    let head = "PUT /v1/db/c/x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{\"a\"";
    slow.write_all(head.as_bytes()).await.expect("sent");
    // The server has the request's head once it answers others that came later.
    server.get("/healthz").await;
    server.terminate();
    let refused = async {
        while TcpStream::connect(server.address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, refused)
        .await
        .expect("no new connections");
    slow.write_all(b":1}")
        .await
        .expect("the connection is still there");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
    assert!(server.ended().await);
}

#[tokio::test]
async fn an_idle_connection_is_closed_by_sigterm_at_once() {
    let mut server = Server::start(&[]);
    let mut idle = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut buffer = [0; 1024];
    assert!(idle.read(&mut buffer).await.expect("an answer") > 0);
    server.terminate();
    assert!(server.ended().await);
}

#[tokio::test]
async fn a_head_that_does_not_arrive_ends_the_connection() {
    let server = Server::start(&[("server.header_read_timeout", "200ms")]);
    let mut stream = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    stream
        .write_all(b"GET /healthz HTTP/1.1\r\nhost")
        .await
        .expect("sent");
    let mut rest = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
    assert!(read.is_ok(), "closed");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_408() {
    let server = Server::start(&[("server.body_read_timeout", "200ms")]);
    let mut stream = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    let head = "PUT /v1/db/c/x HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 7\r\n\r\n{";
    stream.write_all(head.as_bytes()).await.expect("sent");
    let mut answer = vec![0; 2048];
    let count = tokio::time::timeout(PATIENCE, stream.read(&mut answer))
        .await
        .expect("in time")
        .expect("an answer");
    assert!(String::from_utf8_lossy(&answer[..count]).starts_with("HTTP/1.1 408"));
}

#[tokio::test]
async fn t11_what_the_parser_refuses_is_answered_like_every_error() {
    let server = Server::start(&[("server.header_bytes_max", "16KiB")]);
    let long = format!("/healthz HTTP/1.1\r\nhost: x\r\nx: {}", "y".repeat(20_000));
    for (request, status, kind) in [
        (&*long, "431", "head-too-large"),
        ("/v1/db/c?filter={\"a\":1} HTTP/1.1", "400", "malformed"),
        ("/v1/db/c?filter={} HTTP/1.1\r\nx: \0", "400", "malformed"),
        ("/v1/db/c HTTP/1.1\r\nconnection: close", "400", "malformed"),
        (
            "/v1/db/c HTTP/1.1\r\nhost: a\r\nhost: b\r\nconnection: close",
            "400",
            "malformed",
        ),
    ] {
        let mut stream = TcpStream::connect(server.address)
            .await
            .expect("it accepts");
        let request = format!("GET {request}\r\n\r\n");
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut answer))
            .await
            .expect("in time");
        let answer = String::from_utf8(answer).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
        for field in [
            "cache-control: private, no-store, max-age=0",
            "access-control-allow-origin: *",
            "timing-allow-origin: *",
            "content-type: application/problem+json",
        ] {
            assert!(head.contains(field), "{field} in {head}");
        }
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["type"], format!("urn:freshet:problem:{kind}"));
    }
}

#[tokio::test]
async fn a_connection_that_begins_no_request_is_closed() {
    let server = Server::start(&[
        ("server.header_read_timeout", "200ms"),
        ("server.write_timeout", "200ms"),
    ]);
    // The last takes HTTP/2's preface and answers nothing, not even the PING before a graceful end.
    for begun in ["", "PRI * HT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(server.address)
            .await
            .expect("it accepts");
        stream.write_all(begun.as_bytes()).await.expect("sent");
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(read.is_ok(), "closed after {begun:?}");
    }
}

#[tokio::test]
async fn c5_a_cacheable_answer_that_is_not_taken_is_cut_off() {
    let server = Server::caching(&[
        ("server.fill_timeout", "300ms"),
        ("tier.entry_bytes_max", "64MiB"),
    ])
    .await;
    let filler = "x".repeat(1 << 20);
    for id in 0..12 {
        server
            .put(
                &format!("/v1/db/c/{id}"),
                &format!("{{\"a\":\"{filler}\"}}"),
            )
            .await;
    }
    let mut stream = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    stream
        .write_all(b"GET /v1/db/c HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut head = vec![0; 512];
    stream
        .read_exact(&mut head)
        .await
        .expect("the answer begins");
    let head = String::from_utf8_lossy(&head).to_lowercase();
    assert!(head.contains("cache-control: public"), "{head}");
    // Nothing more is read for longer than the answer may take.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let mut rest = Vec::new();
    let taken = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest))
        .await
        .expect("closed");
    assert!(
        taken.is_err() || rest.len() < 12 << 20,
        "{} bytes came through",
        rest.len()
    );
}

/// Long before the next beat, whichever way it leaves.
#[rstest]
#[case::closed(true)]
#[case::reset(false)]
#[tokio::test]
async fn a_follower_who_leaves_makes_room_at_once(#[case] takes_all: bool) {
    let server = Server::caching(&[("live.followers_max", "1")]).await;
    for _ in 0..3 {
        let mut stream = TcpStream::connect(server.address)
            .await
            .expect("it accepts");
        let request = b"GET /v1/db/c/_live HTTP/1.1\r\nhost: x\r\n\r\n";
        stream.write_all(request).await.expect("sent");
        let mut text = String::new();
        let wanted = if takes_all {
            "\"items\""
        } else {
            "HTTP/1.1 200"
        };
        while !text.contains(wanted) {
            let mut some = vec![0; if takes_all { 4_096 } else { 12 }];
            let count = stream.read(&mut some).await.expect("the stream begins");
            assert!(count > 0, "{text}");
            text += &String::from_utf8_lossy(&some[..count]);
        }
        // With something left unread the kernel resets the connection.
        drop(stream);
        let free = server.until("/metrics", |answer| {
            answer.text().contains("freshet_live_followers 0\n")
        });
        let free = tokio::time::timeout(Duration::from_secs(5), free).await;
        free.expect("noticed before the next beat");
    }
}

#[tokio::test]
async fn who_has_asked_may_close_its_side_and_is_answered() {
    let server = Server::caching(&[]).await;
    let mut stream = TcpStream::connect(server.address)
        .await
        .expect("it accepts");
    let request = b"GET /v1/db/c/_count HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request).await.expect("sent");
    stream.shutdown().await.expect("closed");
    let mut answer = String::new();
    let reading = stream.read_to_string(&mut answer);
    let read = tokio::time::timeout(PATIENCE, reading).await;
    read.expect("in time").expect("an answer");
    assert!(answer.ends_with("{\"count\":0}"), "{answer}");
}
