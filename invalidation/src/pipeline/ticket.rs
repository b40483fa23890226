//! Permission to read and then to cache.

use std::sync::Arc;

use freshet_core::time::{Moment, Position};
use parking_lot::Mutex;

use crate::registry::{Registry, Resource};

/// Permission to read and then to cache (rule C1): the lease of a read. Ends with
/// [`crate::Pipeline::settle`], or when it is dropped.
///
/// Nothing is stored for it in the sketch; that remembers every change for longer than a ticket lives, and
/// refuses the read when one came between (`docs/decisions/0003-ticket-as-lease.md`).
pub struct Ticket {
    /// The read has to be made at or after it.
    pub from: Position,
    /// The sketch's epoch at the beginning.
    pub epoch: u64,
    /// When it was given.
    pub started: Moment,
    /// The collections' shape then ([`crate::Pipeline::shape`]).
    pub shape: u64,
    /// What for.
    pub resource: Resource,
    /// What was known of the grid then, if there is one.
    pub(super) grid: Option<super::replica::Known>,
    pub(super) registry: Arc<Mutex<Registry>>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.grid.is_some() {
            return;
        }
        self.registry.lock().release(&self.resource, self.started);
    }
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket")
            .field("key", &self.resource.key)
            .field("from", &self.from)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}
