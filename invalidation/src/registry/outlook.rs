//! Whether there would be a place for a resource, for whoever asks about one. Nobody is asked to make room for it.

use freshet_core::time::Moment;

use super::{Refused, Registry, Resource};

impl Registry {
    /// What [`Registry::begin`] would come to now, as far as places go.
    ///
    /// # Errors
    /// [`Refused`].
    pub fn outlook(&mut self, resource: &Resource, now: Moment) -> Result<(), Refused> {
        let known = self.collections.get(&resource.namespace);
        let entry = known.and_then(|c| c.entry(c.find(&resource.key)?));
        if let Some(entry) = entry {
            return match entry.retiring {
                true => Err(Refused::Retiring),
                false => Ok(()),
            };
        }
        self.room(resource, now)
    }
}
