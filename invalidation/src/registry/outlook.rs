//! Whether there is a place for a resource. Who only asks makes nobody give theirs up.

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

    /// # Errors
    /// There is none.
    pub(super) fn room(&mut self, resource: &Resource, now: Moment) -> Result<(), Refused> {
        let of_database = self.by_database.get(resource.namespace.db());
        if of_database.is_some_and(|count| *count >= self.limits.database_active_max) {
            return Err(Refused::Quota);
        }
        let limit = match resource.hinted {
            true => self.limits.active_max.saturating_mul(2),
            false => self.limits.active_max,
        };
        if self.active < limit {
            return Ok(());
        }
        self.sweep(now);
        match self.active < limit {
            true => Ok(()),
            false => Err(Refused::Full),
        }
    }
}
