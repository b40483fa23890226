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
    if states
        .wait_for(|state| *state != State::Silent)
        .await
        .is_err()
    {
        return;
    }
    let Some(target) = *far.borrow() else { return };
    if *states.borrow() == State::Refusing {
        return;
    }
    let Ok(mut far) = TcpStream::connect(target).await else {
        return;
    };
    let _ = near.set_nodelay(true);
    let _ = far.set_nodelay(true);
    let mut carrying = Box::pin(copy_bidirectional(&mut near, &mut far));
    loop {
        tokio::select! {
            _ = &mut carrying => return,
            changed = states.changed() => {
                if changed.is_err() || *states.borrow_and_update() == State::Refusing {
                    return;
                }
                // Standing still: nothing is carried until the wire is another.
                if *states.borrow() == State::Silent
                    && states.wait_for(|state| *state != State::Silent).await.is_err()
                {
                    return;
                }
                if *states.borrow() == State::Refusing {
                    return;
                }
            }
        }
    }
}
