//! Options of `gradus sample` and `gradus annotate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use gradus_core::steps::Strategy;

use super::engine::at_least_one;
use super::generator::{GeneratorOptions, JobOptions};
use super::{Input, Output, strategy};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus sample gsm8k.jsonl -n 8 -o sampled.jsonl\n  \
gradus sample gsm8k.jsonl -n 8 --endpoint http://localhost:8000 --model Qwen/Qwen2.5-7B-Instruct -o sampled.jsonl\n\n\
A run that was cut short goes on where it was: the same command, or gradus jobs resume.")]
pub(crate) struct Sample {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Write the problems with the solutions here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Solutions for each problem
    #[arg(short = 'n', long = "solutions", value_name = "N", default_value_t = 8, value_parser = at_least_one)]
    pub(crate) n: usize,
    /// Most tokens of a solution
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = at_least_one)]
    pub(crate) max_tokens: usize,
    /// How boldly tokens are drawn
    #[arg(short, long, default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// Only the most probable tokens whose probabilities add up to this
    #[arg(long, default_value_t = 1.0)]
    pub(crate) top_p: f32,
    /// A text that ends a solution; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Where solutions are cut into steps
    #[arg(long, default_value = "auto", value_parser = strategy)]
    pub(crate) steps: Strategy,
    /// A template that asks for a solution, in place of ours (variable: problem)
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) run: RunOptions,
    #[command(flatten)]
    pub(crate) generator: GeneratorOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// What every run has.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The same seed gives the same work
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Only the first so many problems
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) limit: Option<usize>,
    /// Leave out what failed at the end, and write the rest
    #[arg(long)]
    pub(crate) skip_failed: bool,
    #[command(flatten)]
    pub(crate) jobs: JobOptions,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AnnotateCommand {
    /// Label steps by whether completions from there reach the right answer
    MonteCarlo(Box<MonteCarlo>),
    /// Label steps by asking a model where the first error is
    Judge(Box<Judge>),
    /// Label steps by comparing them with a reference solution, all in one pass
    Reference(Box<Reference>),
    /// Keep the solutions on which annotators agree
    Consensus(Consensus),
    /// Make one label out of several annotators' labels
    Ensemble(Ensemble),
    /// Compare annotators: agreement, overlap, cost
    Report(Report),
    /// Write labels as a training set
    Export(Export),
}

/// Input and output of the three annotators that ask a model.
#[derive(Debug, Args)]
pub(crate) struct Labelling {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Write the dataset with the labels here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Keep the seconds that each took in the output, which then differs from run to run
    #[arg(long)]
    pub(crate) seconds: bool,
    #[command(flatten)]
    pub(crate) run: RunOptions,
}

/// Which Monte-Carlo labels are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LabelKind {
    /// Correct or not
    Hard,
    /// The share of right completions, too
    Soft,
}

/// In which order Monte Carlo looks at steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchKind {
    /// From the first step on, up to the first incorrect one
    Linear,
    /// Halving; assumes that everything after an incorrect step is incorrect
    Binary,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate monte-carlo sampled.jsonl -o mc.jsonl --samples 8\n  \
gradus annotate monte-carlo sampled.jsonl -o mc.jsonl --labels soft --endpoint http://localhost:8000\n\n\
With hard labels a step is sampled until its label is certain; that changes no label. Nothing after the first incorrect \
step is sampled.")]
pub(crate) struct MonteCarlo {
    #[command(flatten)]
    pub(crate) labelling: Labelling,
    /// Completions of each step
    #[arg(short = 'k', long, default_value_t = 8, value_name = "K")]
    pub(crate) samples: u32,
    /// A step is correct if more completions than this are right
    #[arg(long, default_value_t = 0, value_name = "T")]
    pub(crate) threshold: u32,
    /// Which labels
    #[arg(long, value_enum, default_value = "hard")]
    pub(crate) labels: LabelKind,
    /// In which order steps are looked at
    #[arg(long, value_enum, default_value = "linear")]
    pub(crate) search: SearchKind,
    /// Always draw all completions, even when the label is certain
    #[arg(long)]
    pub(crate) no_early_stop: bool,
    /// Most tokens of a completion
    #[arg(long, value_name = "TOKENS", default_value_t = 1024, value_parser = at_least_one)]
    pub(crate) max_tokens: usize,
    /// How boldly tokens are drawn
    #[arg(short, long, default_value_t = 0.8)]
    pub(crate) temperature: f32,
    /// A template that asks for a solution, in place of ours (variable: problem)
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
    /// A template that asks a server to go on with a solution, in place of ours (variables: problem, begun)
    #[arg(long, value_name = "FILE", requires = "endpoint")]
    pub(crate) continue_prompt: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) generator: GeneratorOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate judge sampled.jsonl -o judged.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-72B-Instruct\n  \
gradus annotate judge sampled.jsonl -o judged.jsonl --votes 8 --temperature 0.7"
)]
pub(crate) struct Judge {
    #[command(flatten)]
    pub(crate) labelling: Labelling,
    /// Independent reviews of each solution; the most frequent verdict counts
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = at_least_one)]
    pub(crate) votes: usize,
    /// Most tokens of a review
    #[arg(long, value_name = "TOKENS", default_value_t = 2048, value_parser = at_least_one)]
    pub(crate) max_tokens: usize,
    /// How boldly tokens are drawn (0 by default, 0.7 with several votes)
    #[arg(short, long)]
    pub(crate) temperature: Option<f32>,
    /// A template that asks for a review, in place of ours (variables: problem, tagged)
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) generator: GeneratorOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate reference sampled.jsonl -o spare.jsonl --endpoint http://localhost:8000 --model Qwen/Qwen2.5-72B-Instruct\n\n\
Problems need a reference solution. Instructions and exemplars are chosen by the problem's domain: math, qa, spatial."
)]
pub(crate) struct Reference {
    #[command(flatten)]
    pub(crate) labelling: Labelling,
    /// Worked exemplars before the question, drawn anew for each solution
    #[arg(long = "shots", default_value_t = 5, value_name = "N")]
    pub(crate) shots: usize,
    /// Further attempts after an answer that cannot be used
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub(crate) attempts: usize,
    /// Most tokens of an answer
    #[arg(long, value_name = "TOKENS", default_value_t = 4096, value_parser = at_least_one)]
    pub(crate) max_tokens: usize,
    /// How boldly tokens are drawn
    #[arg(short, long, default_value_t = 0.0)]
    pub(crate) temperature: f32,
    /// Do not hold the answer to a JSON schema; it is checked all the same
    #[arg(long)]
    pub(crate) unstructured: bool,
    /// General instructions in place of ours
    #[arg(long, value_name = "FILE")]
    pub(crate) prompt: Option<PathBuf>,
    /// Instructions and exemplars of a domain in place of ours (.toml)
    #[arg(long, value_name = "FILE")]
    pub(crate) exemplars: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) generator: GeneratorOptions,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// Annotators that stand in data already.
#[derive(Debug, Args)]
pub(crate) struct Sources {
    /// Datasets with labels; solutions of several are matched by their ids
    #[arg(required = true, value_name = "INPUT")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Take a reward model's scores as an annotator: a step below the threshold is wrong; *:0.5 takes every model's. May be
    /// given several times
    #[arg(long, value_name = "NAME:THRESHOLD", value_parser = from_scores)]
    pub(crate) from_scores: Vec<(String, f64)>,
    /// Only these annotators, by the names that `annotate report` shows
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate consensus mc.jsonl judged.jsonl -o agreed.jsonl\n  \
gradus annotate consensus candidates.jsonl --from-scores '*:0.5' -o agreed.jsonl")]
pub(crate) struct Consensus {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Write the solutions on which all agree here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// How several labels become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EnsembleRule {
    /// A step is wrong if all say so
    Intersection,
    /// A step is wrong if anyone says so
    Union,
    /// A step is wrong if more than half say so
    Majority,
    /// Annotators are weighed by how reliable they are, which is found from the data
    DawidSkene,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate ensemble mc.jsonl judged.jsonl spare.jsonl --rule dawid-skene --least 0.9 -o labels.jsonl"
)]
pub(crate) struct Ensemble {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// How several labels become one
    #[arg(long, value_enum)]
    pub(crate) rule: EnsembleRule,
    /// dawid-skene: keep only solutions whose first error is at least this certain
    #[arg(long, value_name = "PROBABILITY")]
    pub(crate) least: Option<f64>,
    /// Write the solutions with the labels here, in our own format
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) print: Output,
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  gradus annotate report mc.jsonl judged.jsonl\n  \
gradus annotate report candidates.jsonl --from-scores '*:0.5' --json")]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) sources: Sources,
    /// Resamples for the intervals
    #[arg(long, default_value_t = 1000)]
    pub(crate) resamples: usize,
    #[command(flatten)]
    pub(crate) print: Output,
}

/// What a training set looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportForm {
    /// TRL's stepwise supervision: prompt, completions, labels
    Trl,
    /// Our own format, for gradus train prm
    Prm,
    /// RLHFlow's conversations: each step is answered with + or -
    Chat,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  gradus annotate export agreed.jsonl --to trl --balance -o train.jsonl\n\n\
Steps after the first error are left out: what they are is unknown."
)]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) input: Input,
    /// What the training set looks like
    #[arg(long, value_enum)]
    pub(crate) to: ExportForm,
    /// Where to write it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// The annotator whose labels are taken, by the name that `annotate report` shows; by default those that are to be
    /// believed, else the first
    #[arg(long, value_name = "NAME")]
    pub(crate) annotator: Option<String>,
    /// As many solutions with an error as without: leave out some of the more frequent kind
    #[arg(long)]
    pub(crate) balance: bool,
    /// With --balance: another seed leaves out others
    #[arg(long, default_value_t = 0, requires = "balance")]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) print: Output,
}

fn from_scores(text: &str) -> Result<(String, f64), String> {
    let wrong = || format!("`{text}` is not NAME:THRESHOLD, such as my-prm:0.5");
    let (name, threshold) = text.rsplit_once(':').ok_or_else(wrong)?;
    let threshold: f64 = threshold.parse().map_err(|_| wrong())?;
    if name.is_empty() || !(0.0..=1.0).contains(&threshold) {
        return Err(format!("`{text}`: expected a name and a threshold from 0 to 1"));
    }
    Ok((name.to_owned(), threshold))
}
