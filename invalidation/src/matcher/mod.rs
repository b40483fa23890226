//! What a change touches: given one write, every active query whose answer it changes, exactly as the database would
//! see it (`docs/matching.md`). Where it cannot tell it says so ([`Effect::Maybe`]): a needless invalidation is a
//! cost, a missed one is a lie.
//!
//! `engine` matches; `paths`, `atoms`, `shapes` are what its queries have in common; `index` and `access` find
//! candidates; `window` and `relation` judge them.

mod access;
mod atoms;
mod engine;
mod entry;
mod explain;
mod facts;
mod flat;
mod index;
mod interned;
pub mod live;
mod matching;
mod outstanding;
mod paths;
mod places;
mod relation;
mod selectivity;
mod shapes;
mod watch;
mod window;

use freshet_core::change::{Change, ChangeEvent, Image};
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Effect;
use freshet_core::time::{Moment, Position};
use freshet_core::value::id::RecordId;

use crate::registry::{Collection, Touched};

pub use engine::{Coverage, Happened, Matcher, QueryId, Work};
pub(crate) use entry::Entry;
pub use entry::{Home, Shown};
pub use explain::{Access, Explanation, NotIndexed};
pub use watch::{Shape, View, Watch};
pub use window::{End, LOOK_AHEAD, Window};

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

/// What `event` touches. `collection`: what is active there.
pub fn affected(collection: Option<&mut Collection>, event: &ChangeEvent, now: Moment) -> Affected {
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
    let mut all = Vec::new();
    all.extend(
        record
            .as_ref()
            .map(|key| notify(key, ResourceKind::Record, effect)),
    );
    let Some(collection) = collection else {
        return Affected::Resources(all);
    };
    if let Some(record) = &record {
        let forms = collection.forms(record);
        all.extend(forms.map(|form| notify(form, ResourceKind::Record, effect)));
    }
    let touched = collection.touched(before, after, record.as_ref(), event.position, now);
    all.extend(
        touched
            .into_iter()
            .map(|Touched { key, home, effect }| Notification {
                namespace: home.unwrap_or_else(|| event.namespace.clone()),
                key,
                kind: ResourceKind::Query,
                effect,
                position: event.position,
            }),
    );
    Affected::Resources(all)
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

#[cfg(test)]
mod tests;
