//! The command line, as clap reads it.

pub(crate) mod annotate;
pub(crate) mod bench;
pub(crate) mod engine;
pub(crate) mod generator;
pub(crate) mod jobs;
pub(crate) mod models;
pub(crate) mod pool;
pub(crate) mod select;
pub(crate) mod solve;
pub(crate) mod train;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use gradus_core::steps::Strategy;
use gradus_data::corrupt;
use gradus_data::readers::Format;
use gradus_synth::{ErrorKind, Family, Style};

const EXIT_CODES: &str = "Exit codes:\n  0  done\n  1  done, and the data has problems (data check) or duplicates \
(data dedup without -o)\n  2  the command line is wrong\n  3  the input or output is unusable\n  130  interrupted with Ctrl-C";

/// Process supervision for reasoning language models: label, check, grade and convert step-by-step solutions.
#[derive(Debug, Parser)]
#[command(name = "gradus", version, after_help = EXIT_CODES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Convert, check, count, split and deduplicate datasets
    #[command(subcommand)]
    Data(DataCommand),
    /// Cut free-form solutions into steps
    Steps(Steps),
    /// Find final answers and decide whether they are right
    Grade(Grade),
    /// Write a synthetic world of step-labelled problems
    Synth(Synth),
    /// Draw solutions to problems from a model
    Sample(Box<annotate::Sample>),
    /// Label every step of solutions: Monte Carlo, a judge, a reference, consensus
    #[command(subcommand)]
    Annotate(Box<annotate::AnnotateCommand>),
    /// List, resume and cancel long work
    #[command(subcommand)]
    Jobs(jobs::JobsCommand),
    /// Score every step of solutions with a reward model
    Score(engine::Score),
    /// Choose one of several scored solutions to each problem
    Select(select::Select),
    /// Solve problems with a model: best of N, votes, or a search that a reward model guides
    Solve(Box<solve::Solve>),
    /// Generate text with a model
    Generate(engine::Generate),
    /// Turn texts into vectors
    Embed(engine::Embed),
    /// Ask a model how surprised it is by a text
    Perplexity(engine::Perplexity),
    /// Keep solved problems at hand, and find those that resemble others
    #[command(subcommand)]
    Pool(Box<pool::PoolCommand>),
    /// Train reward models and critics from recipes
    #[command(subcommand)]
    Train(train::TrainCommand),
    /// Measure reward models and critics on benchmarks
    #[command(subcommand)]
    Bench(Box<bench::BenchCommand>),
    /// Fetch models, find them by name, and say what they are
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Convert between dataset formats and file containers
    Convert(Convert),
    /// Read everything and report every fault
    Check(Check),
    /// Count problems, solutions, labels and more
    Stats(Stats),
    /// Split into parts, the same problem always into the same part
    Split(Split),
    /// Find exact and near-duplicate problems
    Dedup(Dedup),
    /// Make wrong solutions out of reference solutions, the place of the error known
    Corrupt(Corrupt),
    /// List the formats that can be read and written
    Formats(Output),
}

/// What to do with a record that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    /// Stop at the first one
    Fail,
    /// Leave it out, count it, and go on
    Skip,
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Files, folders of shards, or - for standard input (JSON, JSONL or Parquet; .gz and .zst too)
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The input's format; by default it is told from the first record
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) from: Option<Format>,
    /// What to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail")]
    pub(crate) on_error: OnError,
}

#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print JSON for machines instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Where to write; .json, .jsonl and .parquet, .gz and .zst are told from the name; - is JSONL on standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The format to write
    #[arg(long, value_name = "FORMAT", default_value = "gradus", value_parser = format)]
    pub(crate) to: Format,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) input: CheckInput,
    #[command(flatten)]
    pub(crate) print: Output,
    /// How many findings to print; --json prints all
    #[arg(long, default_value_t = 20)]
    pub(crate) show: usize,
}

/// Like [`Input`] without `--on-error`: a check goes on by its nature.
#[derive(Debug, Args)]
pub(crate) struct CheckInput {
    /// Files, folders of shards, or - for standard input
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// The input's format; by default it is told from the first record
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    pub(crate) from: Option<Format>,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Split {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Names and shares of the parts, which add up to 1
    #[arg(long, value_name = "NAME=SHARE,…", default_value = "train=0.9,dev=0.05,test=0.05")]
    pub(crate) parts: String,
    /// The folder to write the parts into, as NAME.jsonl
    #[arg(short, long, value_name = "FOLDER")]
    pub(crate) output: PathBuf,
    /// Another seed gives another split
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Dedup {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Look for the input's problems in these files instead of in the input itself; --on-error holds for them too
    #[arg(long, value_name = "FILE")]
    pub(crate) against: Vec<PathBuf>,
    /// Least Jaccard similarity of near-duplicates
    #[arg(long, default_value_t = 0.8)]
    pub(crate) threshold: f64,
    /// A near-duplicate whose numbers differ is another problem: do not report or remove it
    #[arg(long)]
    pub(crate) same_numbers: bool,
    /// Write the records without duplicates here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// How many duplicates to print; --json prints all
    #[arg(long, default_value_t = 20)]
    pub(crate) show: usize,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus data corrupt gsm8k-train.jsonl math-train.jsonl --copies 2 -o corrupted.jsonl\n  \
gradus data corrupt gsm8k-train.jsonl --layouts 2 -o corrupted.jsonl    # the reference also as language models would write it\n  \
gradus data corrupt prm800k.jsonl --solutions -o corrupted.jsonl        # labelled solutions, their right steps corrupted\n\n\
Each problem with a reference solution becomes a record with that solution and its corrupted copies, all steps labelled up to the \
first error. The same problem and seed give the same errors."
)]
pub(crate) struct Corrupt {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Where to write, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Wrong copies of each right solution, where so many can be made
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) copies: usize,
    /// Write each reference in so many more ways, as language models do: longer steps, headings, formulas set apart
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) layouts: usize,
    /// Corrupt the right steps of the labelled solutions that the input holds, not references
    #[arg(long, conflicts_with = "layouts")]
    pub(crate) solutions: bool,
    /// Kinds of error: number, propagated, operator, premise, unit, opposite, contradiction; all by default
    #[arg(long, value_delimiter = ',', value_parser = corruption)]
    pub(crate) kinds: Vec<corrupt::Kind>,
    /// Leave the uncorrupted solutions out
    #[arg(long)]
    pub(crate) only_wrong: bool,
    /// Another seed puts in other errors
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Steps {
    /// A file of plain text, or - for standard input; with --data, datasets whose solutions are to be cut
    #[arg(value_name = "INPUT", default_value = "-")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Where to cut
    #[arg(long, default_value = "auto", value_parser = strategy)]
    pub(crate) strategy: Strategy,
    /// The inputs are datasets: cut every solution that has a text but no steps
    #[arg(long, requires = "output")]
    pub(crate) data: bool,
    /// With --data: the inputs' format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// With --data: cut solutions that have steps anew; their labels and scores are dropped and counted
    #[arg(long, requires = "data")]
    pub(crate) recut: bool,
    /// With --data: where to write the dataset, in our own format
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus grade '\\frac{1}{2}' 0.5\n  gradus grade 72 < solution.txt\n  \
gradus grade --data candidates.jsonl.gz")]
pub(crate) struct Grade {
    /// The right answer
    #[arg(required_unless_present = "data", conflicts_with = "data", allow_hyphen_values = true)]
    pub(crate) gold: Option<String>,
    /// The answer to grade; without it, the final answer is looked for in a solution on standard input
    #[arg(conflicts_with = "data", allow_hyphen_values = true)]
    pub(crate) answer: Option<String>,
    /// Grade every solution of these datasets against its problem's answer
    #[arg(long, value_name = "INPUT", num_args = 1..)]
    pub(crate) data: Vec<PathBuf>,
    /// With --data: the input's format
    #[arg(long, value_name = "FORMAT", value_parser = format, requires = "data")]
    pub(crate) from: Option<Format>,
    /// With --data: what to do with a record that cannot be read
    #[arg(long, value_enum, default_value = "fail", requires = "data")]
    pub(crate) on_error: OnError,
    /// With --data: write the dataset with the outcomes we found here, in our own format
    #[arg(short, long, value_name = "FILE", requires = "data")]
    pub(crate) output: Option<PathBuf>,
    /// With --data: how many disagreements with given outcomes to print; --json prints all
    #[arg(long, default_value_t = 20, requires = "data")]
    pub(crate) show: usize,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
pub(crate) struct Synth {
    /// Where to write, in our own format; - is JSONL on standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Problems to write
    #[arg(short = 'n', long, default_value_t = 100)]
    pub(crate) problems: usize,
    /// Solutions per problem
    #[arg(long, default_value_t = 4)]
    pub(crate) solutions: usize,
    /// Share of solutions with an error
    #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
    pub(crate) wrong: f64,
    /// Share of errors that later steps build on; the others are ignored by later steps
    #[arg(long, default_value_t = 0.7, value_name = "SHARE")]
    pub(crate) propagate: f64,
    /// Least and most difficulty, 1 to 5
    #[arg(long, default_value = "1-5", value_name = "MIN-MAX", value_parser = difficulty)]
    pub(crate) difficulty: (u8, u8),
    /// Problem families; all by default
    #[arg(long, value_delimiter = ',', value_parser = family)]
    pub(crate) families: Vec<Family>,
    /// Solution styles; all by default
    #[arg(long, value_delimiter = ',', value_parser = style)]
    pub(crate) styles: Vec<Style>,
    /// Kinds of error; all by default
    #[arg(long, value_delimiter = ',', value_parser = error_kind)]
    pub(crate) errors: Vec<ErrorKind>,
    /// The same seed writes the same world
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// Finds a thing by its name, and lists the names there are when it is unknown.
fn named<T: Copy>(name: &str, all: &[T], name_of: fn(T) -> &'static str) -> Result<T, String> {
    let found = all.iter().copied().find(|item| name_of(*item) == name);
    found.ok_or_else(|| {
        let known: Vec<_> = all.iter().map(|item| name_of(*item)).collect();
        format!("`{name}` is not one of {}", known.join(", "))
    })
}

fn format(name: &str) -> Result<Format, String> {
    named(name, &Format::ALL, Format::name)
}

fn strategy(name: &str) -> Result<Strategy, String> {
    named(name, &Strategy::ALL, Strategy::name)
}

fn family(name: &str) -> Result<Family, String> {
    named(name, Family::ALL, Family::name)
}

fn style(name: &str) -> Result<Style, String> {
    named(name, Style::ALL, Style::name)
}

fn error_kind(name: &str) -> Result<ErrorKind, String> {
    named(name, ErrorKind::ALL, ErrorKind::name)
}

fn corruption(name: &str) -> Result<corrupt::Kind, String> {
    named(name, &corrupt::Kind::ALL, corrupt::Kind::name)
}

fn difficulty(text: &str) -> Result<(u8, u8), String> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    match (low.parse(), high.parse()) {
        (Ok(low), Ok(high)) => Ok((low, high)),
        _ => Err(format!("`{text}` is not a range such as 1-5")),
    }
}
