//! Datasets that a command reads: as its arguments, or with `--data`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_core::steps::Strategy;
use gradus_data::files::ReadOptions;
use gradus_data::readers::{FieldMap, Format};

use crate::arguments::values::{named, strategy};

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
    /// Input files, folders of shards, addresses (hf://, s3://, gs://, az://, https://), or - for standard input (JSON, JSONL,
    /// CSV, TSV or Parquet, optionally .gz or .zst)
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Input format (default: detected from the first record)
    #[arg(long, value_name = "FORMAT", value_parser = format_name)]
    pub(crate) from: Option<Format>,
    /// What the fields of model outputs are: problem, solution, steps, answer, reference, id, generator or correct, each
    /// with its field, such as problem=question,solution=output.text (default: by their names)
    #[arg(long, value_name = "ROLE=FIELD,...", conflicts_with = "from")]
    pub(crate) map: Option<FieldMap>,
    /// Problem that the inputs solve; each input is then one solution in plain text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["from", "map"])]
    pub(crate) problem: Option<String>,
}

impl DatasetFiles {
    /// How the files are read.
    pub(crate) fn options(&self) -> ReadOptions {
        let Self { from, map, problem, .. } = self;
        ReadOptions { format: *from, map: map.clone(), problem: problem.clone(), ..ReadOptions::default() }
    }
}

/// Datasets as arguments.
#[derive(Debug, Args)]
pub(crate) struct DatasetInput {
    #[command(flatten)]
    pub(crate) files: DatasetFiles,
    /// How solutions that are text are split into steps: auto, blank_lines, numbered, step_markers, lines or sentences
    /// (default: auto, where steps are needed)
    #[arg(long, value_name = "STRATEGY", value_parser = strategy)]
    pub(crate) steps: Option<Strategy>,
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
    /// With --data, what the fields of model outputs are, such as problem=question,solution=output.text (default: by their
    /// names)
    #[arg(long, value_name = "ROLE=FIELD,...", requires = "data", conflicts_with = "from")]
    pub(crate) map: Option<FieldMap>,
    /// With --data, how solutions that are text are split into steps (default: auto, where steps are needed)
    #[arg(long, value_name = "STRATEGY", value_parser = strategy, requires = "data")]
    pub(crate) steps: Option<Strategy>,
    /// With --data, how to handle invalid records
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
}

/// A dataset format by its name.
pub(crate) fn format_name(name: &str) -> Result<Format, String> {
    named(name, &Format::ALL, Format::name)
}
