//! A connection to Redis that comes back by itself: operations fail in bounded time while there is none.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, RedisResult};

/// Connects in the background and for ever after.
///
/// # Errors
/// The URL is not one.
pub(crate) fn connect(url: &str, operation_max: Duration) -> RedisResult<ConnectionManager> {
    let config = ConnectionManagerConfig::new()
        .set_min_delay(Duration::from_millis(50))
        .set_max_delay(Duration::from_secs(2))
        .set_number_of_retries(0)
        .set_connection_timeout(Some(operation_max))
        .set_response_timeout(Some(operation_max));
    ConnectionManager::new_lazy_with_config(Client::open(url)?, config)
}
