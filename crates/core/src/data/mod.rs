//! The data model and the files it comes from.
//!
//! `files` finds records in files of any container (JSON, JSONL, gzip, zstd, Parquet, folders of shards);
//! `readers` turns a dataset's own record into our [`Record`] and back; the other modules are the model.

pub mod corrupt;
pub mod dedup;
pub mod files;
pub mod id;
mod label;
mod problem;
pub mod readers;
mod record;
mod reference;
mod solution;
pub mod split;
pub mod stats;

pub use label::{Annotation, Cost, Evidence, FirstError, LabelSource, Mark, StepLabel};
pub use problem::{Domain, Problem};
pub use record::{Record, SCHEMA};
pub use reference::{ReferenceProblem, ReferenceStep, References};
pub use solution::{Outcome, Solution};

/// Free-form fields that a source has and the model has no name for.
pub type Metadata = serde_json::Map<String, serde_json::Value>;
