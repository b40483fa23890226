//! The open orders, each with where it is written.

use std::collections::HashMap;

use freshet_core::freshness::SurrogateKey;
use freshet_core::time::Position;

use crate::purge::outbox::Confirmed;
use crate::purge::queue::{Order, Target};

/// The orders. `W`: where one is written.
#[derive(Debug)]
pub(super) struct Open<W>(HashMap<SurrogateKey, (Order, W)>);

impl<W> Default for Open<W> {
    fn default() -> Open<W> {
        Open(HashMap::new())
    }
}

impl<W> Open<W> {
    /// An order is written. What it takes the place of.
    pub(super) fn note(&mut self, order: &Order, place: W) -> Vec<W> {
        let mut replaced = match &order.target {
            Target::Resource(..) => Vec::new(),
            wider => self.take(|one| lies_within(&one.target, wider)),
        };
        let before = self.0.insert(order.surrogate, (order.clone(), place));
        replaced.extend(before.map(|(_, place)| place));
        replaced
    }

    /// A purge is confirmed. What is settled by it.
    pub(super) fn confirm(&mut self, confirmed: &Confirmed) -> Vec<W> {
        let Confirmed { target, position } = confirmed;
        self.take(|one| {
            let same = one.target == *target;
            (same || lies_within(&one.target, target)) && is_answered(one.position, *position)
        })
    }

    fn take(&mut self, which: impl Fn(&Order) -> bool) -> Vec<W> {
        let taken = self.0.extract_if(|_, (order, _)| which(order));
        taken.map(|(_, (_, place))| place).collect()
    }

    /// The orders.
    pub(super) fn orders(&self) -> impl Iterator<Item = &Order> {
        self.0.values().map(|(order, _)| order)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

fn is_answered(ordered: Position, confirmed: Position) -> bool {
    ordered <= confirmed
}

fn lies_within(one: &Target, wider: &Target) -> bool {
    match (one, wider) {
        (Target::Resource(namespace, _), Target::Collection(of)) => namespace == of,
        (
            Target::Resource(namespace, _) | Target::Collection(namespace),
            Target::Database(db, _),
        ) => namespace.db() == db,
        (Target::Database(one, _), Target::Database(db, _)) => one == db,
        _ => false,
    }
}
