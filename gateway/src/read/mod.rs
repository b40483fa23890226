//! Reads: what was asked, the path from the question to the answer, and the forms an answer takes.

pub mod answer;
pub mod asked;
pub mod explain;
pub mod fetch;
pub mod path;
pub mod permit;
pub mod query_body;
pub mod reason;
pub mod sketch;
