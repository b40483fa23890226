//! The gateway from outside: the real binary, over HTTP, against `docs/protocol.md`.

mod aggregates;
mod caching;
mod commands;
mod degradation;
mod edges;
mod errors;
mod explain;
mod grid;
mod headers;
mod imports;
mod lifecycle;
mod live;
mod mongo;
mod redis;
mod refusals;
mod resources;
mod stored;
mod stream;
mod support;
mod values;
mod watched;
mod writes;
