//! Options of `gradus solve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_core::select::Aggregation;
use gradus_core::select::vote::Power;
use gradus_data::readers::Format;

use super::engine::{ModelOptions, at_least_one};
use super::{OnError, Output, format};

/// How a solution is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// One solution, always the most probable token; needs no reward model
    Greedy,
    /// N solutions, and the one with the highest score
    BestOfN,
    /// N solutions, and the answer with the largest sum of scores
    Vote,
    /// N solutions, and the answer that most of them give; needs no reward model
    Majority,
    /// Step by step: the best few partial solutions go on
    Beam,
    /// Several searches step by step that know nothing of each other (DVTS), and the best of their solutions
    Tree,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus solve 'What is 17 + 25?' --strategy best-of-n -n 8\n  \
gradus solve --data problems.jsonl --strategy beam --model ./solver --scorer ./Qwen2.5-Math-PRM-7B -o solved.jsonl\n  \
gradus solve 'What is 17 + 25?' --strategy majority --endpoint http://localhost:8000 --model my-model\n\n\
Steps end at the separator; a solution is complete when it states its answer, or when the model ends it. An option that the \
strategy has no use for is refused.")]
pub(crate) struct Solve {
    /// The problem; without it, standard input
    #[arg(conflicts_with = "data")]
    pub(crate) problem: Option<String>,
    /// How a solution is found
    #[arg(short, long, value_enum, default_value = "best-of-n")]
    pub(crate) strategy: Strategy,
    /// Solve the problems of these datasets
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// With --data: the inputs' format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read, or a problem that the model refuses
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// With --data: write the problems with all complete solutions here, in our own format; a run that was cut short goes
    /// on where it was
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(crate) output: Option<PathBuf>,
    /// With --data: how many problems to print
    #[arg(long, default_value_t = 20, requires = "data")]
    pub(crate) show: usize,
    #[command(flatten)]
    pub(crate) search: SearchOptions,
    #[command(flatten)]
    pub(crate) models: Models,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// How far a search goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub(crate) struct SearchOptions {
    /// best-of-n, vote, majority: how many solutions (8 by default)
    #[arg(short = 'n', long = "solutions", value_name = "N", value_parser = at_least_one)]
    pub(crate) n: Option<usize>,
    /// Whole solutions: most tokens of each (1024 by default)
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) max_tokens: Option<usize>,
    /// beam: how many partial solutions go on after each step (4 by default)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) width: Option<usize>,
    /// tree: how many searches (4 by default)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) trees: Option<usize>,
    /// beam, tree: proposals for each next step (4 by default)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) expansions: Option<usize>,
    /// beam, tree: most steps of a solution (40 by default)
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) max_steps: Option<usize>,
    /// beam, tree: most tokens of a step (512 by default); a step that is cut there is dropped
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) step_tokens: Option<usize>,
    /// Most tokens to generate for a problem, all proposals together; kept to the token
    #[arg(long, value_name = "TOKENS")]
    pub(crate) budget: Option<u64>,
    /// How boldly tokens are drawn (0.8 by default; greedy is 0)
    #[arg(short, long)]
    pub(crate) temperature: Option<f32>,
    /// The same seed gives the same solutions
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// What stands between two steps; \n is a line break, \t a tab
    #[arg(long, value_name = "TEXT", default_value = r"\n\n", value_parser = separator)]
    pub(crate) separator: String,
    /// How step scores become one: last, min, product, mean or norm_product (the geometric mean)
    #[arg(long, default_value = "last")]
    pub(crate) aggregation: Aggregation,
    /// vote: a solution weighs its score raised to this (1 by default): above 1 scores count for more
    #[arg(long, value_name = "POWER")]
    pub(crate) vote_power: Option<Power>,
}

/// Who proposes, and who judges.
#[derive(Debug, Args)]
#[command(next_help_heading = "Models")]
pub(crate) struct Models {
    /// A model's name, folder or .gguf file; smollm2-135m by default. With --endpoint, the server's name for it
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// Generate at this OpenAI-compatible server instead
    #[arg(long, value_name = "URL", conflicts_with = "adapter")]
    pub(crate) endpoint: Option<String>,
    /// With --endpoint: the environment variable that holds its key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub(crate) key_env: Option<String>,
    /// With --endpoint, for beam and tree: a model here that has the served model's chat template
    #[arg(long, value_name = "MODEL", requires = "endpoint", conflicts_with = "raw")]
    pub(crate) template: Option<String>,
    /// A system message
    #[arg(long, conflicts_with = "raw")]
    pub(crate) system: Option<String>,
    /// Give the problem as plain text, without a chat template
    #[arg(long)]
    pub(crate) raw: bool,
    /// The reward model that scores steps; by default gradus-prm, which the program carries, with --profile the generator
    /// itself, with --scorer-adapter its base
    #[arg(long, value_name = "MODEL")]
    pub(crate) scorer: Option<String>,
    /// What the reward model expects: a built-in profile or a .toml file; by default told from the checkpoint, else
    /// `plain`
    #[arg(short, long)]
    pub(crate) profile: Option<String>,
    /// A LoRA adapter folder to put on top of the reward model
    #[arg(long, value_name = "FOLDER")]
    pub(crate) scorer_adapter: Option<PathBuf>,
}

fn separator(text: &str) -> Result<String, String> {
    let text = text.replace(r"\n", "\n").replace(r"\t", "\t");
    if text.is_empty() {
        Err("it is empty: expected the text between two steps".to_owned())
    } else {
        Ok(text)
    }
}
