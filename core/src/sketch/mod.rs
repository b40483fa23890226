//! The Expiring Bloom Filter: hashing, counting, flat bits, wire bytes.
