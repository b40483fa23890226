//! Just enough of HTTP/1.1 for an origin and for stubs of CDNs: whole requests in, whole replies out, on kept
//! connections.

use std::future::Future;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

pub struct Request {
    pub method: String,
    pub target: String,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Request {
    /// The first field of that name, in lower case; empty: there is none.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

#[derive(Clone, Default)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn new(status: u16, body: impl Into<String>) -> Reply {
        Reply {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    pub fn with(mut self, name: &str, value: impl ToString) -> Reply {
        self.headers.push((name.to_owned(), value.to_string()));
        self
    }

    pub fn without(mut self, names: &[&str]) -> Reply {
        self.headers
            .retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Answers on a free port until the test ends; no reply: the connection is closed without one.
pub async fn serve<F, A>(answer: F) -> u16
where
    F: Fn(Request) -> A + Send + Sync + 'static,
    A: Future<Output = Option<Reply>> + Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let answer = Arc::new(answer);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let mut stream = BufReader::new(stream);
                while let Some(request) = read(&mut stream).await {
                    let Some(reply) = answer(request).await else {
                        return;
                    };
                    if write(&mut stream, &reply).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).expect("text");
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ').map(str::to_owned);
    let (method, target) = (first.next()?, first.next()?);
    let headers = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let mut request = Request {
        method,
        target,
        headers,
        body: Vec::new(),
    };
    let length = request.header("content-length").parse().unwrap_or(0);
    request.body = vec![0; length];
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}

async fn write(stream: &mut BufReader<TcpStream>, reply: &Reply) -> std::io::Result<()> {
    let mut text = format!(
        "HTTP/1.1 {} Status\r\ncontent-length: {}\r\n",
        reply.status,
        reply.body.len()
    );
    for (name, value) in &reply.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str(&format!("\r\n{}", reply.body));
    stream.write_all(text.as_bytes()).await
}
