//! Options of `gradus select`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use gradus_core::select::Aggregation;
use gradus_core::select::vote::Power;

use super::engine::at_least_one;
use super::{Input, Output};

/// How one of a problem's solutions is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// The solution with the highest score
    Best,
    /// The answer with the largest sum of scores
    Vote,
    /// The answer that most solutions give; needs no scores
    Majority,
    /// All three side by side
    All,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus select scored.jsonl\n  \
gradus select scored.jsonl --by vote --aggregation min --vote-power 4 -n 8 -o chosen.jsonl\n  \
gradus select candidates.jsonl.gz --scores my-prm --by all --show 0\n\n\
Records of the same problem are put together. Answers are equal when the grader says so; among equals the earliest \
solution wins.")]
pub(crate) struct Select {
    #[command(flatten)]
    pub(crate) input: Input,
    /// How to choose
    #[arg(long, value_enum, default_value = "best")]
    pub(crate) by: By,
    /// The name of the step scores to choose by; by default the only one that the data has
    #[arg(long, value_name = "NAME")]
    pub(crate) scores: Option<String>,
    /// How step scores become one: last, min, product, mean or norm_product (the geometric mean)
    #[arg(long, default_value = "last")]
    pub(crate) aggregation: Aggregation,
    /// A solution weighs its score raised to this in a vote (1 by default): above 1 scores count for more, towards the best
    /// solution; below 1 for less, towards the majority
    #[arg(long, value_name = "POWER")]
    pub(crate) vote_power: Option<Power>,
    /// Only the first N solutions of each problem
    #[arg(short = 'n', long = "first", value_name = "N", value_parser = at_least_one)]
    pub(crate) first: Option<usize>,
    /// Write the dataset with only the chosen solution of each problem here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How many problems to print; --json prints all
    #[arg(long, default_value_t = 20)]
    pub(crate) show: usize,
    #[command(flatten)]
    pub(crate) print: Output,
}
