//! Documents and filters that are meant to hurt: every BSON type, numbers that are nearly equal, arrays in
//! arrays, paths that end in the wrong place. Values come from one small pool, so that filters find something.

// Each test binary uses a part of it, and all of it is test code.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

pub mod filters;
pub mod patterns;
pub mod values;

use std::hash::{BuildHasher, Hasher, RandomState};

use bson::raw::CString;
use bson::{RawBson, RawDocumentBuf};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// A source of choices. The same seed makes the same documents and filters.
pub struct Nasty(StdRng);

impl Nasty {
    /// From a seed.
    pub fn of(seed: u64) -> Nasty {
        Nasty(StdRng::seed_from_u64(seed))
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end)
    }

    /// True this often, in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of them.
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A seed that no run had before.
pub fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A document of these fields.
pub fn document<'a>(fields: impl IntoIterator<Item = (&'a str, RawBson)>) -> RawDocumentBuf {
    let mut document = RawDocumentBuf::new();
    for (name, value) in fields {
        document.append(CString::try_from(name).unwrap(), value);
    }
    document
}

/// An array of these values.
pub fn array(values: impl IntoIterator<Item = RawBson>) -> RawBson {
    let mut array = bson::RawArrayBuf::new();
    for value in values {
        array.push(value);
    }
    RawBson::Array(array)
}
