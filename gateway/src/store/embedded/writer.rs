//! The one thread that writes. Writes that wait together are committed together: one transaction of the file,
//! one flush to disk, then every one of them is answered. Nothing is answered before it is on disk.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use freshet_core::time::Position;
use redb::{ReadableTable, ReadableTableMetadata, Table, WriteTransaction};
use tokio::sync::{mpsc, oneshot};

use super::super::port::{StoreError, Transacted};
use super::Shared;
use super::log::encode;
use super::plan::{Plan, Planner, Work};
use super::tables::{CHANGES, DOCUMENTS, META, OWN, PRUNED, SEQUENCE, broken, number};

/// Something to write, and where its answer goes.
pub(super) enum Job {
    /// A transaction.
    Work(Work, oneshot::Sender<Result<Transacted, StoreError>>),
    /// A value of the gateway's own.
    Meta(String, Vec<u8>, oneshot::Sender<Result<(), StoreError>>),
}

/// An answer that is given once its commit is on disk.
enum Pending {
    Work(oneshot::Sender<Result<Transacted, StoreError>>, Transacted),
    Meta(oneshot::Sender<Result<(), StoreError>>),
}

impl Pending {
    /// The asker may have gone away; what it asked for has happened all the same.
    fn answer(self, outcome: &Result<(), StoreError>) {
        match self {
            Pending::Work(answer, transacted) => {
                let _gone = answer.send(outcome.clone().map(|()| transacted));
            }
            Pending::Meta(answer) => {
                let _gone = answer.send(outcome.clone());
            }
        }
    }
}

/// Runs until every sender is gone.
pub(super) fn run(shared: &Arc<Shared>, mut jobs: mpsc::Receiver<Job>) {
    while let Some(first) = jobs.blocking_recv() {
        let mut waiting = vec![first];
        while waiting.len() < shared.options.commit_writes_max {
            match jobs.try_recv() {
                Ok(job) => waiting.push(job),
                Err(_) => break,
            }
        }
        commit(shared, waiting);
    }
}

fn commit(shared: &Shared, jobs: Vec<Job>) {
    let mut pending = Vec::with_capacity(jobs.len());
    let outcome = write(shared, jobs, &mut pending);
    if let Ok(sequence) = outcome {
        shared.committed.send_replace(sequence);
    }
    let outcome = outcome.map(|_| ());
    *shared.failed.lock() = outcome
        .clone()
        .err()
        .filter(|error| matches!(error, StoreError::Unavailable(_)));
    for one in pending {
        one.answer(&outcome);
    }
}

/// Carries the jobs out in one transaction of the file, and says the newest sequence. Those that a failure
/// kept from being reached share it.
fn write(shared: &Shared, jobs: Vec<Job>, pending: &mut Vec<Pending>) -> Result<u64, StoreError> {
    let mut jobs = jobs.into_iter();
    let outcome = shared
        .database
        .begin_write()
        .map_err(broken)
        .and_then(|transaction| carry_out(shared, transaction, &mut jobs, pending));
    pending.extend(jobs.map(refused));
    outcome
}

fn carry_out(
    shared: &Shared,
    transaction: WriteTransaction,
    jobs: &mut impl Iterator<Item = Job>,
    pending: &mut Vec<Pending>,
) -> Result<u64, StoreError> {
    let (sequence, changed) = {
        let mut batch = Batch::open(shared, &transaction)?;
        for job in jobs {
            batch.carry_out(job, pending)?;
        }
        batch.close()?
    };
    if changed {
        transaction.commit().map_err(broken)?;
    } else {
        transaction.abort().map_err(broken)?;
    }
    Ok(sequence)
}

fn refused(job: Job) -> Pending {
    match job {
        Job::Work(_, answer) => Pending::Work(answer, Transacted::Kept),
        Job::Meta(_, _, answer) => Pending::Meta(answer),
    }
}

/// The tables of an open transaction, and how far it has got.
struct Batch<'t> {
    shared: &'t Shared,
    documents: Table<'t, &'static [u8], &'static [u8]>,
    changes: Table<'t, (u64, u32), &'static [u8]>,
    meta: Table<'t, &'static str, &'static [u8]>,
    sequence: u64,
    changed: bool,
}

impl<'t> Batch<'t> {
    fn open(
        shared: &'t Shared,
        transaction: &'t WriteTransaction,
    ) -> Result<Batch<'t>, StoreError> {
        let meta = transaction.open_table(META).map_err(broken)?;
        Ok(Batch {
            shared,
            sequence: number(&meta, SEQUENCE)?,
            documents: transaction.open_table(DOCUMENTS).map_err(broken)?,
            changes: transaction.open_table(CHANGES).map_err(broken)?,
            meta,
            changed: false,
        })
    }

    /// One job. What does not fit is answered at once; a failure of the file fails the whole batch.
    fn carry_out(&mut self, job: Job, pending: &mut Vec<Pending>) -> Result<(), StoreError> {
        match job {
            Job::Meta(name, value, answer) => {
                pending.push(Pending::Meta(answer));
                self.changed = true;
                let name = format!("{OWN}{name}");
                self.meta.insert(&*name, &*value).map_err(broken)?;
            }
            Job::Work(work, answer) => match self.plan(work) {
                Ok(plan) => {
                    let outcome = plan.outcome.clone();
                    pending.push(Pending::Work(answer, outcome));
                    self.apply(&plan)?;
                }
                Err(error) => {
                    let _gone = answer.send(Err(error));
                }
            },
        }
        Ok(())
    }

    fn plan(&self, work: Work) -> Result<Plan, StoreError> {
        let planner = Planner::new(
            &self.documents,
            self.shared.options.limits(),
            self.shared.clock.wall_ms(),
        );
        // A decision is the caller's code: if it panics, it takes nobody's writes with it.
        let mut plan = catch_unwind(AssertUnwindSafe(|| planner.plan(work)))
            .unwrap_or_else(|_| Err(StoreError::Internal("a decision panicked".to_owned())))?;
        let next = self.sequence + u64::from(!plan.effects.is_empty());
        plan.at(Position(next));
        Ok(plan)
    }

    fn apply(&mut self, plan: &Plan) -> Result<(), StoreError> {
        if plan.effects.is_empty() {
            return Ok(());
        }
        self.changed = true;
        self.sequence += 1;
        for (index, effect) in (0_u32..).zip(&plan.effects) {
            let key = &*effect.key;
            match &effect.after {
                Some(after) => drop(
                    self.documents
                        .insert(key, after.as_bytes())
                        .map_err(broken)?,
                ),
                None => drop(self.documents.remove(key).map_err(broken)?),
            }
            self.changes
                .insert((self.sequence, index), encode(effect).as_bytes())
                .map_err(broken)?;
        }
        Ok(())
    }

    /// Notes how far the batch has got and lets old changes go.
    fn close(mut self) -> Result<(u64, bool), StoreError> {
        if self.changed {
            self.meta
                .insert(SEQUENCE, &self.sequence.to_be_bytes()[..])
                .map_err(broken)?;
            self.prune()?;
        }
        Ok((self.sequence, self.changed))
    }

    /// Keeps at most the permitted number of changes, and no sequence by halves.
    fn prune(&mut self) -> Result<(), StoreError> {
        let mut surplus = self
            .changes
            .len()
            .map_err(broken)?
            .saturating_sub(self.shared.options.changes_max);
        let mut pruned = None;
        while let Some(first) = self.first_change()?
            && (surplus > 0 || pruned == Some(first))
        {
            self.changes.pop_first().map_err(broken)?;
            surplus = surplus.saturating_sub(1);
            pruned = Some(first);
        }
        if let Some(pruned) = pruned {
            self.meta
                .insert(PRUNED, &pruned.to_be_bytes()[..])
                .map_err(broken)?;
        }
        Ok(())
    }

    fn first_change(&self) -> Result<Option<u64>, StoreError> {
        let first = self.changes.first().map_err(broken)?;
        Ok(first.map(|(key, _)| key.value().0))
    }
}
