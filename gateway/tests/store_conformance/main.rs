//! One suite for both stores: the same calls, the same answers. Where the stores could differ, MongoDB is
//! right. Runs against a real replica set and a real file.

mod atomicity;
mod differential;
mod feed;
mod harness;
mod limits;
mod nasty;
mod records;
