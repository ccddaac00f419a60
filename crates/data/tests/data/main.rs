//! Datasets from the outside: formats and containers, duplicates and splits, statistics.

mod dedup;
mod formats;
mod stats;
