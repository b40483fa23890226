//! From what changes touched to what has to be done, as a value: keys for the sketch, the tier and the
//! purges, each once per batch, with the latest position. Carrying it out is the pipeline's.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Position;

use crate::matcher::{Affected, Notification};

/// What has to be done, by collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan(pub BTreeMap<Namespace, Effects>);

/// What has to be done in one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// The whole collection changed, last at this position.
    pub whole: Option<Position>,
    /// These resources changed, last at these positions.
    pub keys: BTreeMap<Key, (ResourceKind, Position)>,
}

/// The plan of a batch.
#[must_use]
pub fn plan(affected: impl IntoIterator<Item = Affected>) -> Plan {
    let mut plan = Plan::default();
    for one in affected {
        match one {
            Affected::Collection(namespace, position) => {
                let effects = plan.0.entry(namespace).or_default();
                effects.whole = effects.whole.max(Some(position));
            }
            Affected::Resources(touched) => touched.into_iter().for_each(|one| plan.touch(one)),
        }
    }
    plan
}

impl Plan {
    fn touch(&mut self, touched: Notification) {
        let effects = self.0.entry(touched.namespace).or_default();
        match effects.keys.entry(touched.key) {
            Entry::Vacant(place) => {
                place.insert((touched.kind, touched.position));
            }
            Entry::Occupied(mut place) => {
                let (_, position) = place.get_mut();
                *position = (*position).max(touched.position);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use freshet_core::notification::Effect;

    #[test]
    fn a_key_stands_in_a_plan_once_with_its_latest_position() {
        let namespace = Namespace::new("d", "c").expect("valid");
        let touched = |key: &str, position| Notification {
            namespace: namespace.clone(),
            key: Key::from(key),
            kind: ResourceKind::Query,
            effect: Effect::Add,
            position: Position(position),
        };
        let plan = plan([
            Affected::Resources(vec![touched("a", 3), touched("b", 3)]),
            Affected::Collection(namespace.clone(), Position(4)),
            Affected::Resources(vec![touched("a", 7), touched("a", 5)]),
        ]);
        let effects = &plan.0[&namespace];
        assert_eq!(effects.whole, Some(Position(4)));
        assert_eq!(effects.keys.len(), 2);
        assert_eq!(effects.keys[&Key::from("a")].1, Position(7));
    }
}
