//! A response body, mostly one that is already in memory, and the moment after which it is no longer handed over.
//!
//! A cacheable answer that is not taken within F of its read could be stored by a cache after the purge that
//! should have removed it, and after that purge's repeat (C5): past its deadline the body fails, and the
//! connection or stream is cut.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use freshet_core::time::{Clock, Moment};
use futures_util::Stream;
use http_body::{Frame, SizeHint};

/// Handed over in pieces of this size, so that the deadline is looked at between them.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// A body, in memory or a stream of pieces that come up.
pub struct Body {
    rest: Bytes,
    deadline: Option<(Moment, Arc<dyn Clock>)>,
    pieces: Option<Pieces>,
}

type Pieces = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// The client took too long to take a cacheable answer.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the answer was not taken in time")]
pub struct NotTakenInTime;

impl Body {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Body {
        Body::of(Bytes::new())
    }

    /// These bytes.
    #[must_use]
    pub fn of(bytes: Bytes) -> Body {
        Body {
            rest: bytes,
            deadline: None,
            pieces: None,
        }
    }

    /// Pieces as they come.
    #[must_use]
    pub fn stream(pieces: impl Stream<Item = Bytes> + Send + 'static) -> Body {
        Body {
            pieces: Some(Box::pin(pieces)),
            ..Body::empty()
        }
    }

    /// The same, failing after `deadline`. A body of one piece needs it too: over HTTP/2 it waits for the window that
    /// the client opens, long after the head has gone out.
    #[must_use]
    pub fn until(mut self, deadline: Moment, clock: &Arc<dyn Clock>) -> Body {
        self.deadline = Some((deadline, Arc::clone(clock)));
        self
    }

    /// Bytes that are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest.len()
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = NotTakenInTime;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, NotTakenInTime>>> {
        if let Some(pieces) = &mut self.pieces {
            let piece = pieces.as_mut().poll_next(cx);
            return piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))));
        }
        if self.rest.is_empty() {
            return Poll::Ready(None);
        }
        if let Some((deadline, clock)) = &self.deadline
            && clock.now() > *deadline
        {
            self.rest = Bytes::new();
            return Poll::Ready(Some(Err(NotTakenInTime)));
        }
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.pieces.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.pieces.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_core::time::ManualClock;
    use http_body::Body as _;

    #[test]
    fn c5_a_body_of_one_piece_fails_too_when_the_window_for_it_opens_late() {
        let manual = Arc::new(ManualClock::at(0));
        let clock: Arc<dyn Clock> = manual.clone();
        let mut body = Body::of(Bytes::from_static(b"{}")).until(Moment(2000), &clock);
        manual.advance_ms(2001);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let poll = Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(poll, Poll::Ready(Some(Err(NotTakenInTime)))));
    }

    #[test]
    fn c5_a_body_fails_after_its_deadline() {
        let manual = Arc::new(ManualClock::at(0));
        let clock: Arc<dyn Clock> = manual.clone();
        let bytes = Bytes::from(vec![b'x'; 3 * PIECE_BYTES_MAX]);
        let mut body = Body::of(bytes).until(Moment(2000), &clock);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut poll = || Pin::new(&mut body).poll_frame(&mut context);
        assert!(matches!(poll(), Poll::Ready(Some(Ok(_)))));
        manual.advance_ms(2001);
        assert!(matches!(poll(), Poll::Ready(Some(Err(NotTakenInTime)))));
        assert!(matches!(poll(), Poll::Ready(None)));
    }
}
