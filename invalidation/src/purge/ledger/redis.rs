//! A ledger in Redis: a stream for each process, an entry for each order, deleted when it is settled.

use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::RedisResult;
use redis::streams::StreamRangeReply;

use super::open::Open;
use super::{Ledger, LedgerError, entry};
use crate::connection::{Connection, RedisServer, connect};
use crate::purge::outbox::Confirmed;
use crate::purge::queue::Order;

/// Where the ledger is, and whose.
#[derive(Clone, Debug)]
pub struct RedisLedgerSettings {
    /// Where it is.
    pub server: RedisServer,
    /// Names the deployment: the stream's name begins with `{prefix}`.
    pub prefix: String,
    /// Names this process; stable over restarts.
    pub member: String,
    /// The longest one operation may take, milliseconds.
    pub operation_ms_max: u64,
}

/// The ledger.
pub struct RedisLedger {
    connection: Connection,
    stream: String,
    operation_max: Duration,
    /// With the ids of their entries.
    open: Mutex<Open<String>>,
}

/// The entry's field.
const FIELD: &str = "order";
/// Entries that are written, read or deleted at a time.
const ENTRIES_PER_CALL_MAX: usize = 256;

impl RedisLedger {
    /// Connects in the background and for ever after; operations fail while there is no connection.
    ///
    /// # Errors
    /// The settings contradict each other.
    pub fn new(settings: &RedisLedgerSettings) -> Result<RedisLedger, LedgerError> {
        let operation_max = Duration::from_millis(settings.operation_ms_max);
        let connection = connect(&settings.server, operation_max).map_err(LedgerError::of)?;
        Ok(RedisLedger {
            connection,
            stream: format!("{{{}}}:purges:{}", settings.prefix, settings.member),
            operation_max,
            open: Mutex::default(),
        })
    }

    fn connection(&self) -> Connection {
        self.connection.clone()
    }

    /// The whole operation is bounded, waiting for a connection included.
    async fn run<T>(
        &self,
        operation: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, LedgerError> {
        tokio::time::timeout(self.operation_max, operation)
            .await
            .map_err(|_| LedgerError::of("no answer in time"))?
            .map_err(LedgerError::of)
    }

    async fn delete(&self, ids: &[String]) -> Result<(), LedgerError> {
        for some in ids.chunks(ENTRIES_PER_CALL_MAX) {
            let mut command = redis::cmd("XDEL");
            command.arg(&self.stream).arg(some);
            let deleting = async { command.query_async::<u64>(&mut self.connection()).await };
            self.run(deleting).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn take_up(&self) -> Result<Vec<Order>, LedgerError> {
        let (mut open, mut from) = (Open::default(), "-".to_owned());
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.stream).arg(&from).arg("+");
            command.arg("COUNT").arg(ENTRIES_PER_CALL_MAX);
            let reading = async { command.query_async(&mut self.connection()).await };
            let page: StreamRangeReply = self.run(reading).await?;
            let Some(last) = page.ids.last() else { break };
            from = format!("({}", last.id);
            for one in &page.ids {
                let text: Option<String> = one.get(FIELD);
                if let Some(order) = text.and_then(|text| entry::parse(&text)) {
                    open.note(&order, one.id.clone());
                }
            }
        }
        let orders = open.orders().cloned().collect();
        *self.open.lock() = open;
        Ok(orders)
    }

    async fn note(&self, orders: &[Order]) -> Result<(), LedgerError> {
        for some in orders.chunks(ENTRIES_PER_CALL_MAX) {
            let mut pipe = redis::pipe();
            for order in some {
                let text = entry::text(order);
                pipe.cmd("XADD")
                    .arg(&self.stream)
                    .arg("*")
                    .arg(FIELD)
                    .arg(text);
            }
            let writing = async { pipe.query_async(&mut self.connection()).await };
            let ids: Vec<String> = self.run(writing).await?;
            let replaced: Vec<String> = {
                let mut open = self.open.lock();
                let noted = some.iter().zip(ids);
                noted.flat_map(|(order, id)| open.note(order, id)).collect()
            };
            self.delete(&replaced).await?;
        }
        Ok(())
    }

    async fn confirm(&self, confirmed: &[Confirmed]) -> Result<(), LedgerError> {
        let settled: Vec<String> = {
            let mut open = self.open.lock();
            let all = confirmed.iter();
            all.flat_map(|one| open.confirm(one)).collect()
        };
        self.delete(&settled).await
    }
}
