//! One function call: bounded in time, its errors typed, the library reloaded when the server lost it.

use std::time::Duration;

use redis::{Cmd, ToRedisArgs, Value};

use super::{RedisSettings, malformed};
use crate::connection::{Connection, connect};
use crate::sketch::port::SketchError;

const SOURCE: &str = concat!(
    include_str!("../lua/prelude.lua"),
    include_str!("../lua/filter.lua"),
    include_str!("../lua/copies.lua"),
    include_str!("../lua/epoch.lua"),
);

/// The function library, on the server or the node of a cluster that has our keys.
pub(super) struct Library {
    connection: Connection,
    root: String,
    operation_max: Duration,
}

impl Library {
    pub(super) fn new(settings: &RedisSettings) -> Result<Library, SketchError> {
        let operation_max = Duration::from_millis(settings.operation_ms_max);
        let connection = connect(&settings.server, operation_max).map_err(unavailable)?;
        Ok(Library {
            connection,
            root: format!("{{{}}}", settings.prefix),
            operation_max,
        })
    }

    /// A whole operation is bounded, waiting for a connection included.
    async fn query(&self, command: &Cmd) -> Result<Value, redis::RedisError> {
        let mut connection = self.connection.clone();
        self.timed(command.query_async(&mut connection)).await
    }

    async fn timed(
        &self,
        operation: impl Future<Output = Result<Value, redis::RedisError>>,
    ) -> Result<Value, redis::RedisError> {
        tokio::time::timeout(self.operation_max, operation)
            .await
            .unwrap_or_else(|_| Err((redis::ErrorKind::Io, "no answer in time").into()))
    }

    /// The members of a set.
    pub(super) async fn members(&self, part: &str) -> Result<Value, SketchError> {
        let mut command = redis::cmd("SMEMBERS");
        command.arg(format!("{}:{part}", self.root));
        self.query(&command).await.map_err(unavailable)
    }

    /// The fields of a hash, read in small steps: every field that is there all the while.
    pub(super) async fn fields(&self, part: &str) -> Result<Vec<String>, SketchError> {
        let (mut fields, mut cursor) = (Vec::new(), "0".to_owned());
        loop {
            let mut command = redis::cmd("HSCAN");
            command.arg(format!("{}:{part}", self.root)).arg(&cursor);
            command.arg("COUNT").arg(1_000);
            let reply = self.query(&command).await.map_err(unavailable)?;
            let [next, pairs] = items(&reply)? else {
                return Err(malformed("scan"));
            };
            for field in items(pairs)?.iter().step_by(2) {
                fields.push(text(field)?);
            }
            cursor = text(next)?;
            if cursor == "0" {
                return Ok(fields);
            }
        }
    }

    async fn load(&self) -> Result<(), redis::RedisError> {
        let mut command = redis::cmd("FUNCTION");
        command.arg("LOAD").arg("REPLACE").arg(SOURCE);
        let mut connection = self.connection.clone();
        let loading = connection.query_where(&self.root, &command);
        self.timed(loading).await.map(drop)
    }
}

/// A call being put together.
pub(super) struct Call {
    function: &'static str,
    arguments: Vec<Vec<u8>>,
}

impl Call {
    pub(super) fn new(function: &'static str) -> Call {
        Call {
            function,
            arguments: Vec::new(),
        }
    }

    pub(super) fn arg(mut self, argument: impl ToRedisArgs) -> Call {
        self.arguments.extend(argument.to_redis_args());
        self
    }

    pub(super) async fn send(self, library: &Library) -> Result<Value, SketchError> {
        let mut command = redis::cmd("FCALL");
        command
            .arg(format!("freshet1_{}", self.function))
            .arg(1)
            .arg(&library.root)
            .arg(&self.arguments);
        let lost = |error: &redis::RedisError| {
            error
                .detail()
                .is_some_and(|detail| detail.contains("Function not found"))
        };
        let reply = match library.query(&command).await {
            Err(error) if lost(&error) => {
                library.load().await.map_err(unavailable)?;
                library.query(&command).await
            }
            reply => reply,
        };
        reply.map_err(typed)
    }
}

/// The library's own refusals are errors whose first word is `EPOCH` or `FULL`.
fn typed(error: redis::RedisError) -> SketchError {
    match error.code() {
        Some("EPOCH") => {
            let current = error.detail().and_then(|detail| detail.trim().parse().ok());
            SketchError::EpochChanged(current.unwrap_or(0))
        }
        Some("FULL") => SketchError::Full,
        _ => unavailable(error),
    }
}

fn unavailable(error: redis::RedisError) -> SketchError {
    SketchError::Unavailable(error.to_string())
}

pub(super) fn items(value: &Value) -> Result<&[Value], SketchError> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(malformed("not an array")),
    }
}

pub(super) fn bytes(value: &Value) -> Result<Vec<u8>, SketchError> {
    match value {
        Value::BulkString(bytes) => Ok(bytes.clone()),
        Value::SimpleString(text) => Ok(text.clone().into_bytes()),
        _ => Err(malformed("not a string")),
    }
}

pub(super) fn text(value: &Value) -> Result<String, SketchError> {
    String::from_utf8(bytes(value)?).map_err(|_| malformed("not text"))
}

pub(super) fn integer(value: &Value) -> Result<i64, SketchError> {
    match value {
        Value::Int(number) => Ok(*number),
        _ => Err(malformed("not an integer")),
    }
}
