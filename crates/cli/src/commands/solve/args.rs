//! Arguments of `gradus solve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_core::select::Aggregation;
use gradus_core::select::vote::Power;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetOption;
use crate::arguments::model::ModelOptions;
use crate::arguments::values::at_least_one;

/// Search strategies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Strategy {
    /// Greedy decoding: one solution; needs no reward model
    Greedy,
    /// Best-of-N: the solution with the highest score
    BestOfN,
    /// Weighted vote: the answer with the highest total score
    Vote,
    /// Majority vote: the most frequent answer; needs no reward model
    Majority,
    /// Step-level beam search
    Beam,
    /// Diverse verifier tree search (DVTS): independent greedy subtrees
    Tree,
}

#[derive(Debug, Args)]
#[command(mut_arg("data", |arg| arg.help("Solve the problems of these datasets")))]
#[command(mut_arg("on_error", |arg| arg.help("With --data, how to handle invalid records and problems that the model rejects")))]
#[command(after_help = "Examples:\n  gradus solve 'What is 17 + 25?' --strategy best-of-n -n 8\n  \
gradus solve --data problems.jsonl --strategy beam --model ./solver --scorer ./Qwen2.5-Math-PRM-7B -o solved.jsonl\n  \
gradus solve 'What is 17 + 25?' --strategy majority --endpoint http://localhost:8000 --model my-model\n\n\
Steps end at the separator. A solution is complete when it states its answer or the model ends it.")]
pub(crate) struct SolveArgs {
    /// Problem (default: standard input)
    #[arg(conflicts_with = "data")]
    pub(super) problem: Option<String>,
    /// Search strategy
    #[arg(short, long, value_enum, default_value = "best-of-n")]
    pub(super) strategy: Strategy,
    /// With --data, output file with all complete solutions (Gradus format); rerun to resume
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(super) output: Option<PathBuf>,
    /// With --data, maximum problems to print
    #[arg(long, default_value_t = 20, requires = "data")]
    pub(super) show: usize,
    #[command(flatten)]
    pub(super) dataset: DatasetOption,
    #[command(flatten)]
    pub(super) search: SearchOptions,
    #[command(flatten)]
    pub(super) models: ModelArgs,
    #[command(flatten)]
    pub(super) options: ModelOptions,
    #[command(flatten)]
    pub(super) print: JsonOption,
}

/// Size of the search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub(in crate::commands) struct SearchOptions {
    /// best-of-n, vote, majority: number of solutions (default: 8)
    #[arg(short = 'n', long = "solutions", value_name = "N", value_parser = at_least_one)]
    pub(super) n: Option<usize>,
    /// greedy, best-of-n, vote, majority: maximum tokens per completion (default: 1024)
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(super) max_tokens: Option<usize>,
    /// beam: beam width (default: 4)
    #[arg(long, alias = "width", value_name = "N", value_parser = at_least_one)]
    pub(super) beam_width: Option<usize>,
    /// tree: number of subtrees (default: 4)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) trees: Option<usize>,
    /// beam, tree: candidates sampled per step (default: 4)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) expansions: Option<usize>,
    /// beam, tree: maximum steps per solution (default: 40)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(super) max_steps: Option<usize>,
    /// beam, tree: maximum tokens per step; truncated steps are dropped (default: 512)
    #[arg(long, alias = "step-tokens", value_name = "TOKENS", value_parser = at_least_one)]
    pub(super) max_step_tokens: Option<usize>,
    /// Maximum generated tokens per problem (default: unlimited)
    #[arg(long, value_name = "TOKENS")]
    pub(super) budget: Option<u64>,
    /// Sampling temperature (default: 0.8)
    #[arg(short, long)]
    pub(super) temperature: Option<f32>,
    /// Random seed
    #[arg(long, default_value_t = 0)]
    pub(super) seed: u64,
    /// Separator of steps; \n is a line break, \t a tab
    #[arg(long, value_name = "TEXT", default_value = r"\n\n", value_parser = separator)]
    pub(super) separator: String,
    /// Step score aggregation: last, min, product, mean or norm_product (geometric mean)
    #[arg(long, default_value = "last")]
    pub(super) aggregation: Aggregation,
    /// vote: exponent of the scores; above 1 favors high scores (default: 1)
    #[arg(long, value_name = "POWER")]
    pub(super) vote_power: Option<Power>,
}

/// The generator and the reward model.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(crate) struct ModelArgs {
    /// Model name, folder or .gguf file (default: smollm2-135m); with --endpoint, the model's name on the server
    #[arg(short, long)]
    pub(super) model: Option<String>,
    /// Base URL of an OpenAI-compatible server that generates instead
    #[arg(long, value_name = "URL", conflicts_with = "adapter")]
    pub(super) endpoint: Option<String>,
    /// With --endpoint, environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub(super) key_env: Option<String>,
    /// With --endpoint, for beam and tree: local model with the same chat template
    #[arg(long, value_name = "MODEL", requires = "endpoint", conflicts_with = "raw")]
    pub(super) template: Option<String>,
    /// System message
    #[arg(long, conflicts_with = "raw")]
    pub(super) system: Option<String>,
    /// Use plain-text prompts without a chat template
    #[arg(long)]
    pub(super) raw: bool,
    /// Process reward model (default: gradus-prm; with --profile, the generator; with --scorer-adapter, the
    /// generator's base)
    #[arg(long, value_name = "MODEL")]
    pub(super) scorer: Option<String>,
    /// Scoring profile: a built-in name or a .toml file (default: detected from the checkpoint, else plain)
    #[arg(short, long)]
    pub(super) profile: Option<String>,
    /// LoRA adapter folder to apply to the reward model
    #[arg(long, value_name = "FOLDER")]
    pub(super) scorer_adapter: Option<PathBuf>,
}

fn separator(text: &str) -> Result<String, String> {
    let text = text.replace(r"\n", "\n").replace(r"\t", "\t");
    if text.is_empty() {
        Err("it is empty: expected the text between two steps".to_owned())
    } else {
        Ok(text)
    }
}
