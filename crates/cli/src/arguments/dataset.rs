//! Datasets that a command reads: as its arguments, or with `--data`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_data::readers::Format;

use crate::arguments::values::named;

/// How to handle an invalid record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Stop at the first error
    Fail,
    /// Skip and count
    Skip,
}

/// Files of datasets.
#[derive(Debug, Args)]
pub(crate) struct DatasetFiles {
    /// Input files, folders of shards, or - for standard input (JSON, JSONL or Parquet, optionally .gz or .zst)
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Input format (default: detected from the first record)
    #[arg(long, value_name = "FORMAT", value_parser = format_name)]
    pub(crate) from: Option<Format>,
}

/// Datasets as arguments.
#[derive(Debug, Args)]
pub(crate) struct DatasetInput {
    #[command(flatten)]
    pub(crate) files: DatasetFiles,
    /// How to handle invalid records
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) on_error: OnError,
}

/// Datasets as an option of a command that also takes a single text.
#[derive(Debug, Args)]
pub(crate) struct DatasetOption {
    /// Datasets to read
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// With --data, input format (default: detected from the first record)
    #[arg(long, value_name = "FORMAT", value_parser = format_name, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data, how to handle invalid records
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
}

/// A dataset format by its name.
pub(crate) fn format_name(name: &str) -> Result<Format, String> {
    named(name, &Format::ALL, Format::name)
}
