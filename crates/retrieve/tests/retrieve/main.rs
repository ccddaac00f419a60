//! Pools and retrieval with made-up records and an encoder that counts words.

mod fake;
mod leak;
mod pool;
mod two_stage;
