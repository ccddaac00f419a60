//! `gradus data`: datasets.

mod check;
mod convert;
mod corrupt;
mod dedup;
mod formats;
mod merge;
mod split;
mod stats;

use anyhow::Result;
use clap::Subcommand;

use crate::arguments::JsonOption;
use crate::exit::Status;

#[derive(Debug, Subcommand)]
pub(super) enum DataCommand {
    /// Convert between dataset formats and file types
    Convert(convert::ConvertArgs),
    /// Validate a dataset and report every problem
    Check(check::CheckArgs),
    /// Print statistics of a dataset
    Stats(stats::StatsArgs),
    /// Split a dataset by problem
    Split(split::SplitArgs),
    /// Join files about the same problems: all solutions, annotations and scores
    Merge(merge::MergeArgs),
    /// Find exact and near-duplicate problems
    Dedup(dedup::DedupArgs),
    /// Create wrong solutions with known first errors from correct ones
    Corrupt(corrupt::CorruptArgs),
    /// List supported dataset formats
    Formats(JsonOption),
}

pub(super) fn run(command: &DataCommand) -> Result<Status> {
    match command {
        DataCommand::Convert(args) => convert::run(args),
        DataCommand::Check(args) => check::run(args),
        DataCommand::Stats(args) => stats::run(args),
        DataCommand::Split(args) => split::run(args),
        DataCommand::Merge(args) => merge::run(args),
        DataCommand::Dedup(args) => dedup::run(args),
        DataCommand::Corrupt(args) => corrupt::run(args),
        DataCommand::Formats(args) => formats::run(args),
    }
}
