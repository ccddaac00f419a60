//! `gradus bench`: measures a judge on a benchmark, resumable after every judgment.
//!
//! One benchmark per file; `measurement` is what they share: samples, judge, run folder, report.

mod args;
mod best_of_n;
mod compare;
mod critic;
mod drift;
mod judging;
mod labels;
mod measurement;
mod preference;
mod prmbench;
mod processbench;
mod tables;

use anyhow::Result;
use args::BenchArgs;
use clap::Subcommand;
use gradus_bench::Error;

use crate::exit::Status;
use crate::job;
use crate::terminal::printer;

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// ProcessBench: locate the first error of each solution
    #[command(name = "processbench")]
    ProcessBench(processbench::ProcessBenchArgs),
    /// PRMBench: classify every step, by error class
    #[command(name = "prmbench")]
    PrmBench(BenchArgs),
    /// Best-of-N: accuracy of the solution selected among N
    BestOfN(best_of_n::BestOfNArgs),
    /// Preference bias: error rates of a judge by the family of models that wrote the solution
    Preference(Box<preference::PreferenceArgs>),
    /// Agreement of an annotator's labels with human labels
    Labels(labels::LabelsArgs),
    /// Process-to-outcome drift: whether scores follow the steps or the final answer
    Drift(BenchArgs),
    /// Compare finished runs with paired tests
    Compare(compare::CompareArgs),
}

pub(super) fn run(command: &BenchCommand) -> Result<Status> {
    match command {
        BenchCommand::ProcessBench(args) => measured("processbench", &args.bench, || processbench::run(args)),
        BenchCommand::PrmBench(args) => measured("prmbench", args, || prmbench::run(args)),
        BenchCommand::BestOfN(args) => measured("best-of-n", &args.bench, || best_of_n::run(args)),
        BenchCommand::Drift(args) => measured("drift", args, || drift::run(args)),
        BenchCommand::Labels(args) => measured("labels", &args.bench, || labels::run(args)),
        BenchCommand::Preference(args) => match args.measurement() {
            Some(bench) => measured("preference", bench, || preference::run(args)),
            None => stoppable(preference::run(args)),
        },
        BenchCommand::Compare(args) => compare::run(args),
    }
}

/// Runs a benchmark as a job.
fn measured(name: &str, args: &BenchArgs, work: impl FnOnce() -> Result<Status>) -> Result<Status> {
    job::registered(&format!("bench {name}"), args.output.as_deref(), || stoppable(work()))
}

/// Turns a requested stop into an exit status; the run can be resumed.
fn stoppable(result: Result<Status>) -> Result<Status> {
    match result {
        Err(error) if is_stop(&error) => {
            printer::note(error.to_string());
            Ok(Status::Interrupted)
        }
        other => other,
    }
}

fn is_stop(error: &anyhow::Error) -> bool {
    use gradus_retrieve::Error as Retrieval;
    matches!(error.downcast_ref(), Some(Error::Stopped))
        || matches!(error.downcast_ref(), Some(Retrieval::Stopped))
}
