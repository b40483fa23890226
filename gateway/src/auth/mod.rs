//! Who may do what.

pub mod access;
