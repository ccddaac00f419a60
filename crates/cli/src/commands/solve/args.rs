//! Arguments of `gradus solve`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_backend::{EndpointSettings, GeneratorSettings, ScoreApi};
use gradus_core::select::Aggregation;
use gradus_core::select::vote::Power;

use crate::arguments::JsonOption;
use crate::arguments::dataset::DatasetOption;
use crate::arguments::values::{at_least_one, cache_size, count};

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
gradus solve 'What is 17 + 25?' --strategy majority --endpoint http://localhost:8000 --model my-model\n  \
gradus solve --data problems.jsonl --endpoint http://localhost:8000 --model my-model --scorer-endpoint http://localhost:8001 --scorer my-prm -o solved.jsonl\n\n\
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
    pub(super) generator: GeneratorSettings,
    #[command(flatten)]
    pub(super) scorer: ScorerArgs,
    #[command(flatten)]
    pub(super) print: JsonOption,
}

/// Size of the search.
#[derive(Debug, Args)]
#[command(next_help_heading = "Search")]
pub(in crate::commands) struct SearchOptions {
    /// best-of-n, vote, majority: number of solutions (default: 8)
    #[arg(short = 'n', long = "solutions", value_name = "N", value_parser = count)]
    pub(super) n: Option<usize>,
    /// greedy, best-of-n, vote, majority: maximum tokens per completion (default: 1024)
    #[arg(long, value_name = "TOKENS", value_parser = at_least_one)]
    pub(super) max_tokens: Option<usize>,
    /// beam: beam width (default: 4)
    #[arg(long, alias = "width", value_name = "N", value_parser = count)]
    pub(super) beam_width: Option<usize>,
    /// tree: number of subtrees (default: 4)
    #[arg(long, value_name = "N", value_parser = count)]
    pub(super) trees: Option<usize>,
    /// beam, tree: candidates sampled per step (default: 4)
    #[arg(long, value_name = "N", value_parser = count)]
    pub(super) expansions: Option<usize>,
    /// beam, tree: maximum steps per solution (default: 40)
    #[arg(long, value_name = "N", value_parser = count)]
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

/// The reward model. The generator's options have no prefix.
#[derive(Debug, Args)]
#[command(next_help_heading = "Reward model")]
pub(crate) struct ScorerArgs {
    /// Process reward model or adapter folder (default: gradus-prm; with --profile, the generator; with
    /// --scorer-adapter, its base); with --scorer-endpoint, the model's name on the server
    #[arg(long, value_name = "MODEL")]
    pub(super) scorer: Option<String>,
    /// Scoring profile: a built-in name or a .toml file (default: the one that the model was trained with, else detected
    /// from the checkpoint, else plain; with --scorer-endpoint, qwen2.5-math-prm)
    #[arg(short, long)]
    pub(super) profile: Option<String>,
    /// LoRA adapter folder to apply to the reward model
    #[arg(long, value_name = "FOLDER", conflicts_with = "scorer_endpoint")]
    pub(super) scorer_adapter: Option<PathBuf>,
    /// Base URL of a server that runs the reward model; repeat to share the load among servers of the same model
    #[arg(long, value_name = "URL")]
    pub(super) scorer_endpoint: Vec<String>,
    /// With --scorer-endpoint, API of the server
    #[arg(long, value_enum, default_value = "pooling", requires = "scorer_endpoint")]
    pub(super) scorer_api: ScoreApi,
    /// With --scorer-endpoint, local model with the same tokenizer, for profiles whose prompts are sent as token ids
    #[arg(long, value_name = "MODEL", requires = "scorer_endpoint")]
    pub(super) scorer_tokenizer: Option<String>,
    /// With --scorer-endpoint, environment variable that holds the API key
    #[arg(long, value_name = "VARIABLE", requires = "scorer_endpoint")]
    pub(super) scorer_key_env: Option<String>,
    /// With --scorer-endpoint, file that holds the API key
    #[arg(long, value_name = "FILE", requires = "scorer_endpoint", conflicts_with = "scorer_key_env")]
    pub(super) scorer_key_file: Option<PathBuf>,
    /// With --scorer-endpoint, maximum concurrent requests per server (default: 16)
    #[arg(long, value_name = "N", requires = "scorer_endpoint", value_parser = at_least_one)]
    pub(super) scorer_concurrency: Option<usize>,
    /// With --scorer-endpoint, maximum requests per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "scorer_endpoint")]
    pub(super) scorer_requests_per_minute: Option<f64>,
    /// With --scorer-endpoint, maximum tokens per minute per server (default: unlimited)
    #[arg(long, value_name = "N", requires = "scorer_endpoint")]
    pub(super) scorer_tokens_per_minute: Option<f64>,
    /// With --scorer-endpoint, request timeout in seconds (default: 600)
    #[arg(long, value_name = "SECONDS", requires = "scorer_endpoint")]
    pub(super) scorer_timeout: Option<f64>,
    /// With --scorer-endpoint, maximum retries per request (default: 5)
    #[arg(long, value_name = "N", requires = "scorer_endpoint")]
    pub(super) scorer_retries: Option<u32>,
    /// With --scorer-endpoint, response cache folder (default: answers/ in the Gradus home folder)
    #[arg(long, value_name = "FOLDER", requires = "scorer_endpoint")]
    pub(super) scorer_cache: Option<PathBuf>,
    /// With --scorer-endpoint, maximum size of the response cache, such as 20GB, remembered with its folder; the least
    /// recently used responses are removed (default: 10GB)
    #[arg(long, value_name = "SIZE", value_parser = cache_size, requires = "scorer_endpoint")]
    pub(super) scorer_cache_size: Option<u64>,
    /// With --scorer-endpoint, disable the response cache
    #[arg(long, requires = "scorer_endpoint", conflicts_with_all = ["scorer_cache", "scorer_cache_size"])]
    pub(super) scorer_no_cache: bool,
}

impl ScorerArgs {
    /// The servers of the reward model.
    pub(super) fn endpoints(&self) -> EndpointSettings {
        EndpointSettings {
            endpoint: self.scorer_endpoint.clone(),
            key_env: self.scorer_key_env.clone(),
            key_file: self.scorer_key_file.clone(),
            concurrency: self.scorer_concurrency,
            requests_per_minute: self.scorer_requests_per_minute,
            tokens_per_minute: self.scorer_tokens_per_minute,
            timeout: self.scorer_timeout,
            retries: self.scorer_retries,
            cache: self.scorer_cache.clone(),
            cache_size: self.scorer_cache_size,
            no_cache: self.scorer_no_cache,
            ..EndpointSettings::default()
        }
    }
}

fn separator(text: &str) -> Result<String, String> {
    let text = text.replace(r"\n", "\n").replace(r"\t", "\t");
    if text.is_empty() {
        Err("it is empty: expected the text between two steps".to_owned())
    } else {
        Ok(text)
    }
}
