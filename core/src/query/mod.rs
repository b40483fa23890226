//! Queries: the filter language, its canonical form and key, sort, projection.
