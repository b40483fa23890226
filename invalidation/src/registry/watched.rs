//! A cacheable resource as the matcher sees it.

use freshet_core::freshness::ResourceKind;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::notification::Representation;

use super::Join;
use crate::matcher::Watch;

/// How a resource is matched.
#[derive(Clone, Debug)]
pub enum Watched {
    /// By its key's path: every change of the record, whatever form of it the key asks for.
    Record,
    /// By its filter, and what its answer shows.
    Query(Watch),
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
    /// The collections that it looks records up in.
    pub joins: Vec<Join>,
    /// Active even where others find no room (up to twice as many).
    pub hinted: bool,
}

impl Resource {
    /// Which surrogate key it has.
    #[must_use]
    pub fn kind(&self) -> ResourceKind {
        match self.watched {
            Watched::Record => ResourceKind::Record,
            Watched::Query(_) => ResourceKind::Query,
        }
    }

    /// Whether an answer holds copies of its members (rule C4).
    #[must_use]
    pub fn embeds_members(&self) -> bool {
        match &self.watched {
            Watched::Record => false,
            Watched::Query(watch) => watch.shape.representation == Representation::Objects,
        }
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
