//! A client of live queries: reads events, and applies them to a list.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::support::{Answer, PATIENCE, Server, read};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) data: Value,
}

/// An open stream.
pub(crate) struct Stream {
    pub(crate) headers: HeaderMap,
    body: Incoming,
    text: String,
}

impl Server {
    /// Follows a query; `last`: the `Last-Event-ID`.
    pub(crate) async fn follow(&self, target: &str, last: Option<u64>) -> Stream {
        match self.try_follow(target, last).await {
            Ok(stream) => stream,
            Err(answer) => panic!("{target}: {} {}", answer.status, answer.text()),
        }
    }

    pub(crate) async fn try_follow(
        &self,
        target: &str,
        last: Option<u64>,
    ) -> Result<Stream, Answer> {
        let socket = TcpStream::connect(self.address).await.expect("it accepts");
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket))
            .await
            .expect("HTTP/1.1");
        tokio::spawn(connection);
        let mut request = Request::get(target).header("host", self.address.to_string());
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        let request = request.body(Empty::<Bytes>::new()).expect("a request");
        let answer = sender.send_request(request).await.expect("an answer");
        if answer.status() != StatusCode::OK {
            return Err(read(answer).await);
        }
        let (parts, body) = answer.into_parts();
        Ok(Stream {
            headers: parts.headers,
            body,
            text: String::new(),
        })
    }
}

impl Stream {
    /// The next event; `None`: the stream ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        let next = async {
            loop {
                if let Some((event, rest)) = self.text.split_once("\n\n") {
                    let (event, rest) = (event.to_owned(), rest.to_owned());
                    self.text = rest;
                    match parse(&event) {
                        Some(event) => return Some(event),
                        None => continue,
                    }
                }
                let frame = self.body.frame().await?;
                let frame = frame.expect("a stream that is not cut");
                let data = frame.into_data().expect("no trailers");
                self.text
                    .push_str(std::str::from_utf8(&data).expect("whole events"));
            }
        };
        tokio::time::timeout(PATIENCE, next)
            .await
            .expect("an event")
    }

    /// The next event within a moment in which one that is wrong would come.
    pub(crate) async fn soon(&mut self) -> Option<Event> {
        let next = tokio::time::timeout(Duration::from_millis(300), self.next());
        next.await.unwrap_or(None)
    }
}

/// `None`: a comment, or a field that is no event.
fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(&format!("{name}: ")))
    };
    Some(Event {
        name: field("event")?.to_owned(),
        id: field("id")
            .expect("every event has one")
            .parse()
            .expect("decimal"),
        data: serde_json::from_str(field("data").expect("every event has some")).expect("JSON"),
    })
}

/// A client's copy of a live answer.
#[derive(Debug, Default)]
pub(crate) struct Copy(pub(crate) Vec<Value>);

impl Copy {
    pub(crate) fn apply(&mut self, event: &Event) {
        let index = || {
            let index = event.data["index"].as_u64().expect("an index");
            usize::try_from(index).expect("small")
        };
        let document = || event.data["document"].clone();
        match event.name.as_str() {
            "result" => self.0 = event.data["items"].as_array().expect("items").clone(),
            "add" => self.0.insert(index(), document()),
            "change" => self.0[index()] = document(),
            "move" => {
                let from = event.data["from"].as_u64().expect("a place");
                self.0.remove(usize::try_from(from).expect("small"));
                self.0.insert(index(), document());
            }
            "remove" => drop(self.0.remove(index())),
            "resync" => {}
            other => panic!("{other}"),
        }
    }
}
