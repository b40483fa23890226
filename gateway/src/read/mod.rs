//! Reads: what was asked, the path from the question to the answer, and the forms an answer takes.

pub mod answer;
pub mod asked;
pub mod fetch;
pub mod path;
pub mod query_body;
pub mod sketch;
