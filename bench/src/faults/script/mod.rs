//! The faults. Each breaks something under load, holds it, and mends it; when it returns, everything that it broke runs
//! again. A new kind of part brings a file here with its own list, a place in [`acts`], and its node in the [`World`].

mod database;
mod gateways;
mod history;
mod redis;
mod varnish;
mod workers;

use std::time::Duration;

use freshet_invalidation::partition::Shape;
use futures_util::future::LocalBoxFuture;

use super::world::World;

/// A fault.
pub(super) struct Fault {
    pub(super) name: &'static str,
    /// What happens, in a line.
    pub(super) what: &'static str,
    pub(super) run: for<'w> fn(&'w World) -> LocalBoxFuture<'w, anyhow::Result<()>>,
}

/// A fault from its name, what happens, and an async function over the world.
macro_rules! fault {
    ($name:literal, $what:literal, $run:expr) => {
        $crate::faults::script::Fault {
            name: $name,
            what: $what,
            run: |world| Box::pin($run(world)),
        }
    };
}
use fault;

/// What is played in one world.
pub(super) struct Act {
    /// What the gateways run over; `None`: they match for themselves.
    pub(super) grid: Option<Shape>,
    /// In the order in which they are played.
    pub(super) faults: Vec<Fault>,
}

/// All faults.
pub(super) fn acts() -> [Act; 2] {
    let without = [
        redis::faults(),
        history::faults(),
        database::faults(),
        gateways::faults(),
        // Last: a purge that took long counts in Δ_inv for another minute.
        varnish::faults(),
    ];
    [
        Act {
            grid: None,
            faults: without.into_iter().flatten().collect(),
        },
        Act {
            grid: Some(workers::SHAPE),
            faults: workers::faults(),
        },
    ]
}

async fn hold(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
