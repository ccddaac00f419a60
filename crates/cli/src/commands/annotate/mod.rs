//! `gradus annotate`: step labels from models, and what several of them say together.
//!
//! `label` runs the three annotators that ask a model, `sources` reads those that stand in data, `combine` makes one of
//! several, `report` compares them, `export` writes training sets; `cost` says what it all takes.

mod combine;
pub(super) mod cost;
mod export;
mod label;
mod report;
mod sources;

use anyhow::Result;

use super::Status;
use crate::args::annotate::AnnotateCommand;

pub(super) fn run(command: &AnnotateCommand) -> Result<Status> {
    match command {
        AnnotateCommand::MonteCarlo(args) => label::monte_carlo(args),
        AnnotateCommand::Judge(args) => label::judge(args),
        AnnotateCommand::Reference(args) => label::reference(args),
        AnnotateCommand::Consensus(args) => combine::consensus(args),
        AnnotateCommand::Ensemble(args) => combine::ensemble(args),
        AnnotateCommand::Report(args) => report::run(args),
        AnnotateCommand::Export(args) => export::run(args),
    }
}
