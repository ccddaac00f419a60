//! `gradus annotate`: step labels from models, and their combination.
//!
//! `monte_carlo`, `judge` and `reference` ask a model and share `labeling`; `consensus`, `ensemble` and `report` read
//! labels that are in data, by `sources`; `exact` asks nobody and `relabel` applies another threshold to Monte Carlo's; `export` writes training
//! sets.

mod consensus;
mod ensemble;
mod exact;
mod export;
mod judge;
mod labeling;
mod monte_carlo;
mod reference;
mod relabel;
mod report;
mod sources;
mod summary;

use anyhow::Result;
use clap::Subcommand;
use gradus_backend::GeneratorSettings;

use crate::exit::Status;
use crate::job::TaskSource;

#[derive(Debug, Subcommand)]
pub(super) enum AnnotateCommand {
    /// Label steps by Monte Carlo rollouts: the share of completions that reach the gold answer
    MonteCarlo(Box<monte_carlo::MonteCarloArgs>),
    /// Label steps with an LLM judge that locates the first error
    Judge(Box<judge::JudgeArgs>),
    /// Label all steps in one request by comparison with a reference solution
    Reference(Box<reference::ReferenceArgs>),
    /// Label steps whose arithmetic is proved wrong, without a model
    Exact(exact::ExactArgs),
    /// Apply another threshold to Monte Carlo labels without sampling again
    Relabel(relabel::RelabelArgs),
    /// Keep solutions on which all annotators agree
    Consensus(consensus::ConsensusArgs),
    /// Combine the labels of several annotators
    Ensemble(ensemble::EnsembleArgs),
    /// Compare annotators: agreement, overlap and cost
    Report(report::ReportArgs),
    /// Export labels as a training set
    Export(export::ExportArgs),
}

impl AnnotateCommand {
    /// The model that is asked; none for commands that ask none.
    pub(super) fn generator(&mut self) -> Option<&mut GeneratorSettings> {
        match self {
            Self::MonteCarlo(args) => Some(&mut args.generator),
            Self::Judge(args) => Some(&mut args.generator),
            Self::Reference(args) => Some(&mut args.generator),
            Self::Exact(_)
            | Self::Relabel(_)
            | Self::Consensus(_)
            | Self::Ensemble(_)
            | Self::Report(_)
            | Self::Export(_) => None,
        }
    }
}

pub(super) fn run(command: &AnnotateCommand, source: TaskSource<'_>) -> Result<Status> {
    match command {
        AnnotateCommand::MonteCarlo(args) => monte_carlo::run(args, source),
        AnnotateCommand::Judge(args) => judge::run(args, source),
        AnnotateCommand::Reference(args) => reference::run(args, source),
        AnnotateCommand::Exact(args) => exact::run(args),
        AnnotateCommand::Relabel(args) => relabel::run(args),
        AnnotateCommand::Consensus(args) => consensus::run(args),
        AnnotateCommand::Ensemble(args) => ensemble::run(args),
        AnnotateCommand::Report(args) => report::run(args),
        AnnotateCommand::Export(args) => export::run(args),
    }
}
