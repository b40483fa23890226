//! A ledger in Redis, one stream for each process: an entry per call, with an order per field, deleted when all of them are
//! settled.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::streams::StreamRangeReply;
use redis::{Client, Cmd, FromRedisValue};

use super::open::Open;
use super::{Ledger, LedgerError, entry};
use crate::purge::outbox::Confirmed;
use crate::purge::queue::Order;

/// How to reach Redis, and as whom.
#[derive(Clone, Debug)]
pub struct RedisLedgerSettings {
    /// `redis://host:port/db`.
    pub url: String,
    /// Names the deployment: the stream's name begins with `{prefix}`.
    pub prefix: String,
    /// Names this process; stable over restarts.
    pub member: String,
    /// The longest one operation may take, milliseconds.
    pub operation_ms_max: u64,
}

/// The ledger.
pub struct RedisLedger {
    connection: ConnectionManager,
    stream: String,
    operation_max: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    open: Open<String>,
    /// How many orders of each entry are open.
    entries: HashMap<String, usize>,
}

/// Orders in one entry.
const ORDERS_PER_ENTRY_MAX: usize = 256;
/// Entries read at a time.
const ENTRIES_PER_READ: usize = 1_000;

impl RedisLedger {
    /// Connects in the background and for ever after; operations fail while there is no connection.
    ///
    /// # Errors
    /// The URL is not one.
    pub fn new(settings: &RedisLedgerSettings) -> Result<RedisLedger, LedgerError> {
        let operation_max = Duration::from_millis(settings.operation_ms_max);
        let client = Client::open(settings.url.as_str()).map_err(LedgerError::of)?;
        let config = ConnectionManagerConfig::new()
            .set_min_delay(Duration::from_millis(50))
            .set_max_delay(Duration::from_secs(2))
            .set_number_of_retries(0)
            .set_connection_timeout(Some(operation_max))
            .set_response_timeout(Some(operation_max));
        let connection =
            ConnectionManager::new_lazy_with_config(client, config).map_err(LedgerError::of)?;
        Ok(RedisLedger {
            connection,
            stream: format!("{{{}}}:purges:{}", settings.prefix, settings.member),
            operation_max,
            state: Mutex::default(),
        })
    }

    async fn query<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, LedgerError> {
        let mut connection = self.connection.clone();
        let timed = tokio::time::timeout(self.operation_max, command.query_async(&mut connection));
        timed
            .await
            .map_err(|_| LedgerError::of("no answer in time"))?
            .map_err(LedgerError::of)
    }

    async fn delete(&self, entries: &[String]) -> Result<(), LedgerError> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut command = redis::cmd("XDEL");
        command.arg(&self.stream).arg(entries);
        self.query::<u64>(&command).await.map(drop)
    }
}

#[async_trait]
impl Ledger for RedisLedger {
    async fn take_up(&self) -> Result<Vec<Order>, LedgerError> {
        let (mut found, mut from) = (State::default(), "-".to_owned());
        loop {
            let mut command = redis::cmd("XRANGE");
            command.arg(&self.stream).arg(&from).arg("+");
            command.arg("COUNT").arg(ENTRIES_PER_READ);
            let page: StreamRangeReply = self.query(&command).await?;
            let Some(last) = page.ids.last() else { break };
            from = format!("({}", last.id);
            for one in &page.ids {
                let texts = one
                    .map
                    .values()
                    .filter_map(|value| String::from_redis_value_ref(value).ok());
                let orders: Vec<Order> = texts.filter_map(|text| entry::parse(&text)).collect();
                found.note(&orders, &one.id);
            }
        }
        let orders = found.open.orders().cloned().collect();
        *self.state.lock() = found;
        Ok(orders)
    }

    async fn note(&self, orders: &[Order]) -> Result<(), LedgerError> {
        for some in orders.chunks(ORDERS_PER_ENTRY_MAX) {
            let mut command = redis::cmd("XADD");
            command.arg(&self.stream).arg("*");
            for (number, order) in some.iter().enumerate() {
                command.arg(number).arg(entry::text(order));
            }
            let id: String = self.query(&command).await?;
            let settled = self.state.lock().note(some, &id);
            self.delete(&settled).await?;
        }
        Ok(())
    }

    async fn confirm(&self, confirmed: &[Confirmed]) -> Result<(), LedgerError> {
        let settled = {
            let mut state = self.state.lock();
            let places: Vec<String> = confirmed
                .iter()
                .flat_map(|one| state.open.confirm(one))
                .collect();
            state.settle(places)
        };
        self.delete(&settled).await
    }
}

impl State {
    /// Orders are in an entry. The entries that none is open of any more.
    fn note(&mut self, orders: &[Order], id: &str) -> Vec<String> {
        let mut replaced = Vec::new();
        for order in orders {
            replaced.extend(self.open.note(order, id.to_owned()));
        }
        *self.entries.entry(id.to_owned()).or_default() += orders.len();
        self.settle(replaced)
    }

    /// Orders are settled, by their entries. The entries that none is open of any more.
    fn settle(&mut self, places: Vec<String>) -> Vec<String> {
        let mut empty = Vec::new();
        for id in places {
            let Some(open) = self.entries.get_mut(&id) else {
                continue;
            };
            *open -= 1;
            if *open == 0 {
                self.entries.remove(&id);
                empty.push(id);
            }
        }
        empty
    }
}
