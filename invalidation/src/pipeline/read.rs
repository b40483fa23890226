//! A read, from before the database is asked until its answer may be cached: registered, then known to the sketch (rules
//! C1–C4).

use std::sync::Arc;

use freshet_core::key::Key;
use freshet_core::time::{Moment, Position};

use super::{Answer, Inner, NotCached, Ticket};
use crate::matcher::Shown;
use crate::registry::{Refused, Resource};
use crate::sketch::port::{Read, Settled, SketchError};

impl Inner {
    pub(super) fn begin(&self, resource: Resource) -> Result<Ticket, NotCached> {
        let now = self.clock.now();
        let epoch = self.admits(now)?;
        let grid = self.known(&resource)?;
        let (matched, shape) = {
            let mut registry = self.registry.lock();
            let matched = match grid {
                Some(_) => Ok(Position::ZERO),
                None => registry.begin(&resource, now),
            };
            (matched.map_err(refused)?, registry.shape())
        };
        Ok(Ticket {
            from: matched.max(self.position()),
            epoch,
            started: now,
            shape,
            resource,
            grid,
            registry: Arc::clone(&self.registry),
        })
    }

    pub(super) async fn settle(
        &self,
        ticket: &Ticket,
        answer: Answer<'_>,
    ) -> Result<(), NotCached> {
        let now = self.clock.now();
        if answer.lifetimes.is_zero() {
            return Err(NotCached::ShortLived);
        }
        if now.since(ticket.started) >= self.settings.registry.ticket_ms {
            return Err(NotCached::ReadTooSlow);
        }
        if answer.position < ticket.from {
            return Err(NotCached::ReadTooEarly);
        }
        if self.admits(now)? != ticket.epoch {
            return Err(NotCached::EpochChanged);
        }
        let resource = &ticket.resource;
        let span_ms = answer.lifetimes.span_ms();
        {
            let mut registry = self.registry.lock();
            if registry.shape() != ticket.shape {
                return Err(NotCached::InvalidatedMeanwhile);
            }
            // Swept: the ticket's term ended just now, and nobody matches it any more.
            let shown = Shown {
                members: Some(answer.members),
                window: answer.window.clone(),
                joined: answer.joined.clone(),
            };
            if ticket.grid.is_none()
                && !registry.settle(resource, shown, answer.position, span_ms, now)
            {
                return Err(NotCached::ReadTooSlow);
            }
        }
        if let Some(known) = &ticket.grid {
            self.register(known, ticket, &answer).await?;
        }
        let read = |key, embedded| Read {
            key,
            position: answer.position,
            lifetimes: answer.lifetimes,
            embedded,
        };
        let embedded: &[Key] = match resource.embeds_members() {
            true => answer.members,
            false => &[],
        };
        let reads: Vec<Read<'_>> = std::iter::once(read(&resource.key, false))
            .chain(embedded.iter().map(|key| read(key, true)))
            .collect();
        let settled = self
            .sketch
            .settle(ticket.epoch, &resource.namespace, &reads)
            .await
            .map_err(|error| self.refusal(&error))?;
        if settled.iter().any(|one| *one != Settled::Recorded) {
            return Err(NotCached::InvalidatedMeanwhile);
        }
        match &ticket.grid {
            Some(known) => self.confirm_rows(known, embedded).await,
            None => Ok(()),
        }
    }

    pub(super) fn admits(&self, now: Moment) -> Result<u64, NotCached> {
        let state = *self.state.lock();
        state.admits(self.settings.watermark_ms_max, now)
    }

    /// After a failure nothing is tried until the feed's next report got through: refusals are quick.
    fn refusal(&self, error: &SketchError) -> NotCached {
        match error {
            SketchError::EpochChanged(_) => NotCached::EpochChanged,
            SketchError::Full => NotCached::Capacity,
            SketchError::Unavailable(_) => {
                self.state.lock().sketch = false;
                NotCached::SketchUnavailable
            }
        }
    }
}

pub(super) fn refused(why: Refused) -> NotCached {
    match why {
        Refused::Full => NotCached::Capacity,
        Refused::Quota => NotCached::Quota,
        Refused::Retiring => NotCached::Outweighed,
        Refused::Undecidable(_) => NotCached::Undecidable,
    }
}
