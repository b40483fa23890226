//! The streams in Redis: one Redis stream each, trimmed by age, each partition's keys under a hash tag of their own,
//! so that a cluster spreads them over its nodes. A reader waits on a connection of its own, since a blocking command
//! holds up everything behind it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use freshet_core::time::{Clock, Moment};
use parking_lot::Mutex;
use redis::streams::{StreamId, StreamRangeReply, StreamReadReply};
use redis::{FromRedisValue, RedisResult, Script, ScriptInvocation};

use super::{ENTRIES_AT_ONCE_MAX, Entry, From, Line, Reader, Row, StreamError, Streams};
use crate::connection::{Connection, RedisServer, connect};
use crate::partition::Shape;

/// Where the streams are, and whose.
#[derive(Clone, Debug)]
pub struct RedisStreamsSettings {
    /// Where they are.
    pub server: RedisServer,
    /// Names the deployment: its keys begin with `{prefix:`.
    pub prefix: String,
    /// The grid's: several can share a deployment, while one replaces another.
    pub shape: Shape,
    /// The longest one operation may take, milliseconds.
    pub operation_ms_max: u64,
    /// How long a stream keeps entries, about, milliseconds.
    pub retention_ms: u64,
}

/// The adapter.
pub struct RedisStreams {
    settings: RedisStreamsSettings,
    operation_max: Duration,
    connection: Connection,
    clock: Arc<dyn Clock>,
    heard: Mutex<Option<Heard>>,
}

/// The server's time, between two moments of ours.
#[derive(Clone, Copy)]
struct Heard {
    time: u64,
    sent: Moment,
    heard: Moment,
}

/// The entry's field.
const FIELD: &str = "e";
/// A stream that nobody writes to is gone after so long, milliseconds.
const IDLE_MS_MAX: u64 = 3_600_000;

/// KEYS: stream, its term. ARGV: term or '', retention, how long a stream that nobody writes to stays, entries.
static APPEND: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local term = tonumber(ARGV[1])
         if term then
           local known = tonumber(redis.call('GET', KEYS[2]) or '0')
           if term < known then return redis.error_reply('DEPOSED by term ' .. known) end
           if term > known then redis.call('SET', KEYS[2], ARGV[1]) end
         end
         local t = redis.call('TIME')
         local oldest = t[1] * 1000 + math.floor(t[2] / 1000) - tonumber(ARGV[2])
         for i = 4, #ARGV do
           redis.call('XADD', KEYS[1], 'MINID', '~', string.format('%.0f', oldest), '*', 'e', ARGV[i])
         end
         redis.call('PEXPIRE', KEYS[1], ARGV[3])
         if term then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
         return 0",
    )
});

/// KEYS: leader, term. ARGV: who, lease. Replies the term (0: another one leads), the server's time. Terms are times, so
/// that they grow over a server that forgot.
static LEAD: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local t = redis.call('TIME')
         local now = t[1] * 1000 + math.floor(t[2] / 1000)
         local leader = redis.call('GET', KEYS[1])
         if leader and leader ~= ARGV[1] then return {0, now} end
         local term = tonumber(redis.call('GET', KEYS[2]) or '0')
         if not leader or term == 0 then
           term = math.max(term + 1, now)
           redis.call('SET', KEYS[2], string.format('%.0f', term))
         end
         redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
         return {term, now}",
    )
});

/// KEYS: leader. ARGV: who.
static STEP_DOWN: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 0",
    )
});

impl RedisStreams {
    /// Connects in the background and for ever after; operations fail while there is no connection.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(
        settings: RedisStreamsSettings,
        clock: Arc<dyn Clock>,
    ) -> Result<RedisStreams, StreamError> {
        let operation_max = Duration::from_millis(settings.operation_ms_max);
        let connection = connect(&settings.server, operation_max).map_err(StreamError::of)?;
        Ok(RedisStreams {
            settings,
            operation_max,
            connection,
            clock,
            heard: Mutex::new(None),
        })
    }

    fn key(&self, tag: &str, part: &str) -> String {
        let Shape { queries, writes } = self.settings.shape;
        format!(
            "{{{}:{queries}x{writes}:{tag}}}:{part}",
            self.settings.prefix
        )
    }

    /// Offices share a tag, and so a server: its clock is the one that is heard.
    fn office(&self, name: &str, part: &str) -> String {
        self.key("offices", &format!("{name}:{part}"))
    }

    fn stream(&self, line: &Line) -> String {
        match line {
            Line::Changes(column) => self.key(&format!("w:{column}"), "changes"),
            Line::Requests(row) => self.key(&format!("q:{row}"), "requests"),
            Line::Answers(gateway) => self.key(&format!("g:{gateway}"), "answers"),
            // Gateways of all shapes hear what cells of all shapes tell.
            Line::Notices => format!("{{{}:n}}:notices", self.settings.prefix),
        }
    }

    /// The whole operation is bounded, waiting for a connection included.
    async fn run<T>(
        &self,
        operation: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, StreamError> {
        bounded(self.operation_max, operation).await
    }

    async fn invoke<T: FromRedisValue>(
        &self,
        call: &mut ScriptInvocation<'_>,
    ) -> Result<T, StreamError> {
        let mut connection = self.connection.clone();
        self.run(call.invoke_async(&mut connection)).await
    }

    fn hear(&self, time: u64, sent: Moment) {
        let heard = self.clock.now();
        *self.heard.lock() = Some(Heard { time, sent, heard });
    }
}

async fn bounded<T>(
    limit: Duration,
    operation: impl Future<Output = RedisResult<T>>,
) -> Result<T, StreamError> {
    let done = tokio::time::timeout(limit, operation).await;
    let done = done.map_err(|_| StreamError::of("no answer in time"))?;
    done.map_err(|error| match error.code() {
        Some("DEPOSED") => StreamError::Deposed,
        _ => StreamError::of(error),
    })
}

/// One that is not ours is an entry too, which nobody can read: who counts them counts right.
fn entry(id: &StreamId) -> Entry {
    Entry {
        cursor: id.id.clone(),
        body: id.get(FIELD).unwrap_or_default(),
    }
}

#[async_trait]
impl Streams for RedisStreams {
    async fn append(
        &self,
        line: &Line,
        entries: Vec<Vec<u8>>,
        term: Option<u64>,
    ) -> Result<(), StreamError> {
        let stream = self.stream(line);
        let mut call = APPEND.key(&stream);
        call.key(format!("{stream}:term"))
            .arg(term.map_or_else(String::new, |term| term.to_string()))
            .arg(self.settings.retention_ms)
            .arg(IDLE_MS_MAX)
            .arg(entries);
        self.invoke(&mut call).await
    }

    async fn last(&self, line: &Line) -> Result<Option<Entry>, StreamError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(self.stream(line)).arg("+").arg("-");
        command.arg("COUNT").arg(1);
        let mut connection = self.connection.clone();
        let reply: StreamRangeReply = self.run(command.query_async(&mut connection)).await?;
        Ok(reply.ids.first().map(entry))
    }

    async fn read(&self, line: &Line, from: From) -> Result<Box<dyn Reader>, StreamError> {
        let after = match from {
            From::After(cursor) => cursor,
            From::Now => {
                let last = self.last(line).await?;
                last.map_or_else(|| "0-0".to_owned(), |last| last.cursor)
            }
        };
        let connection =
            connect(&self.settings.server, self.operation_max).map_err(StreamError::of)?;
        Ok(Box::new(RedisReader {
            connection,
            operation_max: self.operation_max,
            stream: self.stream(line),
            after,
        }))
    }

    async fn lead(
        &self,
        office: &str,
        holder: &str,
        lease_ms: u64,
    ) -> Result<Option<u64>, StreamError> {
        let sent = self.clock.now();
        let mut call = LEAD.key(self.office(office, "leader"));
        call.key(self.office(office, "term"))
            .arg(holder)
            .arg(lease_ms);
        let (term, time): (u64, u64) = self.invoke(&mut call).await?;
        self.hear(time, sent);
        Ok((term > 0).then_some(term))
    }

    async fn step_down(&self, office: &str, holder: &str) -> Result<(), StreamError> {
        let mut call = STEP_DOWN.key(self.office(office, "leader"));
        self.invoke(call.arg(holder)).await
    }

    async fn row(&self, row: u32) -> Result<Row, StreamError> {
        let mut command = redis::cmd("HGETALL");
        command.arg(self.key(&format!("q:{row}"), "row"));
        let mut connection = self.connection.clone();
        let fields: HashMap<String, u64> = self.run(command.query_async(&mut connection)).await?;
        let columns = |prefix: &str| {
            let fields = fields.keys();
            let columns = fields.filter_map(|field| field.strip_prefix(prefix)?.parse().ok());
            columns.collect()
        };
        Ok(Row {
            generation: fields.get("generation").copied().unwrap_or(0),
            up: columns("up:"),
            lagging: columns("lag:"),
        })
    }

    async fn mark(&self, row: u32, column: u32, up: bool) -> Result<(), StreamError> {
        let key = self.key(&format!("q:{row}"), "row");
        let mut pipe = redis::pipe();
        pipe.atomic().hincr(&key, "generation", 1);
        match up {
            true => pipe.hset(&key, format!("up:{column}"), 1),
            false => pipe.hdel(&key, &[format!("up:{column}"), format!("lag:{column}")]),
        };
        let mut connection = self.connection.clone();
        let done: RedisResult<redis::Value> = self
            .run(async { Ok(pipe.query_async(&mut connection).await) })
            .await?;
        done.map(drop).map_err(StreamError::of)
    }

    async fn lag(&self, row: u32, column: u32, lags: bool) -> Result<(), StreamError> {
        let (key, field) = (
            self.key(&format!("q:{row}"), "row"),
            format!("lag:{column}"),
        );
        let command = match lags {
            true => redis::Cmd::hset(&key, field, 1),
            false => redis::Cmd::hdel(&key, field),
        };
        let mut connection = self.connection.clone();
        self.run(command.query_async(&mut connection)).await
    }

    fn stamp(&self, at: Moment) -> Option<u64> {
        let heard = (*self.heard.lock())?;
        // The server's time was not before the reply's when the reply was heard.
        Some((heard.time + at.0).saturating_sub(heard.heard.0))
    }

    fn age_ms(&self, stamp: u64, now: Moment) -> Option<u64> {
        let heard = (*self.heard.lock())?;
        // Nor was it after the reply's when the request was sent.
        Some((heard.time + now.since(heard.sent)).saturating_sub(stamp))
    }
}

struct RedisReader {
    connection: Connection,
    operation_max: Duration,
    stream: String,
    after: String,
}

#[async_trait]
impl Reader for RedisReader {
    async fn next(&mut self, wait_ms: u64) -> Result<Vec<Entry>, StreamError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(ENTRIES_AT_ONCE_MAX);
        if wait_ms > 0 {
            // Well within the time that an operation may take.
            let most = u64::try_from(self.operation_max.as_millis() / 2).unwrap_or(u64::MAX);
            command.arg("BLOCK").arg(wait_ms.min(most).max(1));
        }
        command.arg("STREAMS").arg(&self.stream).arg(&self.after);
        let reading = command.query_async(&mut self.connection);
        let reply: Option<StreamReadReply> = bounded(self.operation_max, reading).await?;
        let keys = reply.into_iter().flat_map(|reply| reply.keys);
        let ids: Vec<StreamId> = keys.flat_map(|key| key.ids).collect();
        if let Some(last) = ids.last() {
            self.after = last.id.clone();
        }
        Ok(ids.iter().map(entry).collect())
    }
}
