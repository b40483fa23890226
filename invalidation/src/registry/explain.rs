//! What can be told of the active list without changing it.

use freshet_core::predicate::Undecidable;

use super::{Collection, Registry, Resource, Watched};
use crate::matcher::{Coverage, Explanation};

/// What is known of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct Explained {
    /// Whether it is active.
    pub active: bool,
    /// How the index finds it.
    pub explanation: Explanation,
}

impl Registry {
    /// How the index finds a query, or would.
    ///
    /// # Errors
    /// The matcher cannot decide it (rule C14).
    pub fn explain(&mut self, resource: &Resource) -> Result<Option<Explained>, Undecidable> {
        let Watched::Query(watch) = &resource.watched else {
            return Ok(None);
        };
        // The collection as it is: what recent writes tell of its values counts.
        let mut unknown = Collection::default();
        let collection = self.collections.get_mut(&resource.namespace);
        let collection = collection.unwrap_or(&mut unknown);
        let explanation = collection.matcher().explain(watch)?;
        let active = collection.find(&resource.key).is_some();
        Ok(Some(Explained {
            active,
            explanation,
        }))
    }

    /// How many queries are active, and how many of them the index does not find.
    #[must_use]
    pub fn coverage(&self) -> Coverage {
        let each = self.collections.values().map(Collection::coverage);
        each.fold(Coverage::default(), |all, one| Coverage {
            queries: all.queries + one.queries,
            residual: all.residual + one.residual,
            atoms: all.atoms + one.atoms,
        })
    }
}
