//! The feed of changes: the change log, read from a sequence on and woken by commits. Both images are always
//! known. A log that no longer reaches back to where the reader was is a gap.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use freshet_core::change::ChangeEvent;
use freshet_core::time::{Moment, Position};
use freshet_invalidation::ingest::port::{Batch, Source, SourceError, Watermark};
use tokio::sync::watch;

use super::super::port::StoreError;
use super::Shared;
use super::log::decode;
use super::tables::{BIRTH, PRUNED, Snapshot, broken, number};

/// How long a batch is waited for. Even an empty one moves the watermark (C6).
const WAIT_MS_MAX: u64 = 100;
/// Changes in a batch at most, but for the rest of a transaction.
const BATCH_CHANGES_MAX: usize = 500;

/// Where the reader is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// It begins with whatever is committed from now on.
    Now,
    /// Everything up to this sequence was delivered, of the store with this birth.
    After { birth: u64, sequence: u64 },
    /// It had a token that is none.
    Lost,
}

/// The source. Keeps the store's file open as long as it lives.
pub(super) struct EmbeddedSource {
    shared: Arc<Shared>,
    committed: watch::Receiver<u64>,
    place: Place,
}

impl EmbeddedSource {
    pub(super) fn new(shared: Arc<Shared>, resume: Option<Vec<u8>>) -> EmbeddedSource {
        EmbeddedSource {
            committed: shared.committed.subscribe(),
            place: match resume {
                None => Place::Now,
                Some(token) => read_token(&token).unwrap_or(Place::Lost),
            },
            shared,
        }
    }

    /// Everything after the place, as one snapshot has it.
    fn read(&mut self) -> Result<Batch, SourceError> {
        let asked = self.shared.clock.now();
        let snapshot = Snapshot::of(&self.shared.database).map_err(unavailable)?;
        let meta = snapshot.meta().map_err(unavailable)?;
        let birth = number(&meta, BIRTH).map_err(unavailable)?;
        let pruned = number(&meta, PRUNED).map_err(unavailable)?;
        let after = match self.place {
            Place::Now => snapshot.sequence,
            Place::After {
                birth: theirs,
                sequence,
            } if theirs == birth && sequence >= pruned && sequence <= snapshot.sequence => sequence,
            Place::After { .. } | Place::Lost => {
                self.place = Place::Now;
                return Err(SourceError::Gap(format!(
                    "the change log of this store begins after {pruned}"
                )));
            }
        };
        let (events, through) = changes(&snapshot, after).map_err(unavailable)?;
        self.place = Place::After {
            birth,
            sequence: through,
        };
        Ok(batch(
            events,
            through,
            birth,
            (through == snapshot.sequence).then_some(asked),
        ))
    }
}

#[async_trait]
impl Source for EmbeddedSource {
    async fn next(&mut self) -> Result<Batch, SourceError> {
        if let Place::After { sequence, .. } = self.place {
            let more = self.committed.wait_for(|committed| *committed > sequence);
            // Nothing new is as good as something: the snapshot then says so.
            let _waited = tokio::time::timeout(Duration::from_millis(WAIT_MS_MAX), more)
                .await
                .is_ok();
        }
        self.read()
    }
}

/// The changes after a sequence, and the sequence they reach.
fn changes(snapshot: &Snapshot, after: u64) -> Result<(Vec<ChangeEvent>, u64), StoreError> {
    let mut events: Vec<ChangeEvent> = Vec::new();
    let table = snapshot.changes()?;
    for entry in table.range((after + 1, 0)..).map_err(broken)? {
        let (key, entry) = entry.map_err(broken)?;
        let (sequence, _) = key.value();
        let last = events.last().map(|event| event.position.0);
        if let Some(last) = last
            && events.len() >= BATCH_CHANGES_MAX
            && last != sequence
        {
            return Ok((events, last));
        }
        events.push(decode(sequence, entry.value())?);
    }
    Ok((events, snapshot.sequence))
}

fn batch(events: Vec<ChangeEvent>, through: u64, birth: u64, as_of: Option<Moment>) -> Batch {
    let position = Position(through);
    Batch {
        events,
        through: position,
        watermark: as_of.map(|as_of| Watermark { position, as_of }),
        resume: Some([birth.to_be_bytes(), through.to_be_bytes()].concat()),
    }
}

fn read_token(token: &[u8]) -> Option<Place> {
    let (birth, sequence) = token.split_at_checked(8)?;
    Some(Place::After {
        birth: u64::from_be_bytes(birth.try_into().ok()?),
        sequence: u64::from_be_bytes(sequence.try_into().ok()?),
    })
}

fn unavailable(error: StoreError) -> SourceError {
    SourceError::Unavailable(error.to_string())
}
