//! A cacheable resource as the matcher sees it.

use std::fmt;
use std::sync::Arc;

use bson::RawDocument;
use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;

/// An exactly decidable filter (rule C14).
pub trait Matches: Send + Sync {
    /// Whether the record's state satisfies it.
    fn matches(&self, document: &RawDocument) -> bool;
}

/// The order of a sorted result.
pub trait Order: Send + Sync {
    /// Whether both states of a record stand at the same place: their sort keys are equal.
    fn same_place(&self, before: &RawDocument, after: &RawDocument) -> bool;
}

/// How a resource is matched.
#[derive(Clone)]
pub enum Watched {
    /// By its key's path: every change of the record, whatever form of it the key asks for.
    Record,
    /// By its filter.
    Query {
        /// The filter.
        filter: Arc<dyn Matches>,
        /// The order, when one was asked for.
        order: Option<Arc<dyn Order>>,
        /// Objects or ids.
        representation: Representation,
        /// Records before the window count too (`skip` > 0): the members do not tell what left.
        skips: bool,
    },
    /// By its filter; members are not known.
    Count(Arc<dyn Matches>),
}

/// A resource that can be cached.
#[derive(Clone, Debug)]
pub struct Resource {
    /// Where it lives.
    pub namespace: Namespace,
    /// Its name.
    pub key: Key,
    /// How changes are matched with it.
    pub watched: Watched,
}

impl Resource {
    /// Which surrogate key it has.
    #[must_use]
    pub fn kind(&self) -> ResourceKind {
        match self.watched {
            Watched::Record => ResourceKind::Record,
            Watched::Query { .. } | Watched::Count(_) => ResourceKind::Query,
        }
    }

    /// Whether an answer holds copies of its members (rule C4).
    #[must_use]
    pub fn embeds_members(&self) -> bool {
        matches!(
            self.watched,
            Watched::Query {
                representation: Representation::Objects,
                ..
            }
        )
    }

    /// Of a record, whatever the form: the record's own key.
    #[must_use]
    pub fn record(&self) -> Option<Key> {
        matches!(self.watched, Watched::Record)
            .then(|| self.form_of().unwrap_or_else(|| self.key.clone()))
    }

    /// Of a record's form (`fields`, `rep`): the record's own key. The key's path names the record.
    #[must_use]
    pub fn form_of(&self) -> Option<Key> {
        let (path, _) = self.key.as_str().split_once('?')?;
        matches!(self.watched, Watched::Record).then(|| Key::from(path))
    }
}

/// What the change feed says about a collection's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Images {
    /// The state before and after every change.
    Both,
    /// No state before: member sets stand in for it.
    #[default]
    AfterOnly,
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Watched::Record => "Record",
            Watched::Query { .. } => "Query",
            Watched::Count(_) => "Count",
        })
    }
}
