//! Options of `gradus bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gradus_core::select::vote::Power;

use super::engine::ModelOptions;
use super::pool::Augmentation;
use super::{Input, Output};

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Is the first wrong step found, and a right solution left alone?
    #[command(name = "processbench")]
    ProcessBench(Bench),
    /// Is every single step judged right, by class of error?
    #[command(name = "prmbench")]
    PrmBench(Bench),
    /// How good is the answer chosen among N solutions?
    BestOfN(BestOfN),
    /// Whose solutions does a judge favour? Also builds such benchmarks
    Preference(PreferenceCommand),
    /// Do an annotator's labels agree with people's?
    Labels(Labels),
    /// Does a reward model look at the steps, or at the answer?
    Drift(Bench),
    /// Put finished runs side by side, with paired tests
    Compare(Compare),
}

/// What an endpoint speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Api {
    /// vLLM's /pooling with a reward model: one score per step
    Pooling,
    /// A server of scores: POST /v1/score with a problem and its steps
    Score,
    /// An OpenAI-compatible chat model, asked as a critic
    Chat,
}

/// Who is measured.
#[derive(Debug, Args)]
#[command(next_help_heading = "Judge")]
pub(crate) struct JudgeOptions {
    /// A reward model's name, folder or .gguf file; by default gradus-prm, the one that the program carries, and smollm2-135m with
    /// --critic, --profile, --adapter or --pool. With --endpoint, the server's name for it
    #[arg(short, long)]
    pub(crate) model: Option<String>,
    /// What the model expects: a built-in profile or a .toml file; by default `retrieval-prm` with --pool, else told from
    /// the checkpoint, else `plain`
    #[arg(short, long, conflicts_with_all = ["scores", "endpoint"])]
    pub(crate) profile: Option<String>,
    /// The model writes a critique with a verdict instead of scoring steps
    #[arg(long, conflicts_with_all = ["profile", "scores", "endpoint", "pool"])]
    pub(crate) critic: bool,
    /// With --critic or --api chat: most tokens of a critique; a longer one is cut off and counted
    #[arg(long, default_value_t = 512, value_name = "TOKENS")]
    pub(crate) max_tokens: usize,
    /// Use the scores that the data has under this name
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "endpoint", "pool", "adapter", "precision", "dequantise", "keep_quantised"])]
    pub(crate) scores: Option<String>,
    /// Ask a server at this address
    #[arg(long, value_name = "URL", requires = "model", conflicts_with_all = ["adapter", "precision", "dequantise", "keep_quantised"])]
    pub(crate) endpoint: Option<String>,
    /// With --endpoint: what it speaks
    #[arg(long, value_enum, default_value = "pooling", requires = "endpoint")]
    pub(crate) api: Api,
    /// With --endpoint: the environment variable that holds its key
    #[arg(long, value_name = "VARIABLE", requires = "endpoint")]
    pub(crate) key_env: Option<String>,
    /// A step with a score below this is wrong
    #[arg(long, default_value_t = 0.5)]
    pub(crate) threshold: f64,
    /// What the judge is called in the report
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) augmentation: Augmentation,
}

/// What every benchmark has.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus bench processbench gsm8k.json math.json --model ./Qwen2.5-Math-PRM-7B --device cuda\n  \
gradus bench processbench scored.jsonl --scores my-prm --threshold 0.3\n  \
gradus bench best-of-n gsm8k_n32.jsonl.gz                  # all scorers that the file has scores of\n  \
gradus bench prmbench prmbench.jsonl --endpoint http://localhost:8000 --model my-prm\n\n\
A run is a folder with report.html, report.json and every answer; a run that was cut short goes on when the same command \
is given again."
)]
pub(crate) struct Bench {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The run's folder; by default runs/ with the names of benchmark and judge
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Use the answers of this run of the same judge, too, such as those of another benchmark on the same data
    #[arg(long, value_name = "RUN")]
    pub(crate) answers: Vec<PathBuf>,
    /// Only the first N problems of each subset
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Resamples of the bootstrap intervals
    #[arg(long, default_value_t = 1000)]
    pub(crate) resamples: usize,
    /// Another seed draws other resamples
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) judge: JudgeOptions,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct BestOfN {
    /// A candidate weighs its score raised to this in a vote: above 1 scores count for more, towards the best candidate;
    /// below 1 for less, towards the majority
    #[arg(long, value_name = "POWER", default_value_t = Power::ONE)]
    pub(crate) vote_power: Power,
    #[command(flatten)]
    pub(crate) bench: Bench,
}

#[derive(Debug, Args)]
pub(crate) struct Labels {
    /// Take what is true from these files, by solution id, instead of from the input itself
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) bench: Bench,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct PreferenceCommand {
    #[command(subcommand)]
    pub(crate) command: Option<PreferenceTask>,
    #[command(flatten)]
    pub(crate) run: Preference,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PreferenceTask {
    /// Make a benchmark: the same problems and final answers by several families of models, half of them right
    Build(PreferenceBuild),
    /// Bias over perplexity: a line through deciles, from finished runs
    Analyse(PreferenceAnalyse),
}

#[derive(Debug, Args)]
pub(crate) struct Preference {
    /// Do not compute perplexities; those in the data are used all the same
    #[arg(long)]
    pub(crate) no_perplexity: bool,
    /// Compute perplexities under this model; by default the local judge
    #[arg(long, value_name = "MODEL", conflicts_with = "no_perplexity")]
    pub(crate) perplexity_model: Option<String>,
    #[command(flatten)]
    pub(crate) bench: Bench,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus bench preference build gsm8k.jsonl.gz math.jsonl.gz -o ops.jsonl\n  \
gradus bench preference build solutions.jsonl --families llama,qwen,mistral -o ops.jsonl\n\n\
To have a reward model agree with the outcomes: --candidates -o c.jsonl, gradus score c.jsonl -o s.jsonl --name prm,\n\
then build from s.jsonl with --prm prm."
)]
pub(crate) struct PreferenceBuild {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Where to write the benchmark, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// How many families; those with the most problems together are taken
    #[arg(long, default_value_t = 3, conflicts_with = "families")]
    pub(crate) count: usize,
    /// Exactly these families of models, such as llama,qwen,mistral
    #[arg(long, value_delimiter = ',')]
    pub(crate) families: Vec<String>,
    /// Most right units, and most wrong ones
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Leave out solutions whose outcome this reward model's scores in the data contradict
    #[arg(long, value_name = "NAME")]
    pub(crate) prm: Option<String>,
    /// With --prm: a step with a score below this is wrong
    #[arg(long, default_value_t = 0.5, requires = "prm")]
    pub(crate) threshold: f64,
    /// Another seed keeps others where there are more than needed
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Write all usable solutions, cut into steps, instead of a benchmark
    #[arg(long)]
    pub(crate) candidates: bool,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct PreferenceAnalyse {
    /// Folders of finished runs of gradus bench preference
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Take perplexities from this dataset, by solution id (see gradus perplexity --data), instead of from the runs
    #[arg(long, value_name = "FILE")]
    pub(crate) perplexities: Option<PathBuf>,
    /// Where to write the page; by default analysis.html in the first run's folder
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Compare {
    /// Folders of finished runs of one benchmark; the others are compared with the first
    #[arg(required = true, num_args = 2.., value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where to write the page; by default compare.html in the last run's folder
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Resamples of the paired bootstrap
    #[arg(long, default_value_t = 1000)]
    pub(crate) resamples: usize,
    /// Another seed draws other resamples
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) print: Output,
}
