//! Parquet in and out, with Parquet's own record and column interfaces: no Arrow, which is most of the time to compile.
//!
//! [`read`] turns each row into a JSON object with explicit nulls. [`mod@write`] shreds JSON objects into columns, whose
//! types [`columns`] infers from the first rows.

mod columns;
mod lengths;
mod limited;
mod page_header;
mod read;
mod timestamp;
mod write;

pub(crate) use read::ParquetRows;
pub(crate) use write::ParquetSink;
