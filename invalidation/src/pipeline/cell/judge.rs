//! Whether a query is matched from where its answer was read (rule C1): what came since is replayed.

use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::time::Moment;

use super::super::Inner;
use super::CellRole;
use crate::matcher::{Affected, Shown, Window, affected};
use crate::partition::{Request, Retained, Verdict};
use crate::registry::{Refused, Registry, Resource};

impl CellRole {
    /// A window as far as one column can follow it: what other columns' records do is not seen. `changed`: changes came
    /// after it was read.
    fn followed(&self, window: &Window, changed: bool) -> Window {
        if self.cell.shape.writes == 1 && !changed {
            return window.clone();
        }
        let mut window = window.clone();
        window.places.clear();
        if let Some(end) = &mut window.end {
            end.beyond = Default::default();
        }
        window
    }
}

impl Inner {
    /// Has a query matched from where its answer was read.
    pub(super) fn judge(&self, role: &CellRole, request: &Request) -> Verdict {
        let now = self.clock.now();
        let named = self.revive.as_ref();
        let resource = named.and_then(|name| name(&request.namespace, &request.key));
        let Some(resource) = resource else {
            return Verdict::Undecidable;
        };
        // What is lost in an epoch that this cell has not entered yet takes along what it agrees to now; and one that was
        // away may not be the cell any more.
        let epoch = self.epoch().ok();
        if epoch != Some(request.epoch) || !role.is_held(now) {
            return Verdict::Late;
        }
        if !role.has(&resource) {
            return Verdict::Late;
        }
        // No change is matched in between.
        let mut registry = self.registry.lock();
        let retained = role.retained.lock();
        let changed = match self.replay(role, &retained, &resource, request) {
            Ok(changed) => changed,
            Err(verdict) => return verdict,
        };
        let shown = request.shown(role.followed(&request.window, changed));
        let entered = enter(&mut registry, &resource, request, shown, now);
        drop(retained);
        drop(registry);
        self.observe(request.position);
        entered.err().unwrap_or(Verdict::Active)
    }

    /// Matches the query with the changes that came after its answer was read, alone: they are few. Whether there were any
    /// that concern its collections.
    fn replay(
        &self,
        role: &CellRole,
        retained: &Retained,
        resource: &Resource,
        request: &Request,
    ) -> Result<bool, Verdict> {
        if retained.reshaped() > request.known {
            return Err(Verdict::Changed);
        }
        let meanwhile = retained.after(request.position).ok_or(Verdict::Late)?;
        let concerns = |namespace: &Namespace| {
            let joined = resource.joins.iter().any(|join| join.from == *namespace);
            joined || *namespace == resource.namespace
        };
        let meanwhile = meanwhile.filter(|event| concerns(&event.namespace));
        let mut meanwhile = meanwhile.peekable();
        if meanwhile.peek().is_none() {
            return Ok(false);
        }
        let now = self.clock.now();
        let mut alone = Registry::new(self.settings.registry);
        let shown = request.shown(role.followed(&request.window, false));
        enter(&mut alone, resource, request, shown, now)?;
        let record = resource.record();
        for event in meanwhile {
            let touched = match affected(alone.collection(&event.namespace), event, now) {
                Affected::Collection(..) => return Err(Verdict::Changed),
                Affected::Resources(touched) => touched,
            };
            let is_it = |key: &Key| *key == resource.key || record.as_ref() == Some(key);
            if touched.iter().any(|one| is_it(&one.key)) {
                return Err(Verdict::Changed);
            }
        }
        Ok(true)
    }
}

/// Registers a copy that is out, in one step.
fn enter(
    registry: &mut Registry,
    resource: &Resource,
    request: &Request,
    shown: Shown<'_>,
    now: Moment,
) -> Result<(), Verdict> {
    registry.declare(&resource.namespace, request.images);
    let begun = registry.begin(resource, now);
    begun.map_err(|why| match why {
        Refused::Full => Verdict::Full,
        Refused::Quota => Verdict::Quota,
        Refused::Retiring => Verdict::Retiring,
        Refused::Undecidable(_) => Verdict::Undecidable,
    })?;
    let settled = registry.settle(resource, shown, request.position, request.span_ms, now);
    registry.release(resource, now);
    settled.then_some(()).ok_or(Verdict::Late)
}
