//! One event of a stream, as text (WHATWG HTML, *Server-sent events*).

use bytes::Bytes;
use freshet_core::time::Position;

/// What the stream begins with: how long a browser waits before it connects again, in milliseconds.
pub(super) const HELLO: Bytes = Bytes::from_static(b"retry: 1000\n\n");
/// Says that the stream is alive.
pub(super) const BEAT: Bytes = Bytes::from_static(b":\n\n");

/// An event. `data` holds no line end: JSON escapes those of texts.
#[must_use]
pub(super) fn event(name: &str, position: Position, data: &[u8]) -> Bytes {
    let mut text = format!("event: {name}\nid: {position}\ndata: ").into_bytes();
    text.extend_from_slice(data);
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// What was shown is no longer continued.
#[must_use]
pub(super) fn resync(position: Position, reason: &str) -> Bytes {
    let data = format!("{{\"reason\":\"{reason}\"}}");
    event("resync", position, data.as_bytes())
}
