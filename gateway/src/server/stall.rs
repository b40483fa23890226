//! A stream that gives up when what was written is not taken in time: the socket's share of C5, and the limit
//! on clients that read slowly or not at all.
//!
//! The time starts when a write has to wait and ends when everything buffered above has been written (hyper then
//! flushes); progress in between does not restart it.
//!
//! Also a stream that notices when a client leaves that follows something. HTTP/1.1 clients may close their side once they
//! have asked and still get their answer, so hyper does not read while it answers; an answer without end would be written
//! for nobody until a write fails.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use super::{Connection, refusal};

/// A TCP stream with a time limit on being written to.
pub(super) struct Stalling {
    stream: TcpStream,
    connection: Arc<Connection>,
    waiting: Option<Pin<Box<Sleep>>>,
    /// What is written in place of a bare refusal, and the bytes of that.
    instead: Option<(Bytes, usize)>,
}

impl Stalling {
    pub(super) fn new(stream: TcpStream, connection: Arc<Connection>) -> Stalling {
        Stalling {
            stream,
            connection,
            waiting: None,
            instead: None,
        }
    }

    /// Whether something else is to be written than `buf`, which is all that there is to write.
    fn replaces(&mut self, buf: &[u8]) -> bool {
        if self.instead.is_none() {
            self.instead = refusal::dressed(buf).map(|answer| (answer, buf.len()));
        }
        self.instead.is_some()
    }

    /// Writes what replaces the buffer, and then says that the buffer was written.
    fn poll_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        while let Some((rest, replaced)) = &mut self.instead {
            if rest.is_empty() {
                let replaced = *replaced;
                self.instead = None;
                return Poll::Ready(Ok(replaced));
            }
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Pending => return self.on_pending(cx),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(length)) => {
                    let _ = rest.split_to(length);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(0))
    }

    /// Whether the peer has closed its side or reset the connection. If not, `cx` is woken when it does. What it may have
    /// sent is left to be read.
    fn is_left(&self, cx: &mut Context<'_>) -> bool {
        let mut byte = [0];
        let peeked = self.stream.poll_peek(cx, &mut ReadBuf::new(&mut byte));
        matches!(peeked, Poll::Ready(Ok(0) | Err(_)))
    }

    fn on_pending<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        let limit = self.connection.write_limit();
        let waiting = self
            .waiting
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(waiting.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the answer was not taken in time",
        )))
    }
}

impl AsyncRead for Stalling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Stalling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.replaces(buf) {
            return self.poll_instead(cx);
        }
        match Pin::new(&mut self.stream).poll_write(cx, buf) {
            Poll::Pending => self.on_pending(cx),
            done => done,
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let [buf] = bufs
            && self.replaces(buf)
        {
            return self.poll_instead(cx);
        }
        match Pin::new(&mut self.stream).poll_write_vectored(cx, bufs) {
            Poll::Pending => self.on_pending(cx),
            done => done,
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Pending => self.on_pending(cx),
            done => {
                self.waiting = None;
                // hyper flushes whenever it is woken.
                if self.connection.is_streaming() && self.is_left(cx) {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                done
            }
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
