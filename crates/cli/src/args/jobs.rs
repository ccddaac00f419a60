//! Options of `gradus jobs`.

use clap::{Args, Subcommand};

use super::Output;
use super::generator::JobOptions;

#[derive(Debug, Subcommand)]
pub(crate) enum JobsCommand {
    /// List jobs, the newest first
    List(JobsList),
    /// Show one job: where it stands, what failed, what could not be decided
    Show(JobsShow),
    /// Go on with a job
    Resume(JobsNamed),
    /// Stop a job where it can be resumed
    Cancel(JobsNamed),
    /// Forget a job with all its results; its output stays
    Remove(JobsNamed),
}

#[derive(Debug, Args)]
pub(crate) struct JobsList {
    #[command(flatten)]
    pub(crate) jobs: JobOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct JobsShow {
    /// The job's number
    pub(crate) id: i64,
    /// Print what the model said where nothing could be decided
    #[arg(long)]
    pub(crate) undecided: bool,
    /// How many failed or undecided tasks to print
    #[arg(long, default_value_t = 10)]
    pub(crate) show: usize,
    #[command(flatten)]
    pub(crate) jobs: JobOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct JobsNamed {
    /// The job's number
    pub(crate) id: i64,
    #[command(flatten)]
    pub(crate) jobs: JobOptions,
}
