//! One suite for both stores: the same calls, the same answers. Where the stores could differ, MongoDB is
//! right. Runs against a real replica set and a real file.

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod aggregates;
mod atomicity;
mod deployment;
mod differential;
mod feed;
mod harness;
mod limits;
mod nasty;
mod records;
