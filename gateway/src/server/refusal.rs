//! What the HTTP/1.1 parser refuses never reaches a handler: it answers with a bare status line. Here that answer
//! gets what every error has: the header set that no cache keeps, CORS, and a problem document.
//!
//! A bare refusal is recognised by its bytes. Nothing else that is written can look like it: every answer of a
//! handler has CORS headers, and no body holds a CR LF (JSON escapes both, the texts have LF alone).

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};

use crate::error::{Kind, Problem};
use crate::respond;

/// A bare head has a status line and three short fields.
const BARE_BYTES_MAX: usize = 256;

/// The answer to send in place of `written`, if that is a bare refusal.
pub(super) fn dressed(written: &[u8]) -> Option<Bytes> {
    if written.len() > BARE_BYTES_MAX || !written.starts_with(b"HTTP/1.1 4") {
        return None;
    }
    let head = std::str::from_utf8(written).ok()?;
    let head = head.strip_suffix("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status_line = lines.next()?;
    let kept: Vec<&str> = lines.filter(|line| *line != "content-length: 0").collect();
    let bare = kept
        .iter()
        .all(|line| line.starts_with("connection: ") || line.starts_with("date: "));
    if !bare || head.split("\r\n").count() == kept.len() + 1 {
        return None;
    }
    let problem = problem(status_line.get(9..12)?)?;
    let body = problem.body();
    let mut answer = status_line.to_owned();
    for line in kept {
        answer.push_str("\r\n");
        answer.push_str(line);
    }
    let (mut parts, _) = respond::problem(&problem).into_parts();
    parts.headers.insert(CONTENT_LENGTH, body.len().into());
    debug_assert!(parts.headers.contains_key(CONTENT_TYPE));
    for (name, value) in &parts.headers {
        answer.push_str("\r\n");
        answer.push_str(name.as_str());
        answer.push_str(": ");
        answer.push_str(value.to_str().ok()?);
    }
    answer.push_str("\r\n\r\n");
    let mut answer = answer.into_bytes();
    answer.extend_from_slice(&body);
    Some(answer.into())
}

fn problem(status: &str) -> Option<Problem> {
    Some(match status {
        "400" => Problem::malformed(
            "not an HTTP/1.1 request: in a target, everything beyond letters, digits and RFC 3986's marks is percent-encoded",
        ),
        "414" => Problem::new(Kind::UriTooLong, "QUERY takes the same query in a body"),
        "431" => Problem::new(
            Kind::HeadTooLarge,
            "the request's head has too many bytes or too many fields",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARE: &str = "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: Mon, 30 Nov 2026 15:12:21 GMT\r\n\r\n";

    #[test]
    fn t11_a_bare_refusal_gets_what_every_error_has() {
        let answer = dressed(BARE.as_bytes()).expect("bare");
        let answer = String::from_utf8(answer.to_vec()).expect("UTF-8");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let body_length = format!("\r\ncontent-length: {}", body.len());
        for part in [
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n",
            "\r\ncache-control: private, no-store, max-age=0",
            "\r\naccess-control-allow-origin: *",
            "\r\ncontent-type: application/problem+json",
            &body_length,
        ] {
            assert!(head.contains(part), "{part} in {head}");
        }
        assert_eq!(head.matches("content-length").count(), 1);
        assert!(body.contains("head-too-large"), "{body}");
    }

    #[test]
    fn whatever_else_is_written_stays_as_it_is() {
        for other in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\naccess-control-allow-origin: *\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nHTTP/1.1 400",
            "HTTP/1.1 4",
            "",
            "{\"a\":\"HTTP/1.1 400\"}",
        ] {
            assert!(dressed(other.as_bytes()).is_none(), "{other}");
        }
        let long = format!("HTTP/1.1 400 Bad{}", "x".repeat(BARE_BYTES_MAX));
        assert!(dressed(long.as_bytes()).is_none());
    }
}
