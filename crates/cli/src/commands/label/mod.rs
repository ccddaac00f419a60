//! `gradus label`: labeling projects, which people label on the page of `gradus serve --label`.

mod create;
mod export;
mod stats;

use anyhow::Result;
use clap::Subcommand;

use crate::exit::Status;

#[derive(Debug, Subcommand)]
pub(super) enum LabelCommand {
    /// Create a labeling project from solutions in any format
    Create(create::CreateArgs),
    /// Print progress, agreement and reliability of a project's people
    Stats(stats::StatsArgs),
    /// Export finished labels as a dataset
    Export(export::ExportArgs),
}

pub(super) fn run(command: &LabelCommand) -> Result<Status> {
    match command {
        LabelCommand::Create(args) => create::run(args),
        LabelCommand::Stats(args) => stats::run(args),
        LabelCommand::Export(args) => export::run(args),
    }
}
