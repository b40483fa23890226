//! What a change means for a query: add, change, move, remove.
