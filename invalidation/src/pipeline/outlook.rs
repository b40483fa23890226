//! What would become of a read that is made now, for whoever asks why. Nothing is registered and nothing is learned.

use freshet_core::key::Key;
use freshet_core::ttl::{Explained, Policy};

use super::read::refused;
use super::{NotCached, Pipeline};
use crate::registry::Resource;

impl Pipeline {
    /// Whether an answer that is read now could be cached, as far as is known without asking the sketch for a place.
    ///
    /// # Errors
    /// Why not.
    pub fn outlook(&self, resource: &Resource) -> Result<(), NotCached> {
        let now = self.inner.clock.now();
        self.inner.admits(now)?;
        let placed = self.inner.registry.lock().outlook(resource, now);
        placed.map_err(refused)
    }

    /// How the lifetimes of a query's answer with these members come about, and under which policy.
    #[must_use]
    pub fn explain_lifetimes(&self, resource: &Resource, members: &[Key]) -> (Policy, Explained) {
        let namespace = &resource.namespace;
        let policy = *self.inner.settings.policy(namespace);
        let now = self.inner.clock.now();
        let estimator = self.inner.estimator.lock();
        let explained = estimator.explain(&policy, namespace, &resource.key, members, now);
        (policy, explained)
    }
}
