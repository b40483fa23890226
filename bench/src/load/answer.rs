//! Reads one HTTP/1.1 answer after another from a connection: the status must be 200 and the length stated.

use anyhow::{Context, bail, ensure};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest answer head that is read.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Keeps what was read beyond the last answer.
#[derive(Default)]
pub(crate) struct Reader {
    buffer: Vec<u8>,
}

impl Reader {
    /// Reads one whole answer.
    ///
    /// # Errors
    /// The connection ended, the status is not 200, or the head is longer than it may be.
    pub(crate) async fn next(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> anyhow::Result<()> {
        loop {
            if let Some(length) = answer_length(&self.buffer)?
                && self.buffer.len() >= length
            {
                self.buffer.drain(..length);
                return Ok(());
            }
            ensure!(
                stream.read_buf(&mut self.buffer).await? > 0,
                "the server closed the connection"
            );
        }
    }
}

/// The length of the answer at the start of `bytes`, head and body; `None` while the head is not complete.
fn answer_length(bytes: &[u8]) -> anyhow::Result<Option<usize>> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        ensure!(
            bytes.len() <= HEAD_BYTES_MAX,
            "the head of an answer is too long"
        );
        return Ok(None);
    };
    let head = std::str::from_utf8(&bytes[..end]).context("the head of an answer is not text")?;
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        bail!("an answer was not 200 but: {status}");
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .context("an answer states no length")?
        .1
        .trim()
        .parse::<usize>()?;
    Ok(Some(end + 4 + length))
}

#[cfg(test)]
mod tests {
    use super::answer_length;

    #[test]
    fn the_length_is_head_and_body() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(answer_length(answer).unwrap(), Some(answer.len()));
        assert_eq!(answer_length(&answer[..10]).unwrap(), None);
    }

    #[test]
    fn a_refusal_is_an_error() {
        assert!(answer_length(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").is_err());
        assert!(answer_length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
