//! Options of the commands that run a model here.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_engine::{Device, Precision};

use super::pool::Augmentation;
use super::{Input, OnError, Output, format};
use gradus_data::readers::Format;

/// Which model runs, and how.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelOptions {
    /// A LoRA adapter folder (PEFT layout) to put on top of the model
    #[arg(long, value_name = "FOLDER")]
    pub(crate) adapter: Option<PathBuf>,
    /// Where it runs: cpu, cuda, cuda:1, metal
    #[arg(long, default_value = "cpu")]
    pub(crate) device: Device,
    /// Arithmetic of matrix products: f32, bf16x3 (by default for f32 and f16 weights) or bf16 (for the rest)
    #[arg(long)]
    pub(crate) precision: Option<Precision>,
    /// Expand quantised weights when they are loaded (more memory); GPUs do so anyway
    #[arg(long)]
    pub(crate) dequantise: bool,
    /// Keep quantised weights quantised on a GPU, too
    #[arg(long, conflicts_with = "dequantise")]
    pub(crate) keep_quantised: bool,
    /// Most tokens that go through the model at once
    #[arg(long, default_value_t = 4096, value_name = "TOKENS", value_parser = at_least_one)]
    pub(crate) token_budget: usize,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus score solutions.jsonl\n  gradus score data.jsonl --model ./Qwen2.5-Math-PRM-7B -o scored.jsonl --json\n  gradus score data.jsonl --model ./my-retrieval-prm --pool math.pool -o scored.jsonl"
)]
pub(crate) struct Score {
    #[command(flatten)]
    pub(crate) input: Input,
    /// A model's name, folder or .gguf file (see gradus models list); by default gradus-prm, the reward model that the program carries
    /// (on smollm2-135m), or with --adapter, --profile or --pool smollm2-135m itself
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// What the model expects: a built-in profile or a .toml file; by default `retrieval-prm` with --pool, else told from
    /// the checkpoint, else `plain`
    #[arg(short, long)]
    pub(crate) profile: Option<String>,
    /// Write the dataset with the scores here, in our own format; a run that was cut short goes on where it was
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The scores' name in the dataset; by default model and profile
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// A step with a lower score is suspected to be wrong
    #[arg(long, default_value_t = 0.5)]
    pub(crate) threshold: f64,
    /// How many solutions to print step by step
    #[arg(long, default_value_t = 5)]
    pub(crate) show: usize,
    /// Process every step's prompt by itself: slower, the same scores; to measure what sharing gives
    #[arg(long)]
    pub(crate) no_tree_packing: bool,
    #[command(flatten)]
    pub(crate) augmentation: Augmentation,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus generate 'What is 17 + 25?' --model smollm2-135m\n  \
gradus generate --raw 'Once upon a time' -n 4 --temperature 0.8 --seed 7\n  \
gradus generate 'Name a city.' --schema '{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"}},\"required\":[\"city\"]}'")]
pub(crate) struct Generate {
    /// What to answer or continue; without it, standard input
    pub(crate) prompt: Option<String>,
    /// A model's name, folder or .gguf file (see gradus models list)
    #[arg(short, long, default_value = "smollm2-135m")]
    pub(crate) model: String,
    /// Continue the prompt as it is, without the model's chat template
    #[arg(long, conflicts_with = "system")]
    pub(crate) raw: bool,
    /// A system message
    #[arg(long)]
    pub(crate) system: Option<String>,
    /// Independent samples
    #[arg(short = 'n', long, default_value_t = 1, value_parser = at_least_one)]
    pub(crate) samples: usize,
    /// Most tokens of a sample
    #[arg(long, default_value_t = 512, value_parser = at_least_one)]
    pub(crate) max_tokens: usize,
    /// 0 always takes the most probable token
    #[arg(short, long, default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Only the most probable tokens whose probabilities add up to this
    #[arg(long, default_value_t = 1.0)]
    pub(crate) top_p: f32,
    /// Only this many of the most probable tokens; 0 is all
    #[arg(long, default_value_t = 0)]
    pub(crate) top_k: usize,
    /// Only tokens at least this share as probable as the most probable one
    #[arg(long, default_value_t = 0.0)]
    pub(crate) min_p: f32,
    /// Makes tokens that were seen less probable; 1 is off
    #[arg(long, default_value_t = 1.0)]
    pub(crate) repetition_penalty: f32,
    /// A text that ends a sample; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// The same seed gives the same text; sample i uses seed + i
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// The output is JSON that satisfies this schema: a file, or the schema itself
    #[arg(long, value_name = "SCHEMA", conflicts_with = "regex")]
    pub(crate) schema: Option<String>,
    /// The output matches this regular expression
    #[arg(long)]
    pub(crate) regex: Option<String>,
    /// With --json: token log-probabilities too
    #[arg(long, requires = "json")]
    pub(crate) logprobs: bool,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// What `gradus embed` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EmbedTable {
    /// One JSON object a line: text and vector
    Jsonl,
    /// Cosine similarities of all pairs
    Similarity,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus embed 'a cat' 'a dog' 'a theorem' --as similarity\n  \
gradus embed --data problems.jsonl -o problems.npy\n  gradus embed < lines.txt")]
pub(crate) struct Embed {
    /// Texts; without any, the lines of standard input
    pub(crate) texts: Vec<String>,
    /// Embed the problems of these datasets instead
    #[arg(long, value_name = "INPUT", num_args = 1.., conflicts_with = "texts")]
    pub(crate) data: Vec<PathBuf>,
    /// With --data: the inputs' format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// A model's name or folder (see gradus models list); a decoder's embedding is the mean of its hidden states
    #[arg(short, long, default_value = "all-minilm-l6-v2")]
    pub(crate) model: String,
    /// Write here instead of to standard output; a name in .npy makes a NumPy array
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// What to print
    #[arg(long = "as", value_enum, default_value = "jsonl", conflicts_with = "output")]
    pub(crate) table: EmbedTable,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus perplexity 'The sky is blue.'\n  gradus perplexity 'It is 42.' --prompt 'What is 6 × 7?'\n  \
gradus perplexity --data solutions.jsonl -o with-perplexity.jsonl"
)]
pub(crate) struct Perplexity {
    /// The text; without it, standard input
    #[arg(conflicts_with = "data")]
    pub(crate) text: Option<String>,
    /// What the text answers; the model's chat template goes around it
    #[arg(long, conflicts_with = "data")]
    pub(crate) prompt: Option<String>,
    /// The perplexity of every solution of these datasets, given its problem
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// With --data: the inputs' format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read, or a solution that does not fit the model
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// With --data: write the dataset here, with `perplexity` among each solution's metadata
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(crate) output: Option<PathBuf>,
    /// A model's name, folder or .gguf file (see gradus models list)
    #[arg(short, long, default_value = "smollm2-135m")]
    pub(crate) model: String,
    /// Print every token with its log-probability
    #[arg(long, conflicts_with = "data")]
    pub(crate) tokens: bool,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a whole number of at least 1")),
        Ok(number) => Ok(number),
    }
}
