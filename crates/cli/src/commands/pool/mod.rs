//! `gradus pool`: solved problems at hand, and those among them that resemble others.

mod build;
mod examples;
mod map;
mod search;
mod stats;

use anyhow::Result;
use gradus_retrieve::Error;

use super::Status;
use crate::args::pool::PoolCommand;
use crate::printer;

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
