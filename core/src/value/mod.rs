//! Values: BSON order and equality as MongoDB has them, dotted paths, Extended JSON.

mod build;
pub mod canonical;
pub mod compare;
pub mod decimal;
pub mod ejson;
pub mod id;
pub(crate) mod json;
pub mod number;
pub mod order_key;
pub mod path;
pub mod sort;

pub(crate) use build::empty;
pub use build::{Builder, DOCUMENT_BYTES_MAX, Place};
