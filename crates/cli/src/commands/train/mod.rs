//! `gradus train`: training runs from recipes, recipes for trainers elsewhere, the critics' training set, curves.

mod critic_data;
mod display;
mod export;
mod objective;
pub(super) mod plot;

use anyhow::Result;
use clap::Subcommand;

use crate::exit::Status;

#[derive(Debug, Subcommand)]
pub(super) enum TrainCommand {
    /// Supervised fine-tuning (SFT) on completions
    #[command(after_help = objective::examples("sft"))]
    Sft(objective::TrainArgs),
    /// Train a process reward model on step labels
    #[command(after_help = objective::examples("prm"))]
    Prm(objective::TrainArgs),
    /// Train an outcome reward model on solution labels
    #[command(after_help = objective::examples("orm"))]
    Orm(objective::TrainArgs),
    /// Train on preference pairs with odds ratio preference optimization (ORPO)
    #[command(after_help = objective::examples("orpo"))]
    Orpo(objective::TrainArgs),
    /// Train a critic with group relative policy optimization (GRPO)
    #[command(after_help = objective::examples("grpo"))]
    Grpo(objective::TrainArgs),
    /// Write a recipe's data, first weights and a training script for PyTorch on several GPUs
    #[command(after_help = export::EXAMPLES)]
    Export(export::ExportArgs),
    /// Build a balanced and filtered training set for critics
    CriticData(Box<critic_data::CriticDataArgs>),
    /// Plot the training curves of runs as an HTML page
    Plot(plot::PlotArgs),
}

pub(super) fn run(command: &TrainCommand) -> Result<Status> {
    match command {
        TrainCommand::Sft(args) => objective::run("sft", args),
        TrainCommand::Prm(args) => objective::run("prm", args),
        TrainCommand::Orm(args) => objective::run("orm", args),
        TrainCommand::Orpo(args) => objective::run("orpo", args),
        TrainCommand::Grpo(args) => objective::run("grpo", args),
        TrainCommand::Export(args) => export::run(args),
        TrainCommand::CriticData(args) => critic_data::run(args),
        TrainCommand::Plot(args) => plot::run(args),
    }
}
