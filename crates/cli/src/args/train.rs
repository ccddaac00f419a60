//! Options of `gradus train`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::engine::ModelOptions;
use super::{Input, Output};

#[derive(Debug, Subcommand)]
pub(crate) enum TrainCommand {
    /// Learn to give given answers (supervised fine-tuning)
    Sft(Train),
    /// Learn whether each step is right (process reward model)
    Prm(Train),
    /// Learn whether a solution is right (outcome reward model)
    Orm(Train),
    /// Learn to prefer right solutions over wrong ones (odds ratio preference optimisation)
    Orpo(Train),
    /// Learn to criticise solutions from rewards (group relative policy optimisation)
    Grpo(Train),
    /// Build the training set of critics: balanced, filtered, with perplexities
    CriticData(CriticData),
    /// Draw the curves of one or more runs as a web page
    Plot(Plot),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus train prm recipes/tiny/prm.toml -o runs/first\n  \
gradus train prm recipes/tiny/prm.toml -o runs/second --set optimiser.learning_rate=1e-4 --set seed=1\n\n\
A run that was cut short goes on when the same command is given again.")]
pub(crate) struct Train {
    /// What is trained on what, and how (TOML; see recipes/)
    pub(crate) recipe: PathBuf,
    /// Changes a setting of the recipe, such as lora.rank=16; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// The run's folder: metrics, checkpoints, the result; by default runs/ and the recipe's name
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct CriticData {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Where to write the training set (JSONL)
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Take first errors from this reward model's scores in the data, where there are no human labels
    #[arg(long, value_name = "NAME")]
    pub(crate) scores: Option<String>,
    /// The first step with a score below this is the first error
    #[arg(long, default_value_t = 0.8)]
    pub(crate) threshold: f64,
    /// Keep all, instead of as many right as wrong solutions of each generator
    #[arg(long)]
    pub(crate) unbalanced: bool,
    /// Also write ideal answers here, as conversations: what gradus train sft learns before GRPO
    #[arg(long, value_name = "FILE")]
    pub(crate) answers: Option<PathBuf>,
    /// Decides which of too many are left out
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The policy that training starts from: solutions get their perplexity under it
    #[arg(short, long, default_value = "smollm2-135m")]
    pub(crate) model: String,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Plot {
    /// Run folders; their curves share the panels
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where to write the page; by default curves.html in the (first) run's folder
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
