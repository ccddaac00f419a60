//! One command per file. Each returns a status, never exits and prints through the printer.

mod annotate;
mod bench;
mod check;
mod convert;
mod corrupt;
mod dedup;
mod embed;
mod formats;
mod generate;
mod grade;
mod jobs;
mod models;
mod perplexity;
mod pool;
mod sample;
mod score;
mod select;
mod solve;
mod split;
mod stats;
mod steps;
mod synth;
mod train;

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Arguments, Command, DataCommand};

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    /// Done.
    Done,
    /// Done, and the data has problems.
    Found,
    /// The command line is wrong in a way that only the command can tell; see [`Usage`].
    Misused,
    /// The input or output is unusable.
    Unusable,
    /// Stopped by Ctrl-C where it can go on.
    Interrupted,
}

/// An option with a value that makes no sense, in one sentence.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => Self::SUCCESS,
            Status::Found => Self::from(1),
            Status::Misused => Self::from(2),
            Status::Unusable => Self::from(3),
            Status::Interrupted => Self::from(130),
        }
    }
}

/// Runs the command that was asked for.
pub(crate) fn run(arguments: Arguments) -> Result<Status> {
    match arguments.command {
        Command::Data(DataCommand::Convert(args)) => convert::run(&args),
        Command::Data(DataCommand::Check(args)) => check::run(&args),
        Command::Data(DataCommand::Stats(args)) => stats::run(&args),
        Command::Data(DataCommand::Split(args)) => split::run(&args),
        Command::Data(DataCommand::Dedup(args)) => dedup::run(&args),
        Command::Data(DataCommand::Corrupt(args)) => corrupt::run(&args),
        Command::Data(DataCommand::Formats(args)) => formats::run(&args),
        Command::Steps(args) => steps::run(&args),
        Command::Grade(args) => grade::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Sample(args) => sample::run(&args),
        Command::Annotate(command) => annotate::run(&command),
        Command::Jobs(command) => jobs::run(&command),
        Command::Score(args) => score::run(&args),
        Command::Select(args) => select::run(&args),
        Command::Solve(args) => solve::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Embed(args) => embed::run(&args),
        Command::Perplexity(args) => perplexity::run(&args),
        Command::Pool(command) => pool::run(&command),
        Command::Train(command) => train::run(&command),
        Command::Bench(command) => bench::run(&command),
        Command::Models(command) => models::run(&command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "gradus", &mut script);
            std::io::stdout().write_all(&script)?;
            Ok(Status::Done)
        }
    }
}
