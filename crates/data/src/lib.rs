//! Datasets: the files they come in, the formats they have, and what can be done with them as a whole.
//!
//! - [`files`]: records out of files of any container (JSON, JSONL, gzip, zstd, Parquet, folders of shards), and back
//! - [`readers`]: a dataset's own record becomes our [`gradus_core::Record`], and back
//! - [`dedup`]: the same problem again, exactly or nearly; [`split`]: parts that share no problem
//! - [`joined`]: records of several files by problem, on disk ([`spool`]) where memory would not do
//! - [`stats`]: what a dataset holds; [`corrupt`]: reference solutions with one error put in
//! - [`paragraphs`]: steps joined at random; [`once`]: labels of steps that several solutions begin with, once
//!
//! ```
//! use gradus_data::readers::Format;
//! let row = serde_json::json!({"question": "What is 2 + 3?", "answer": "2 + 3 = <<2+3=5>>5\n#### 5"});
//! assert_eq!(Format::detect(row.as_object().unwrap()), Some(Format::Gsm8k));
//! ```

pub mod corrupt;
pub mod dedup;
mod error;
pub mod files;
pub mod joined;
pub mod once;
pub mod paragraphs;
pub mod readers;
pub mod split;
pub mod spool;
pub mod stats;

pub use error::{Error, Result, SourceLocation};
