//! A wire that can be cut: a TCP proxy between two parts, for faults of the way and not of the part at its end.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How the wire is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Whole,
    /// Connections are closed: those that are open now, and new ones at once.
    Refusing,
    /// Nothing passes, and nobody is told: connections open now stand still, new ones are accepted.
    Silent,
}

/// The wire. Ends with the process.
pub(super) struct Wire {
    /// Where its near end listens.
    pub(super) address: SocketAddr,
    target: watch::Sender<Option<SocketAddr>>,
    state: watch::Sender<State>,
}

impl Wire {
    /// A wire whose far end is not connected yet.
    pub(super) async fn new() -> Result<Wire> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let (target, far) = watch::channel(None);
        let (state, states) = watch::channel(State::Whole);
        tokio::spawn(async move {
            loop {
                // What cannot be accepted now is in a moment.
                match listener.accept().await {
                    Ok((near, _)) => drop(tokio::spawn(carry(near, far.clone(), states.clone()))),
                    Err(_) => tokio::task::yield_now().await,
                }
            }
        });
        Ok(Wire {
            address,
            target,
            state,
        })
    }

    /// Connects the far end.
    pub(super) fn connect(&self, port: u16) {
        let target = SocketAddr::from(([127, 0, 0, 1], port));
        self.target.send_replace(Some(target));
    }

    /// From now on the wire is so.
    pub(super) fn set(&self, state: State) {
        self.state.send_replace(state);
    }
}

/// Carries one connection until an end closes it, or the wire does.
async fn carry(
    mut near: TcpStream,
    far: watch::Receiver<Option<SocketAddr>>,
    mut states: watch::Receiver<State>,
) {
    if !passes(&mut states).await {
        return;
    }
    let Some(target) = *far.borrow() else { return };
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    let mut carrying = Box::pin(copy_bidirectional(&mut near, &mut far));
    while passes(&mut states).await {
        tokio::select! {
            _ = &mut carrying => return,
            changed = states.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits while the wire is silent. Whether something passes then.
async fn passes(states: &mut watch::Receiver<State>) -> bool {
    let state = states.wait_for(|state| *state != State::Silent).await;
    state.is_ok_and(|state| *state == State::Whole)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Answers with what it is told.
    async fn echo() -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (mut from, mut to) = stream.into_split();
                tokio::spawn(async move { tokio::io::copy(&mut from, &mut to).await });
            }
        });
        port
    }

    async fn says(stream: &mut TcpStream) -> std::io::Result<u8> {
        stream.write_all(b"x").await?;
        stream.read_u8().await
    }

    #[tokio::test]
    async fn a_wire_carries_stands_still_and_is_cut() {
        let wire = Wire::new().await.expect("a wire");
        wire.connect(echo().await);
        let mut stream = TcpStream::connect(wire.address).await.expect("connects");
        assert_eq!(says(&mut stream).await.expect("carried"), b'x');
        wire.set(State::Silent);
        let short = Duration::from_millis(200);
        assert!(
            tokio::time::timeout(short, says(&mut stream))
                .await
                .is_err()
        );
        wire.set(State::Whole);
        assert_eq!(stream.read_u8().await.expect("carried after all"), b'x');
        wire.set(State::Refusing);
        assert!(says(&mut stream).await.is_err());
        let mut other = TcpStream::connect(wire.address).await.expect("connects");
        assert!(says(&mut other).await.is_err());
    }
}
