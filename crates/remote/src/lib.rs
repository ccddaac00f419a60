//! Files that are elsewhere.
