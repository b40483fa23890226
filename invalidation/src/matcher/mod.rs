//! What a change touches. A plain loop over the collection's active resources, behind the interface that an
//! index will keep: a change in, the touched resources out. Where it cannot tell it says so
//! ([`Effect::Maybe`]): a needless invalidation is a cost, a missed one is a lie.

mod relation;

use std::panic::{AssertUnwindSafe, catch_unwind};

use bson::RawDocument;
use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::{Effect, Representation};
use freshet_core::time::{Moment, Position};
use freshet_core::value::id::RecordId;

use crate::registry::{Active, Collection, Matches, Watched};

/// A resource that a change touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// Where it lives.
    pub namespace: Namespace,
    /// Which.
    pub key: Key,
    /// Record or query.
    pub kind: ResourceKind,
    /// How.
    pub effect: Effect,
    /// By the write at this position.
    pub position: Position,
}

/// Everything a change touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affected {
    /// These resources. The first is the record that was written, when it can be named.
    Resources(Vec<Notification>),
    /// The whole collection.
    Collection(Namespace, Position),
}

/// Filters that failed, and were taken for touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub u64);

/// What `event` touches. `collection`: what is active there.
pub fn affected(
    collection: Option<&mut Collection>,
    event: &ChangeEvent,
    now: Moment,
    faults: &mut Faults,
) -> Affected {
    let Change::Record { id, before, after } = &event.change else {
        return Affected::Collection(event.namespace.clone(), event.position);
    };
    let record = RecordId::of(id.as_raw_bson_ref())
        .ok()
        .map(|id| event.namespace.record_key(id.segment()));
    let notify = |key: &Key, kind, effect| Notification {
        namespace: event.namespace.clone(),
        key: key.clone(),
        kind,
        effect,
        position: event.position,
    };
    let effect = record_effect(before, after);
    let mut touched = Vec::new();
    let Some(collection) = collection else {
        touched.extend(record.map(|key| notify(&key, ResourceKind::Record, effect)));
        return Affected::Resources(touched);
    };
    if let Some(record) = &record {
        touched.push(notify(record, ResourceKind::Record, effect));
        for form in collection.forms(record) {
            touched.push(notify(form, ResourceKind::Record, effect));
        }
    }
    for (key, active) in collection.queries() {
        let held = || record.as_ref().is_none_or(|r| active.may_hold(r, now));
        if let Some(effect) = query_effect(active, before, after, held, faults) {
            active.invalidated(event.position);
            touched.push(notify(key, ResourceKind::Query, effect));
        }
    }
    Affected::Resources(touched)
}

/// A record's own resource is touched by whatever happens to it.
fn record_effect(before: &Image, after: &Image) -> Effect {
    match (before, after) {
        (Image::Absent, Image::Known(_)) => Effect::Add,
        (Image::Known(_), Image::Known(_)) => Effect::Change,
        (_, Image::Absent) => Effect::Remove,
        _ => Effect::Maybe,
    }
}

/// How an active query is touched; `None`: not at all, or not in what its answers show.
fn query_effect(
    active: &Active,
    before: &Image,
    after: &Image,
    held: impl FnOnce() -> bool,
    faults: &mut Faults,
) -> Option<Effect> {
    let (filter, representation, order) = match active.watched() {
        Watched::Query {
            filter,
            representation,
            order,
            ..
        } => (filter, *representation, order.as_deref()),
        Watched::Count(filter) => (filter, Representation::Count, None),
        Watched::Record => return None,
    };
    let mut matches = |document: &RawDocument| guarded(filter.as_ref(), document, faults);
    let effect = relation::effect(before, after, order, held, &mut matches)?;
    effect.invalidates(representation).then_some(effect)
}

/// One filter's failure must not harm the others: `None`, and counted.
fn guarded(filter: &dyn Matches, document: &RawDocument, faults: &mut Faults) -> Option<bool> {
    let matched = catch_unwind(AssertUnwindSafe(|| filter.matches(document)));
    if matched.is_err() {
        faults.0 += 1;
    }
    matched.ok()
}

#[cfg(test)]
mod tests;
