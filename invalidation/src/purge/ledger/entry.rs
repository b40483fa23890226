//! An order as text: `{"kind":"q","in":"db.collection","key":"/v1/…","at":7}`.

use freshet_core::freshness::{
    ResourceKind, SurrogateKey, collection_surrogate, database_surrogate,
};
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Position;
use serde::{Deserialize, Serialize};

use crate::purge::queue::{Order, Target};

/// The text's parts.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The surrogate's letter.
    kind: char,
    /// `db.collection`, or the database.
    #[serde(rename = "in")]
    within: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The epoch that a database is purged for.
    #[serde(default, skip_serializing_if = "is_zero")]
    epoch: u64,
    at: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An order as one line.
pub(super) fn text(order: &Order) -> String {
    let (within, key, epoch) = match &order.target {
        Target::Resource(namespace, key) => {
            (namespace.to_string(), Some(key.as_str().to_owned()), 0)
        }
        Target::Collection(namespace) => (namespace.to_string(), None, 0),
        Target::Database(db, epoch) => (db.clone(), None, *epoch),
    };
    let entry = Entry {
        kind: order.surrogate.to_string().chars().next().unwrap_or('?'),
        within,
        key,
        epoch,
        at: order.position.0,
    };
    serde_json::to_string(&entry).unwrap_or_default()
}

/// The order that a line is; `None`: it is none.
pub(super) fn parse(text: &str) -> Option<Order> {
    let entry: Entry = serde_json::from_str(text).ok()?;
    let namespace = || {
        let (db, collection) = entry.within.split_once('.')?;
        Namespace::new(db, collection).ok()
    };
    let resource = |kind| {
        let key = Key::from(entry.key.clone()?);
        let surrogate = SurrogateKey::resource(kind, &key);
        Some((surrogate, Target::Resource(namespace()?, key)))
    };
    let (surrogate, target) = match entry.kind {
        'r' => resource(ResourceKind::Record)?,
        'q' => resource(ResourceKind::Query)?,
        'c' => {
            let namespace = namespace()?;
            (
                collection_surrogate(&namespace),
                Target::Collection(namespace),
            )
        }
        'a' => {
            let surrogate = database_surrogate(&entry.within);
            (surrogate, Target::Database(entry.within, entry.epoch))
        }
        _ => return None,
    };
    Some(Order {
        surrogate,
        target,
        position: Position(entry.at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_the_same_after_it_was_written() {
        let namespace = Namespace::new("shop", "a.b").expect("valid");
        let key = namespace.record_key("ü \"x\"");
        let orders = [
            (
                SurrogateKey::resource(ResourceKind::Record, &key),
                Target::Resource(namespace.clone(), key.clone()),
            ),
            (
                SurrogateKey::resource(ResourceKind::Query, &key),
                Target::Resource(namespace.clone(), key),
            ),
            (
                collection_surrogate(&namespace),
                Target::Collection(namespace),
            ),
            (
                database_surrogate("shop"),
                Target::Database("shop".to_owned(), 7),
            ),
        ];
        for (surrogate, target) in orders {
            let order = Order {
                surrogate,
                target,
                position: Position(u64::MAX),
            };
            assert_eq!(parse(&text(&order)), Some(order));
        }
        for wrong in [
            "",
            "{}",
            "null",
            r#"{"kind":"x","in":"a.b","at":1}"#,
            r#"{"kind":"q","in":"a","at":1}"#,
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
