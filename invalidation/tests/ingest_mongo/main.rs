//! The change stream against a real replica set: what it delivers, how it resumes, when its watermark moves,
//! and that what is lost is called lost (rules C6, C8).

// Helpers of tests are tests, too.
#![allow(clippy::unwrap_used)]

mod catalogue;
mod delivery;
mod failure;
mod harness;
