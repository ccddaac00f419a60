//! `gradus pool`: a retrieval index of solved problems.

mod build;
mod examples;
mod map;
mod search;
mod stats;

use anyhow::Result;
use clap::Subcommand;
use gradus_retrieve::Error;

use crate::exit::Status;
use crate::terminal::printer;

#[derive(Debug, Subcommand)]
pub(super) enum PoolCommand {
    /// Build a pool of questions and steps from labeled or solved problems
    Build(build::BuildArgs),
    /// Add problems to a pool without embedding existing ones again
    Add(build::AddArgs),
    /// Print statistics of a pool and verify its files
    Stats(stats::StatsArgs),
    /// Retrieve the nearest questions and steps
    Search(search::SearchArgs),
    /// Write training examples with retrieved references
    Examples(examples::ExamplesArgs),
    /// Measure and plot the distribution shift between datasets
    Map(map::MapArgs),
}

pub(super) fn run(command: &PoolCommand) -> Result<Status> {
    let result = match command {
        PoolCommand::Build(args) => build::build(args),
        PoolCommand::Add(args) => build::add(args),
        PoolCommand::Stats(args) => stats::run(args),
        PoolCommand::Search(args) => search::run(args),
        PoolCommand::Examples(args) => examples::run(args),
        PoolCommand::Map(args) => map::run(args),
    };
    match result {
        Err(error) if matches!(error.downcast_ref::<Error>(), Some(Error::Stopped)) => {
            printer::note(error.to_string());
            Ok(Status::Interrupted)
        }
        other => other,
    }
}
