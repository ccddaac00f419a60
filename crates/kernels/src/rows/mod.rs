//! Row-wise operations.
