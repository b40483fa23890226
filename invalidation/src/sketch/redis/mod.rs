//! The sketch in Redis, shared by the gateways of a deployment and surviving them: each operation is one
//! function of the library in `../lua`, with the server's clock. Needs Redis 7 (functions) and a
//! `noeviction` policy: an evicted key would be a forgotten copy.

mod call;
mod heard;
mod reply;

use std::sync::Arc;

use async_trait::async_trait;
use freshet_core::freshness::Lifetimes;
use freshet_core::key::Key;
use freshet_core::name::Namespace;
use freshet_core::sketch::Epoch;
use freshet_core::sketch::counting::{HASHES, bits_for};
use freshet_core::sketch::hash::Halves;
use freshet_core::sketch::machine::Limits;
use freshet_core::time::{Clock, Position};
use parking_lot::Mutex;

use self::call::{Call, Library, bytes, integer, items, text};
use self::heard::{Heard, Known};
use self::reply::{Filters, combine, names, union};
use super::epoch::Entropy;
use super::port::{
    Earlier, Opened, Purged, Read, Report, Scope, Settled, SketchError, SketchStore, Snapshot,
    Start, Write,
};
use crate::connection::RedisServer;

/// Where the sketch is, and whose.
#[derive(Clone, Debug)]
pub struct RedisSettings {
    /// Where it is.
    pub server: RedisServer,
    /// Names the deployment: its keys begin with `{prefix}`.
    pub prefix: String,
    /// Names this process among those that feed the sketch; stable over restarts.
    pub member: String,
    /// The longest one operation may take, milliseconds.
    pub operation_ms_max: u64,
    /// A process that reported nothing for so long is gone, milliseconds.
    pub lease_ms: u64,
}

/// The adapter.
pub struct RedisSketch {
    settings: RedisSettings,
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Entropy,
    library: Library,
    known: Mutex<Known>,
}

impl RedisSketch {
    /// Connects in the background and for ever after; operations fail while there is no connection.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(
        settings: RedisSettings,
        limits: Limits,
        clock: Arc<dyn Clock>,
        entropy: Entropy,
    ) -> Result<RedisSketch, SketchError> {
        let library = Library::new(&settings)?;
        Ok(RedisSketch {
            settings,
            limits,
            clock,
            entropy,
            library,
            known: Mutex::new(Known::default()),
        })
    }

    fn fresh_epoch(&self, last: u64) -> Epoch {
        self.entropy.epoch_after(last, self.clock.wall_ms())
    }

    fn salt_of(&self, epoch: u64) -> Result<[u8; 16], SketchError> {
        match self.known.lock().epoch {
            Some(known) if known.number == epoch => Ok(known.salt),
            Some(known) => Err(SketchError::EpochChanged(known.number)),
            None => Err(SketchError::EpochChanged(0)),
        }
    }

    fn learn(&self, number: &redis::Value, salt: &redis::Value) -> Result<Epoch, SketchError> {
        let number = text(number)?.parse().map_err(|_| malformed("epoch"))?;
        let salt = bytes(salt)?.try_into().map_err(|_| malformed("salt"))?;
        let epoch = Epoch { number, salt };
        self.known.lock().epoch = Some(epoch);
        Ok(epoch)
    }

    /// Whether each key had copies that are stale from now on.
    async fn report_keys(
        &self,
        function: &'static str,
        epoch: u64,
        namespace: &Namespace,
        writes: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        let mut hits = Vec::with_capacity(writes.len());
        for chunk in writes.chunks(WRITES_PER_CALL_MAX) {
            let mut call = Call::new(function)
                .arg(epoch)
                .arg(name(namespace))
                .arg(self.limits.retention_ms)
                .arg(self.limits.changes_max);
            for write in chunk {
                call = call.arg(write.key.as_str()).arg(hex(write.position));
            }
            let reply = call.send(&self.library).await?;
            for hit in items(&reply)? {
                hits.push(integer(hit)? == 1);
            }
        }
        Ok(hits)
    }

    fn client_ms(&self, lifetimes: Lifetimes) -> u64 {
        if lifetimes.is_zero() {
            return 0;
        }
        self.limits.client_ms(lifetimes)
    }

    /// Where this process's moment `ms_ago` lies on the server's clock, at the latest: the reply that
    /// brought the server's time was not older than it.
    fn server_time(&self, ms_ago: u64) -> i64 {
        let Some(Heard { time, heard, .. }) = self.known.lock().time else {
            return 0;
        };
        let elapsed = self.clock.now().since(heard);
        i64::try_from((time + elapsed).saturating_sub(ms_ago)).unwrap_or(0)
    }
}

pub(super) fn malformed(what: &str) -> SketchError {
    SketchError::Unavailable(format!("unexpected reply: {what}"))
}

fn hex(position: Position) -> String {
    format!("{:016x}", position.0)
}

fn position(value: &redis::Value) -> Result<Position, SketchError> {
    u64::from_str_radix(&text(value)?, 16)
        .map(Position)
        .map_err(|_| malformed("position"))
}

/// `db.collection`; a database's name has no dot.
fn name(namespace: &Namespace) -> String {
    namespace.to_string()
}

#[async_trait]
impl SketchStore for RedisSketch {
    async fn open(&self, start: Start) -> Result<Opened, SketchError> {
        let candidate = self.fresh_epoch(0);
        let reply = Call::new("open")
            .arg(&self.settings.member)
            .arg(u8::from(start == Start::First))
            .arg(candidate.number)
            .arg(&candidate.salt)
            .arg(self.limits.span_ms(self.limits.caps))
            .send(&self.library)
            .await?;
        let [number, salt, earlier, resume] = items(&reply)? else {
            return Err(malformed("open"));
        };
        let earlier = match integer(earlier)? {
            0 => Earlier::Nothing,
            1 => Earlier::Kept(bytes(resume)?),
            _ => Earlier::Lost,
        };
        let epoch = self.learn(number, salt)?;
        Ok(Opened { epoch, earlier })
    }

    async fn outstanding(&self) -> Result<Vec<(Namespace, Key)>, SketchError> {
        let mut all = Vec::new();
        for space in items(&self.library.members("spaces").await?)? {
            let space = text(space)?;
            let namespace = space
                .split_once('.')
                .and_then(|(db, collection)| Namespace::new(db, collection).ok())
                .ok_or_else(|| malformed("collection"))?;
            for key in self.library.fields(&format!("e:{space}")).await? {
                all.push((namespace.clone(), Key::from(key)));
            }
        }
        Ok(all)
    }

    async fn settle(
        &self,
        epoch: u64,
        namespace: &Namespace,
        reads: &[Read<'_>],
    ) -> Result<Vec<Settled>, SketchError> {
        let salt = self.salt_of(epoch)?;
        let mut call = Call::new("settle")
            .arg(epoch)
            .arg(name(namespace))
            .arg(self.limits.keys_max)
            .arg(self.limits.retention_ms)
            .arg(self.limits.changes_max)
            .arg(self.limits.collections_max);
        for read in reads {
            let halves = Halves::of(read.key.as_str(), &salt);
            call = call
                .arg(read.key.as_str())
                .arg(hex(read.position))
                .arg(self.client_ms(read.lifetimes))
                .arg(read.lifetimes.s.as_ms())
                .arg(u8::from(read.embedded))
                .arg(halves.a)
                .arg(halves.b);
        }
        let reply = call.send(&self.library).await?;
        let settled = |one: &redis::Value| match bytes(one)?.is_empty() {
            true => Ok(Settled::Recorded),
            false => position(one).map(Settled::InvalidatedAt),
        };
        items(&reply)?.iter().map(settled).collect()
    }

    async fn report_write(
        &self,
        epoch: u64,
        namespace: &Namespace,
        writes: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        self.report_keys("report_write", epoch, namespace, writes)
            .await
    }

    async fn report_lost(
        &self,
        epoch: u64,
        namespace: &Namespace,
        lost: &[Write],
    ) -> Result<Vec<bool>, SketchError> {
        self.report_keys("report_lost", epoch, namespace, lost)
            .await
    }

    async fn report_collection(
        &self,
        epoch: u64,
        namespace: &Namespace,
        position: Position,
    ) -> Result<(), SketchError> {
        let call = Call::new("report_collection").arg(epoch);
        let call = call.arg(name(namespace)).arg(hex(position));
        call.send(&self.library).await.map(drop)
    }

    async fn confirm_purge(
        &self,
        epoch: u64,
        namespace: &Namespace,
        purged: &[Purged],
    ) -> Result<(), SketchError> {
        for chunk in purged.chunks(WRITES_PER_CALL_MAX) {
            let mut call = Call::new("confirm_purge").arg(epoch).arg(name(namespace));
            for purge in chunk {
                call = call.arg(purge.key.as_str()).arg(hex(purge.position));
            }
            call.send(&self.library).await?;
        }
        Ok(())
    }

    async fn saturate(&self, epoch: u64, through: Position) -> Result<Epoch, SketchError> {
        let candidate = self.fresh_epoch(epoch);
        let reply = Call::new("saturate")
            .arg(epoch)
            .arg(candidate.number)
            .arg(&candidate.salt)
            .arg(self.limits.span_ms(self.limits.caps))
            .arg(hex(through))
            .send(&self.library)
            .await?;
        let [number, salt] = items(&reply)? else {
            return Err(malformed("saturate"));
        };
        self.learn(number, salt)
    }

    async fn confirm_saturation(&self, epoch: u64) -> Result<(), SketchError> {
        let call = Call::new("confirm_saturation").arg(epoch);
        let call = call.arg(self.limits.client_ms(self.limits.caps));
        call.send(&self.library).await.map(drop)
    }

    async fn snapshot(&self, scope: &Scope) -> Result<Snapshot, SketchError> {
        let call = Call::new("snapshot");
        let call = match scope {
            Scope::Database(db) => call.arg("d").arg(db.as_ref()),
            Scope::Collections(namespaces) => namespaces
                .iter()
                .fold(call.arg("c"), |call, namespace| call.arg(name(namespace))),
        };
        let reply = call.send(&self.library).await?;
        let [number, salt, saturated, members, parts] = items(&reply)? else {
            return Err(malformed("snapshot"));
        };
        let epoch = self.learn(number, salt)?;
        let saturated = integer(saturated)? == 1;
        let report = combine(items(members)?, &self.settings.member)?;
        let members = names(items(members)?)?;
        let Filters {
            m,
            bits,
            stale_keys,
            names: spaces,
        } = union(items(parts)?)?;
        if bits_for(stale_keys) > m {
            let call = Call::new("grow").arg(bits_for(stale_keys));
            let call = spaces.into_iter().fold(call, Call::arg);
            call.send(&self.library).await?;
        }
        Ok(Snapshot {
            epoch,
            saturated,
            m,
            k: HASHES,
            bits: if saturated { Arc::new([]) } else { bits.into() },
            stale_keys,
            report,
            members,
        })
    }

    async fn report(
        &self,
        epoch: u64,
        report: Report,
        resume: Option<&[u8]>,
    ) -> Result<Vec<String>, SketchError> {
        let candidate = self.fresh_epoch(epoch);
        let sent = self.clock.now();
        let reply = Call::new("report")
            .arg(epoch)
            .arg(&self.settings.member)
            .arg(hex(report.watermark))
            .arg(self.server_time(report.age_ms))
            .arg(report.invalidation_ms)
            .arg(self.settings.lease_ms)
            .arg(resume.unwrap_or_default())
            .arg(candidate.number)
            .arg(&candidate.salt)
            .arg(self.limits.span_ms(self.limits.caps))
            .arg(self.limits.retention_ms)
            .arg(self.limits.changes_max)
            .send(&self.library)
            .await?;
        let [time, gone @ ..] = items(&reply)? else {
            return Err(malformed("report"));
        };
        let time = u64::try_from(integer(time)?).map_err(|_| malformed("time"))?;
        let now = Heard {
            time,
            sent,
            heard: self.clock.now(),
        };
        match self.known.lock().hear(now) {
            true => gone.iter().map(text).collect(),
            false => Err(SketchError::EpochChanged(epoch)),
        }
    }

    async fn dismiss(&self, epoch: u64, cell: &str) -> Result<(), SketchError> {
        let call = Call::new("dismiss").arg(epoch).arg(cell);
        call.send(&self.library).await.map(drop)
    }
}

/// Keys in one call: a function blocks the server while it runs, some 10 µs a key.
const WRITES_PER_CALL_MAX: usize = 200;
