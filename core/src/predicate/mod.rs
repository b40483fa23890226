//! Compiled filters, evaluated on raw BSON.
