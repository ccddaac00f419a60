//! Options of `gradus pool`, and of every command that retrieves from a pool.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gradus_retrieve::two_stage;

use super::engine::{ModelOptions, at_least_one};
use super::{Input, OnError, Output, format};
use gradus_data::readers::Format;

#[derive(Debug, Subcommand)]
pub(crate) enum PoolCommand {
    /// Make a pool of questions and steps from labelled or solved problems
    Build(PoolBuild),
    /// Add problems to a pool; what is in it is not embedded again
    Add(PoolAdd),
    /// Say what is in a pool, and check its files
    Stats(PoolStats),
    /// Find the nearest questions, and for the solutions of datasets the nearest steps, too
    Search(PoolSearch),
    /// Write training examples with their references
    Examples(PoolExamples),
    /// Say how far apart datasets are, with a picture
    Map(PoolMap),
}

/// Which vectors a pool keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Dimensions {
    /// This many principal components.
    Fixed(usize),
    /// As many as explain this share of the variance.
    Explained(f64),
    /// The encoder's own.
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus pool build math-train.jsonl prm800k.jsonl -o math.pool\n  \
gradus pool build data.jsonl -o data.pool --dimensions 95%\n  \
gradus pool build data.jsonl -o data.pool --encoder smollm2-135m   # a decoder's mean hidden state\n\n\
A build that was cut short goes on where it was when the same command is given again.")]
pub(crate) struct PoolBuild {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The pool's folder, which must not exist
    #[arg(short, long, value_name = "POOL")]
    pub(crate) output: PathBuf,
    /// The model that turns texts into vectors: a name or a folder (see gradus models list)
    #[arg(short, long, default_value = "all-minilm-l6-v2", value_name = "MODEL")]
    pub(crate) encoder: String,
    /// Principal components to keep: a number, a share of the variance such as 95%, or `all` for the encoder's own vectors
    #[arg(long, default_value = "128", value_parser = dimensions)]
    pub(crate) dimensions: Dimensions,
    #[command(flatten)]
    pub(crate) growth: Growth,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gradus pool add new.jsonl --pool math.pool")]
pub(crate) struct PoolAdd {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) pool: PoolOption,
    #[command(flatten)]
    pub(crate) growth: Growth,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// What is taken into a pool, and how.
#[derive(Debug, Args)]
pub(crate) struct Growth {
    /// Take labels that models made, too, where a solution has no others
    #[arg(long)]
    pub(crate) any_labels: bool,
    /// Questions from which on they are found through a graph (HNSW): faster, and a few of the nearest are missed
    #[arg(long, default_value_t = 1_000_000, value_name = "QUESTIONS")]
    pub(crate) graph_from: usize,
    /// Texts that the encoder gets at once
    #[arg(long, default_value_t = 256, value_name = "TEXTS", value_parser = at_least_one)]
    pub(crate) batch: usize,
}

/// The pool that a command works with.
#[derive(Debug, Args)]
pub(crate) struct PoolOption {
    /// A pool's folder (see gradus pool build)
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: PathBuf,
    /// Where the pool's encoder is, if not under the name that the pool remembers
    #[arg(long, value_name = "MODEL")]
    pub(crate) encoder: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct PoolStats {
    /// A pool's folder
    pub(crate) pool: PathBuf,
    /// Compare every file with its checksum, however large the pool is
    #[arg(long)]
    pub(crate) verify: bool,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus pool search 'How many apples are left?' --pool math.pool -k 5\n  \
gradus pool search --data solutions.jsonl --pool math.pool -o references.jsonl"
)]
pub(crate) struct PoolSearch {
    /// A question
    #[arg(required_unless_present = "data", conflicts_with = "data")]
    pub(crate) question: Option<String>,
    /// A step to find the nearest steps for; may be given several times
    #[arg(long, value_name = "TEXT", conflicts_with = "data")]
    pub(crate) step: Vec<String>,
    /// Search for the questions and steps of every solution of these datasets
    #[arg(long, value_name = "INPUT", num_args = 1.., requires = "output")]
    pub(crate) data: Vec<PathBuf>,
    /// With --data: the inputs' format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// With --data: write one line per solution here: its references, where they are from, and what the guard kept out
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pool: PoolOption,
    #[command(flatten)]
    pub(crate) retrieval: Retrieval,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// The strategies by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Strategy {
    /// The nearest by the pool's encoder
    Nearest,
    /// The nearest by their words
    TfIdf,
    /// Any, for comparison
    Random,
}

/// What is retrieved.
#[derive(Debug, Args)]
#[command(next_help_heading = "Retrieval")]
pub(crate) struct Retrieval {
    /// Reference questions of a solution; 0 for none
    #[arg(short = 'k', long, default_value_t = 2, value_name = "K", requires = "pool")]
    pub(crate) questions: usize,
    /// Reference steps of each step; 0 for none
    #[arg(short = 'r', long, default_value_t = 1, value_name = "R", requires = "pool")]
    pub(crate) steps: usize,
    /// Nearest questions whose solutions' steps are searched
    #[arg(long, default_value_t = 10, value_name = "M", value_parser = at_least_one, requires = "pool")]
    pub(crate) database: usize,
    /// How references are chosen
    #[arg(long, value_enum, default_value = "nearest", requires = "pool")]
    pub(crate) strategy: Strategy,
    /// With --strategy random: another seed makes another choice
    #[arg(long, default_value_t = 0, value_name = "SEED", requires = "pool")]
    pub(crate) retrieval_seed: u64,
    /// A question with this share of word shingles in common is the target's own, and never a reference
    #[arg(
        long,
        default_value_t = 0.8,
        value_name = "SHARE",
        conflicts_with = "allow_duplicates",
        requires = "pool"
    )]
    pub(crate) near: f64,
    /// A question with this cosine similarity is the target's own, and never a reference
    #[arg(
        long,
        default_value_t = 0.98,
        value_name = "COSINE",
        conflicts_with = "allow_duplicates",
        requires = "pool"
    )]
    pub(crate) cosine: f32,
    /// Let the target's own question be a reference: its answer leaks
    #[arg(long, requires = "pool")]
    pub(crate) allow_duplicates: bool,
}

impl Retrieval {
    pub(crate) fn settings(&self) -> two_stage::Settings {
        two_stage::Settings {
            questions: self.questions,
            database: self.database,
            steps: self.steps,
            strategy: match self.strategy {
                Strategy::Nearest => two_stage::Strategy::Nearest,
                Strategy::TfIdf => two_stage::Strategy::TfIdf,
                Strategy::Random => two_stage::Strategy::Random { seed: self.retrieval_seed },
            },
            near: self.near,
            cosine: self.cosine,
            allow_duplicates: self.allow_duplicates,
            ..two_stage::Settings::default()
        }
    }
}

/// A pool that a command may retrieve from.
#[derive(Debug, Args)]
#[command(next_help_heading = "Retrieval")]
pub(crate) struct Augmentation {
    /// Score with similar solved questions and steps from this pool (see gradus pool build)
    #[arg(long, value_name = "POOL")]
    pub(crate) pool: Option<PathBuf>,
    /// Where the pool's encoder is, if not under the name that the pool remembers
    #[arg(long, value_name = "MODEL", requires = "pool")]
    pub(crate) encoder: Option<String>,
    #[command(flatten)]
    pub(crate) retrieval: Retrieval,
}

/// What `gradus pool examples` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExampleForm {
    /// A conversation per step, answered with + or -
    Chat,
    /// The dataset with references at each solution, for gradus train (all steps of a solution in one pass)
    Records,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus pool examples labelled.jsonl --pool math.pool -o train.jsonl\n  \
gradus pool examples labelled.jsonl --pool math.pool -o ablation.jsonl -k 0        # reference steps only\n  \
gradus pool examples labelled.jsonl --pool math.pool -o plain.jsonl -k 0 -r 0     # no references: the plain prompt"
)]
pub(crate) struct PoolExamples {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) pool: PoolOption,
    /// Where to write; .json, .jsonl and .parquet, .gz and .zst are told from the name
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// What to write
    #[arg(long = "as", value_enum, default_value = "chat")]
    pub(crate) form: ExampleForm,
    /// With --as chat: the prompts' profile; by default retrieval-prm, and plain with neither questions nor steps
    #[arg(short, long)]
    pub(crate) profile: Option<String>,
    /// With --as chat: leave out steps labelled neutral instead of calling them right
    #[arg(long)]
    pub(crate) skip_neutral: bool,
    /// Take labels that models made, too, where a solution has no others
    #[arg(long)]
    pub(crate) any_labels: bool,
    #[command(flatten)]
    pub(crate) retrieval: Retrieval,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// How points become a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// The two directions in which they differ most; true distances, much overlap
    Pca,
    /// Neighbours stay neighbours; distances between groups mean little
    Tsne,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gradus pool map gsm8k.jsonl math.jsonl olympiadbench.jsonl -o map.html")]
pub(crate) struct PoolMap {
    /// Datasets, each a file or a folder: each is measured from each
    #[arg(required = true, num_args = 2.., value_name = "DATASET")]
    pub(crate) datasets: Vec<PathBuf>,
    /// The page to write
    #[arg(short, long, value_name = "FILE", default_value = "map.html")]
    pub(crate) output: PathBuf,
    /// The model that turns texts into vectors
    #[arg(short, long, default_value = "all-minilm-l6-v2", value_name = "MODEL")]
    pub(crate) encoder: String,
    /// Most questions of each dataset, evenly taken from all
    #[arg(long, default_value_t = 500, value_parser = at_least_one)]
    pub(crate) questions: usize,
    /// Most steps of each dataset, evenly taken from all; 0 leaves steps out
    #[arg(long, default_value_t = 1000)]
    pub(crate) steps: usize,
    /// How the picture is laid out
    #[arg(long, value_enum, default_value = "tsne")]
    pub(crate) layout: Layout,
    /// With --layout tsne: another seed makes another picture
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// With --layout tsne: about how many neighbours a point has
    #[arg(long, default_value_t = 30.0)]
    pub(crate) perplexity: f32,
    /// What to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) on_error: OnError,
    #[command(flatten)]
    pub(crate) options: ModelOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

fn dimensions(text: &str) -> Result<Dimensions, String> {
    if text == "all" {
        return Ok(Dimensions::All);
    }
    let wrong = || format!("`{text}` is not a number, a share such as 95%, or `all`");
    if let Some(share) = text.strip_suffix('%') {
        let share: f64 = share.trim().parse().map_err(|_| wrong())?;
        return match share > 0.0 && share < 100.0 {
            true => Ok(Dimensions::Explained(share / 100.0)),
            false => Err(format!("`{text}` is not a share between 0% and 100%")),
        };
    }
    at_least_one(text).map(Dimensions::Fixed).map_err(|_| wrong())
}
