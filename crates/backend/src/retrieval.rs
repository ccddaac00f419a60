//! What is retrieved from a pool of solved problems: options of every command that scores with references.

use clap::{Args, ValueEnum};
use gradus_retrieve::pool::PoolAddress;
use gradus_retrieve::two_stage;

use crate::settings::{count, count_or_none};

/// How references are retrieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RetrievalStrategy {
    /// Nearest neighbors by embedding
    Nearest,
    /// Nearest neighbors by TF-IDF
    TfIdf,
    /// Random references, as a baseline; nothing is embedded
    Random,
}

/// What is retrieved.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Retrieval")]
pub struct RetrievalOptions {
    /// Reference questions per solution
    #[arg(short = 'k', long, default_value_t = 2, value_name = "K", requires = "pool", value_parser = count_or_none)]
    pub questions: usize,
    /// Reference steps per solution step
    #[arg(short = 'r', long, default_value_t = 1, value_name = "R", requires = "pool", value_parser = count_or_none)]
    pub reference_steps: usize,
    /// Nearest questions whose steps are searched for reference steps
    #[arg(long, alias = "database", default_value_t = 10, value_name = "M", value_parser = count, requires = "pool")]
    pub candidate_questions: usize,
    /// Retrieval strategy
    #[arg(long, value_enum, default_value = "nearest", requires = "pool")]
    pub strategy: RetrievalStrategy,
    /// Random seed of --strategy random
    #[arg(long, default_value_t = 0, value_name = "SEED", requires = "pool")]
    pub retrieval_seed: u64,
    /// Jaccard similarity from which a question counts as a duplicate of the target and is excluded
    #[arg(
        long,
        alias = "near",
        default_value_t = 0.8,
        value_name = "SHARE",
        conflicts_with = "allow_duplicates",
        requires = "pool"
    )]
    pub jaccard_threshold: f64,
    /// Cosine similarity from which a question counts as a duplicate of the target and is excluded
    #[arg(
        long,
        alias = "cosine",
        default_value_t = 0.98,
        value_name = "COSINE",
        conflicts_with = "allow_duplicates",
        requires = "pool"
    )]
    pub cosine_threshold: f32,
    /// Include duplicates of the target question (leaks its answer)
    #[arg(long, requires = "pool")]
    pub allow_duplicates: bool,
}

impl RetrievalOptions {
    /// The same as settings of the search.
    pub fn settings(&self) -> two_stage::Settings {
        two_stage::Settings {
            questions: self.questions,
            database: self.candidate_questions,
            steps: self.reference_steps,
            strategy: match self.strategy {
                RetrievalStrategy::Nearest => two_stage::Strategy::Nearest,
                RetrievalStrategy::TfIdf => two_stage::Strategy::TfIdf,
                RetrievalStrategy::Random => two_stage::Strategy::Random { seed: self.retrieval_seed },
            },
            near: self.jaccard_threshold,
            cosine: self.cosine_threshold,
            allow_duplicates: self.allow_duplicates,
            ..two_stage::Settings::default()
        }
    }
}

/// A pool that a scoring command may retrieve from.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Retrieval")]
pub struct Augmentation {
    /// Add references retrieved from this pool to the prompts: a folder, or postgres://USER@HOST/DATABASE?pool=NAME (see
    /// gradus pool build)
    #[arg(long, value_name = "POOL")]
    pub pool: Option<PoolAddress>,
    /// Embedding model (default: the one recorded in the pool)
    #[arg(long, value_name = "MODEL", requires = "pool")]
    pub encoder: Option<String>,
    /// What is retrieved.
    #[command(flatten)]
    pub retrieval: RetrievalOptions,
}
